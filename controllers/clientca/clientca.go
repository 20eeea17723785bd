// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clientca reads the CA bundle with which client certificates are verified in the local
// cluster, and observes its changes. It uses less memory than the delegating options of
// k8s.io/apiserver, which matters for virtual kubelets.
package clientca

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

const (
	// ConfigMap is the name of the ConfigMap in namespace kube-system with the CA bundle.
	ConfigMap = "extension-apiserver-authentication"
	// Key is the key of the CA bundle in that ConfigMap.
	Key = "client-ca-file"
)

// Authority has the CA bundle with which client certificates are verified. It is nil in a cluster without client
// certificates.
type Authority = dynamiccertificates.ConfigMapCAController

// New returns an Authority, whose method Run loads the CA bundle and observes changes. It returns
// nil if the ConfigMap has no CA bundle, and fails if the ConfigMap cannot be read.
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

// Loaded returns an error until the CA bundle is loaded, and nil if the Authority is nil. Before the CA bundle is
// loaded, the process serves requests, but does not authenticate clients by certificates.
func Loaded(authority *Authority) error {
	if authority == nil {
		return nil
	}
	if _, ok := authority.VerifyOptions(); !ok {
		return fmt.Errorf("%s of ConfigMap %s/%s is not loaded", Key, metav1.NamespaceSystem, ConfigMap)
	}
	return nil
}
