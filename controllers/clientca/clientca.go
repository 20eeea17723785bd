// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clientca reads the authority of the client certificates of the local cluster, and its
// changes. It uses less memory than the delegating options of k8s.io/apiserver, which matters for
// virtual kubelets.
package clientca

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

const (
	// ConfigMap is the name of the ConfigMap in namespace kube-system with the authority of
	// client certificates.
	ConfigMap = "extension-apiserver-authentication"
	// Key is the key of the authority in that ConfigMap.
	Key = "client-ca-file"
)

// Authority is the client CA, with which client certificates are verified; nil for a cluster without client
// certificates.
type Authority = dynamiccertificates.ConfigMapCAController

// New returns the authority; its method Run observes changes. It fails if the ConfigMap cannot be
// read, without which no client can be authenticated.
func New(ctx context.Context, client kubernetes.Interface) (*Authority, error) {
	configMap, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, ConfigMap, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the client CA from ConfigMap %s/%s: %w: "+
			"bind Role extension-apiserver-authentication-reader to this process",
			metav1.NamespaceSystem, ConfigMap, err)
	}
	if configMap.Data[Key] == "" {
		return nil, nil
	}
	return dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", metav1.NamespaceSystem,
		ConfigMap, Key, client)
}

// Loaded returns an error until an authority is loaded. The process serves before that, and does not
// authenticate clients by their certificates.
func Loaded(authority *Authority) error {
	if authority == nil {
		return nil
	}
	if _, ok := authority.VerifyOptions(); !ok {
		return fmt.Errorf("%s of ConfigMap %s/%s is not loaded", Key, metav1.NamespaceSystem, ConfigMap)
	}
	return nil
}
