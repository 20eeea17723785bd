// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"liqo.io/federation/controllers/consumer/offloading"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/watches"
	"liqo.io/federation/controllers/link/addresses"
	"liqo.io/federation/controllers/link/tunnel"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/storage/consumer"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/informers/externalversions"
)

// Config is what the controllers share.
type Config struct {
	// Kube and Federation are this cluster's APIs.
	Kube       kubernetes.Interface
	Federation versioned.Interface
	// KubeInformers and FederationInformers are shared by all controllers of
	// the process. What they hold has no managed fields. They are started
	// when every controller has asked for what it needs.
	KubeInformers       kubeinformers.SharedInformerFactory
	FederationInformers externalversions.SharedInformerFactory
	// Events sends events about objects to this cluster.
	Events record.EventBroadcaster
	// Peers are the connections to the providers of this cluster.
	Peers *remote.Peers
	// ClusterID is the UID of this cluster's kube-system namespace.
	ClusterID string
	// Options are the flags: names, namespaces and policy.
	Options *Options

	client    *rest.Config
	scheme    *runtime.Scheme
	factories []factory
	// kinds are the kinds that this cluster serves; nil until a controller needs them.
	kinds *kit.ServedKinds
	// nodePods are the pods of the virtual nodes.
	nodePods *watches.Pods
	// manager runs the controllers on controller-runtime; nil until one needs it.
	manager ctrl.Manager
	// volumesIndexed is whether the manager caches pods and volumes by their claims.
	volumesIndexed bool
	// shadows are the volume claims on providers, capacity publishes how much storage
	// they have, and published is the cache of that; nil until a controller of storage
	// needs them.
	shadows   *consumer.Shadows
	capacity  *consumer.Capacity
	published cache.Cache
	// installed is the cache of the installation namespace; nil until a controller needs it.
	installed cache.Cache
	// singles is what the controllers of single addresses share; nil until one needs it.
	singles *addresses.Addresses
	// local is the gateway of this cluster; nil until a controller needs it.
	local *tunnel.Local
	// offloading is what the controllers of offloading on a consumer share; nil until one
	// needs it.
	offloading *offloading.Config
}

// factory is what shared informer factories of all groups have in common.
type factory interface {
	StartWithContext(ctx context.Context)
	WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool
	Shutdown()
}

// protobufThenJSON spares API servers and us the encoding of JSON for the kinds
// that have a protobuf form.
const protobufThenJSON = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON

func newConfig(client *rest.Config, options *Options) (*Config, error) {
	protobuf := rest.CopyConfig(client)
	protobuf.ContentType = runtime.ContentTypeProtobuf
	protobuf.AcceptContentTypes = protobufThenJSON
	kube, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return nil, fmt.Errorf("make a client of this cluster: %w", err)
	}
	federation, err := versioned.NewForConfig(protobuf)
	if err != nil {
		return nil, fmt.Errorf("make a client of the federation API: %w", err)
	}
	config := &Config{
		Kube:                kube,
		Federation:          federation,
		FederationInformers: externalversions.NewSharedInformerFactoryWithOptions(federation, 0, externalversions.WithTransform(remote.Trim)),
		Events:              record.NewBroadcaster(),
		Peers:               remote.NewPeers(options.ControlProxy.TokenFile),
		Options:             options,
		client:              client,
		scheme:              kit.NewScheme(),
		nodePods:            watches.PodsOfNodes(kube),
	}
	config.factories = []factory{config.FederationInformers}
	config.KubeInformers = config.NewKubeInformers()
	return config, nil
}

// NewKubeInformers makes informers for a part of the cluster, to be called by
// Init functions. They are started with the shared ones.
func (c *Config) NewKubeInformers(options ...kubeinformers.SharedInformerOption) kubeinformers.SharedInformerFactory {
	options = append([]kubeinformers.SharedInformerOption{kubeinformers.WithTransform(remote.Trim)}, options...)
	informers := kubeinformers.NewSharedInformerFactoryWithOptions(c.Kube, 0, options...)
	c.factories = append(c.factories, informers)
	return informers
}

// startInformers starts everything that the controllers asked for, and waits
// until the caches are filled.
func (c *Config) startInformers(ctx context.Context) error {
	for _, f := range c.factories {
		f.StartWithContext(ctx)
	}
	klog.FromContext(ctx).Info("Waiting for the caches of the controllers")
	for _, f := range c.factories {
		for kind, synced := range f.WaitForCacheSync(ctx.Done()) {
			if !synced {
				return fmt.Errorf("stopped before the cache of %v was filled", kind)
			}
		}
	}
	return nil
}

func (c *Config) stopInformers() {
	for _, f := range c.factories {
		f.Shutdown()
	}
}

// Recorder records events in the name of a controller.
func (c *Config) Recorder(controller string) record.EventRecorderLogger {
	return c.Events.NewRecorder(c.scheme, corev1.EventSource{Component: controller})
}

func (c *Config) startEventSink(ctx context.Context) {
	c.Events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.Kube.CoreV1().Events("")})
	context.AfterFunc(ctx, c.Events.Shutdown)
}

// statusCodec writes the errors of what the process serves.
func statusCodec() serializer.CodecFactory {
	return serializer.NewCodecFactory(runtime.NewScheme())
}
