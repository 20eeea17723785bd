// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clientca follows the authority by which this cluster knows its users'
// certificates. It needs little memory: the delegating options of
// k8s.io/apiserver do more, and virtual kubelets cannot afford them.
package clientca

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

const (
	// ConfigMap is where a cluster says by which authority its users are known,
	// in the namespace kube-system, and Key its key there.
	ConfigMap = "extension-apiserver-authentication"
	Key       = "client-ca-file"
)

// Authority is the authority of client certificates. The one of a cluster that
// knows nobody by a certificate is nil.
type Authority = dynamiccertificates.ConfigMapCAController

// New finds the authority; its method Run follows it. Without the right to read
// the ConfigMap it fails: clients could not be told apart.
func New(ctx context.Context, client kubernetes.Interface) (*Authority, error) {
	configMap, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, ConfigMap, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("learn whose certificates count from ConfigMap %s/%s: %w: bind Role extension-apiserver-authentication-reader to this process",
			metav1.NamespaceSystem, ConfigMap, err)
	}
	if configMap.Data[Key] == "" {
		return nil, nil
	}
	return dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", metav1.NamespaceSystem, ConfigMap, Key, client)
}

// Loaded says why an authority does not count yet: it is read while the process
// serves already, and until then who shows a certificate is nobody.
func Loaded(authority *Authority) error {
	if authority == nil {
		return nil
	}
	if _, ok := authority.VerifyOptions(); !ok {
		return fmt.Errorf("%s of ConfigMap %s/%s is not loaded", Key, metav1.NamespaceSystem, ConfigMap)
	}
	return nil
}
