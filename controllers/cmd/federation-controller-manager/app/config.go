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

// Config has the clients, caches and options that the controllers of this process share.
type Config struct {
	// Kube is the client of the local cluster for requests that the manager's client does not support: discovery, logs,
	// access reviews, and watches of single nodes and namespaces.
	Kube kubernetes.Interface
	// Events records events in the local cluster.
	Events record.EventBroadcaster
	// Peers has the connections to the providers of the local cluster.
	Peers *remote.Peers
	// ClusterID is the UID of the Namespace kube-system in the local cluster.
	ClusterID string
	// Options are the parsed flags.
	Options *Options

	client *rest.Config
	scheme *runtime.Scheme
	// kinds caches which kinds the local cluster serves; nil until a controller needs it.
	kinds *kit.ServedKinds
	// nodePods watches the pods that are bound to virtual nodes.
	nodePods *watches.Pods
	// manager is the controller-runtime manager of all controllers; nil until a controller needs it.
	manager ctrl.Manager
	// volumesIndexed is true once VolumeManager has added the indexes of pods and PersistentVolumes.
	volumesIndexed bool
	// shadows reads and writes the ShadowVolumeClaims of providers, and capacity publishes the storage capacity of
	// providers; each is nil until a storage controller needs it.
	shadows  *consumer.Shadows
	capacity *consumer.Capacity
	// installed is the cache of the installation namespace; nil until a controller needs it.
	installed cache.Cache
	// singles is shared by the controllers that create AddressMappings for single addresses; nil until a controller
	// needs it.
	singles *addresses.Addresses
	// local is the gateway of the local cluster; nil until a controller needs it.
	local *tunnel.Local
	// offloading is shared by the consumer's controllers of offloaded namespaces; nil until a controller needs it.
	offloading *offloading.Config
}

// protobufThenJSON accepts protobuf, which is cheaper to encode than JSON, and JSON for kinds without a protobuf form.
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

// Recorder returns an event recorder whose events have the controller as their source.
func (c *Config) Recorder(controller string) record.EventRecorderLogger {
	return c.Events.NewRecorder(c.scheme, corev1.EventSource{Component: controller})
}

func (c *Config) startEventSink(ctx context.Context) {
	c.Events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.Kube.CoreV1().Events("")})
	context.AfterFunc(ctx, c.Events.Shutdown)
}

// statusCodec returns the codec for error responses of the health and metrics endpoints.
func statusCodec() serializer.CodecFactory {
	return serializer.NewCodecFactory(runtime.NewScheme())
}
