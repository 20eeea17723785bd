// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/healthz"

	"liqo.io/federation/apiserver/server"
)

// authenticate configures delegated authentication: by the request headers of the front proxy, by
// client certificates, and by TokenReviews. It fails if the certificate authorities in ConfigMap
// extension-apiserver-authentication cannot be read.
func (o *Options) authenticate(generic *genericapiserver.RecommendedConfig, in *cluster) error {
	o.Authentication.RemoteKubeConfigFile = o.Kubeconfig
	certificates := map[string]dynamiccertificates.CAContentProvider{}
	if in.clientCertificates {
		clientCA, err := dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca",
			metav1.NamespaceSystem, authenticationConfigMap, clientCAKey, in.client)
		if err != nil {
			return fmt.Errorf("watching %s in ConfigMap %s/%s: %w", clientCAKey, metav1.NamespaceSystem, authenticationConfigMap,
				err)
		}
		o.Authentication.ClientCert.CAContentProvider = clientCA
		certificates[clientCAKey] = clientCA
	}
	info := &generic.Authentication
	if err := o.Authentication.ApplyTo(info, generic.SecureServing, generic.OpenAPIConfig); err != nil {
		return err
	}
	info.Authenticator = server.AnonymousOnlyOnHealthPaths(info.Authenticator)
	certificates[requestHeaderCAKey] = info.RequestHeaderConfig.CAContentProvider
	generic.AddReadyzChecks(healthz.NamedCheck("authorities", func(*http.Request) error { return loaded(certificates) }))
	return nil
}

// loaded returns an error for the readiness check until all certificate authorities are loaded, which are given
// by their keys in ConfigMap extension-apiserver-authentication. An informer loads them after the server has
// started; before, the server would refuse all users.
func loaded(authorities map[string]dynamiccertificates.CAContentProvider) error {
	for key, authority := range authorities {
		if _, ok := authority.VerifyOptions(); !ok {
			return fmt.Errorf("%s of ConfigMap %s/%s is not loaded", key, metav1.NamespaceSystem, authenticationConfigMap)
		}
	}
	return nil
}
