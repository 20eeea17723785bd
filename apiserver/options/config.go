// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/server"
	federationrest "liqo.io/federation/registry/federation/rest"
	"liqo.io/federation/registry/federation/volumestats"
)

// resync is the period after which informers pass all cached objects to their handlers again.
const resync = 10 * time.Minute

// config returns the configuration of the server. listen must have opened the port, and o.Etcd must
// have servers. alone means that no other API server uses the same etcd. Errors end with the remedy if
// one is known.
func (o *Options) config(in *cluster, alone bool) (*server.Config, error) {
	config := server.NewConfig()
	generic := config.Generic
	generic.ClientConfig = in.config
	generic.SharedInformerFactory = informers.NewSharedInformerFactoryWithOptions(in.client, resync,
		informers.WithTransform(withoutManagedFields))

	generic.MaxRequestsInFlight = o.MaxRequests
	generic.MaxMutatingRequestsInFlight = o.MaxMutatingRequests
	config.MaxPeerWatches = o.MaxPeerWatches
	// Tracing is configured first, because the storage uses its tracer provider.
	if err := o.Tracing.ApplyTo(nil, &generic.Config); err != nil {
		return nil, fmt.Errorf("configuring tracing: %w: check --tracing-config-file", err)
	}
	o.Etcd.StorageConfig.Transport.TracerProvider = generic.TracerProvider
	if err := o.Etcd.ApplyTo(&generic.Config); err != nil {
		return nil, fmt.Errorf("configuring storage: %w: check --encryption-provider-config", err)
	}
	if err := o.Serving.ApplyToConfig(&generic.Config); err != nil {
		return nil, fmt.Errorf("configuring HTTPS: %w: check --tls-cert-file and --tls-private-key-file", err)
	}
	if err := o.authenticate(generic, in); err != nil {
		return nil, fmt.Errorf("configuring authentication: %w: check ConfigMap %s/%s, and the permission to read it", err,
			metav1.NamespaceSystem, authenticationConfigMap)
	}
	authorizer, err := o.Authorization.authorizer(in.config)
	if err != nil {
		return nil, err
	}
	generic.Authorization.Authorizer = authorizer
	if err := o.Audit.ApplyTo(&generic.Config); err != nil {
		return nil, fmt.Errorf("configuring the audit log: %w: "+
			"check --audit-policy-file, --audit-log-path and --audit-webhook-config-file", err)
	}
	if err := o.Features.ApplyTo(&generic.Config, in.client, generic.SharedInformerFactory); err != nil {
		return nil, fmt.Errorf("configuring priority and fairness: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(in.config)
	if err != nil {
		return nil, fmt.Errorf("creating the client for admission: %w", err)
	}
	if err := o.Admission.ApplyTo(&generic.Config, generic.SharedInformerFactory, in.client, dynamicClient,
		utilfeature.DefaultFeatureGate, generic.EffectiveVersion); err != nil {
		return nil, fmt.Errorf("configuring admission: %w: check --admission-control-config-file", err)
	}

	serverCA, err := bundleOf(o.ServerCAFile, in.config)
	if err != nil {
		return nil, err
	}
	ownCA, err := bundleOf("", in.config)
	if err != nil {
		return nil, err
	}
	kubelets, err := volumestats.Client(in.config)
	if err != nil {
		return nil, err
	}
	config.Resources = federationrest.StorageProvider{
		Client:              in.client,
		Kubelets:            kubelets,
		Namespaces:          generic.SharedInformerFactory.Core().V1().Namespaces().Lister(),
		Alone:               alone,
		Namespace:           o.Namespace,
		InvitationNamespace: o.InvitationNamespace,
		ClusterName:         o.ClusterName,
		ClusterID:           in.id,
		Server:              o.Server,
		ServerCA:            serverCA,
		OwnCA:               ownCA,
		Trust:               federation.PeeringTrust(o.Trust),
		Pods:                o.Pods,
		APIAccess:           v1alpha1.APIAccess(o.APIAccess),
	}
	return config, nil
}

// withoutManagedFields removes managed fields from cached objects to save memory. No admission plugin
// reads them.
func withoutManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
