// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
)

// direction is the outgoing or the incoming peering with a cluster.
type direction struct {
	// namespace is the peer or tenant namespace, which has the NetworkConfigs of both clusters.
	namespace string
	// local and remote are the names of the NetworkConfigs of the local cluster and of the peer.
	local, remote string
	// phase is the phase of the peering in the status of the ForeignCluster.
	phase v1alpha1.PeeringPhase
	// capable is true if the peer announced the feature tunnel.
	capable bool
}

// directions returns the outgoing and then the incoming peering with a cluster, even if they ended, so that their
// objects are deleted. fc is nil if the ForeignCluster does not exist.
func (r *Reconciler) directions(ctx context.Context, name string, fc *v1alpha1.ForeignCluster) ([]direction, error) {
	outgoing := direction{
		namespace: naming.PeerNamespace(name),
		local:     v1alpha1.NetworkConfigOfConsumer, remote: v1alpha1.NetworkConfigOfProvider,
	}
	incoming := direction{
		namespace: naming.TenantNamespace(name),
		local:     v1alpha1.NetworkConfigOfProvider, remote: v1alpha1.NetworkConfigOfConsumer,
	}
	if fc != nil {
		outgoing.phase, incoming.phase = fc.Status.OutgoingPeering, fc.Status.IncomingPeering
	}
	requests, err := r.resourceRequests(ctx, outgoing.namespace)
	if err != nil {
		return nil, err
	}
	// A provider announces its features in the status, a consumer in the spec.
	outgoing.capable = slices.ContainsFunc(requests, func(request *v1alpha1.ResourceRequest) bool {
		return slices.Contains(request.Status.Features, compatibility.FeatureTunnel)
	})
	if requests, err = r.resourceRequests(ctx, incoming.namespace); err != nil {
		return nil, err
	}
	incoming.capable = slices.ContainsFunc(requests, func(request *v1alpha1.ResourceRequest) bool {
		return slices.Contains(request.Spec.Features, compatibility.FeatureTunnel)
	})
	return []direction{outgoing, incoming}, nil
}

func (r *Reconciler) resourceRequests(ctx context.Context, namespace string) ([]*v1alpha1.ResourceRequest, error) {
	var requests v1alpha1.ResourceRequestList
	err := r.Client.List(ctx, &requests, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	return kit.Pointers(requests.Items), err
}

// needsTunnel reports whether a peering needs a tunnel. If the peer supports tunnels, it does from the time when it
// is established until it has ended, because pods communicate until they are drained.
func (r *Reconciler) needsTunnel(ctx context.Context, d direction) (bool, error) {
	switch d.phase {
	case v1alpha1.PeeringEstablished:
		return d.capable, nil
	case v1alpha1.PeeringPending, v1alpha1.PeeringError, v1alpha1.PeeringDisconnecting:
		config, err := r.config(ctx, d.namespace, d.local)
		return config != nil, err
	}
	return false, nil
}

// config returns a NetworkConfig; nil if there is none.
func (r *Reconciler) config(ctx context.Context, namespace, name string) (*v1alpha1.NetworkConfig, error) {
	config := &v1alpha1.NetworkConfig{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, config); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return config, nil
}

// deleteConfig deletes the local NetworkConfig of one peering.
func (r *Reconciler) deleteConfig(ctx context.Context, d direction) error {
	config, err := r.config(ctx, d.namespace, d.local)
	if err != nil || config == nil || config.DeletionTimestamp != nil || !isManaged(config) {
		return err
	}
	return kit.Delete(ctx, r.Client, config)
}
