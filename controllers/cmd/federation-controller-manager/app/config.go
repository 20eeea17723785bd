// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"liqo.io/federation/controllers/consumer/offloading"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/watches"
	"liqo.io/federation/controllers/link/addresses"
	"liqo.io/federation/controllers/link/tunnel"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/storage/consumer"
)

// Config is shared by the controllers.
type Config struct {
	// Kube is the client of the local cluster for what the manager's client does not serve: discovery, logs, reviews and
	// watches of single nodes and namespaces.
	Kube kubernetes.Interface
	// Events records events in the local cluster.
	Events record.EventBroadcaster
	// Peers are the connections to the providers of this cluster.
	Peers *remote.Peers
	// ClusterID is the UID of this cluster's kube-system namespace.
	ClusterID string
	// Options are the flags: names, namespaces and policy.
	Options *Options

	client *rest.Config
	scheme *runtime.Scheme
	// kinds are the kinds that this cluster serves; nil until a controller needs them.
	kinds *kit.ServedKinds
	// nodePods are the pods of the virtual nodes.
	nodePods *watches.Pods
	// manager runs the controllers on controller-runtime; nil until one needs it.
	manager ctrl.Manager
	// volumesIndexed is whether the manager caches pods and volumes by their claims.
	volumesIndexed bool
	// shadows are the volume claims on providers, capacity publishes the storage of providers,
	// and published is the cache of that; nil until a controller of storage needs them.
	shadows   *consumer.Shadows
	capacity  *consumer.Capacity
	published cache.Cache
	// installed is the cache of the installation namespace; nil until a controller needs it.
	installed cache.Cache
	// singles is shared by the controllers of single addresses; nil until one needs it.
	singles *addresses.Addresses
	// local is the gateway of this cluster; nil until a controller needs it.
	local *tunnel.Local
	// offloading is shared by the controllers of offloading on a consumer; nil until one needs
	// it.
	offloading *offloading.Config
}

// protobufThenJSON spares both sides of a connection the encoding of JSON for the kinds that have
// a protobuf form.
const protobufThenJSON = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON

func newConfig(client *rest.Config, options *Options) (*Config, error) {
	protobuf := rest.CopyConfig(client)
	protobuf.ContentType = runtime.ContentTypeProtobuf
	protobuf.AcceptContentTypes = protobufThenJSON
	kube, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return nil, fmt.Errorf("creating the client of the local cluster: %w", err)
	}
	return &Config{
		Kube:     kube,
		Events:   record.NewBroadcaster(),
		Peers:    remote.NewPeers(options.ControlProxy.TokenFile),
		Options:  options,
		client:   client,
		scheme:   kit.NewScheme(),
		nodePods: watches.PodsOfNodes(kube),
	}, nil
}

// Recorder records events in the name of a controller.
func (c *Config) Recorder(controller string) record.EventRecorderLogger {
	return c.Events.NewRecorder(c.scheme, corev1.EventSource{Component: controller})
}

func (c *Config) startEventSink(ctx context.Context) {
	c.Events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.Kube.CoreV1().Events("")})
	context.AfterFunc(ctx, c.Events.Shutdown)
}

// statusCodec encodes the errors of the endpoints for health and metrics.
func statusCodec() serializer.CodecFactory {
	return serializer.NewCodecFactory(runtime.NewScheme())
}
