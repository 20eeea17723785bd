// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointslice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// retryInterval is the time between two attempts after a conflict, after a refusal by the API server, or if the
// namespace is not a remote namespace. No watch event reports that such an obstacle is gone.
const retryInterval = 30 * time.Second

// errConflict means that an EndpointSlice with the name of the ShadowEndpointSlice exists that another client
// created.
var errConflict = errors.New("an EndpointSlice of that name belongs to no shadow endpoint slice")

// Reconcile ensures the EndpointSlice of one ShadowEndpointSlice, or deletes it, and writes the condition
// Ready.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return kit.Result(r.reconcile(ctx, request.NamespacedName))
}

func (r *Reconciler) reconcile(ctx context.Context, key client.ObjectKey) (time.Duration, error) {
	existing := &discoveryv1.EndpointSlice{}
	err := r.owned.Get(ctx, key, existing)
	if apierrors.IsNotFound(err) {
		existing, err = nil, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading EndpointSlice %s: %w", key, err)
	}
	shadow := &v1alpha1.ShadowEndpointSlice{}
	err = r.Client.Get(ctx, key, shadow)
	if apierrors.IsNotFound(err) {
		// writeInterval also applies between the deletion of an EndpointSlice and its next creation.
		wait := r.untilWrite(key)
		if wait == 0 {
			r.forget(key)
		}
		return wait, r.remove(ctx, existing)
	}
	if err != nil {
		return 0, fmt.Errorf("reading shadow endpoint slice %s: %w", key, err)
	}
	if !shadow.DeletionTimestamp.IsZero() {
		return 0, r.remove(ctx, existing)
	}
	namespace, cluster, err := r.origin(ctx, key.Namespace)
	if err != nil {
		return 0, err
	}
	if namespace == nil {
		return retryInterval, r.report(ctx, shadow, notRemote)
	}
	filter, state, err := r.check(ctx, cluster)
	if err != nil {
		return 0, err
	}
	switch state.reason {
	case reasonNoNetwork, reasonServicesUnknown, reasonPodsUnknown:
		// kube-proxy on each node would cache endpoints that cannot be reached.
		if err := r.remove(ctx, existing); err != nil {
			return 0, err
		}
		return 0, r.report(ctx, shadow, state)
	}
	wanted, left := sliceFor(shadow, namespace, state.ready, filter)
	state = state.without(left, len(wanted.Endpoints))
	switch {
	case existing == nil:
		return r.write(ctx, shadow, state, func(ctx context.Context) error { return r.create(ctx, wanted) })
	case !metav1.IsControlledBy(existing, shadow):
		if ownedByShadow(existing) {
			return 0, r.remove(ctx, existing)
		}
		return retryInterval, r.report(ctx, shadow, inConflict)
	case !existing.DeletionTimestamp.IsZero():
		// The end of the deletion enqueues the ShadowEndpointSlice again.
		return 0, nil
	case existing.AddressType != wanted.AddressType:
		// The EndpointSlice is created again once its deletion has ended.
		return 0, r.remove(ctx, existing)
	}
	if !kit.UpdateEndpointSlice(existing, wanted) {
		return 0, r.report(ctx, shadow, state)
	}
	return r.write(ctx, shadow, state, func(ctx context.Context) error { return r.Client.Update(ctx, existing) })
}

// check returns the filter for the addresses of a consumer's endpoints, and whether the endpoints can be reached.
// cluster is nil if the ForeignCluster of the consumer was deleted.
func (r *Reconciler) check(
	ctx context.Context, cluster *v1alpha1.ForeignCluster,
) (netmap.AddressFilter, readiness, error) {
	info := &v1alpha1.ClusterInfo{}
	key := client.ObjectKey{Name: v1alpha1.ClusterInfoName}
	if err := r.Client.Get(ctx, key, info); client.IgnoreNotFound(err) != nil {
		return netmap.AddressFilter{}, readiness{}, fmt.Errorf("reading ClusterInfo %s: %w", v1alpha1.ClusterInfoName, err)
	}
	filter := netmap.NewAddressFilter(info, r.Network.Refused)
	state := reachability(cluster)
	if state.ready && !filter.Complete {
		state = servicesUnknown
	}
	if cluster == nil || cmp.Or(cluster.Spec.Networking, r.Network.Networking) != v1alpha1.NetworkingTunnel {
		if state.ready && trust.Of(cluster) == v1alpha1.TrustTenant && !netmap.PodsKnown(info, r.Network.Refused) {
			filter.Complete, state = false, podsUnknown
		}
		return filter, state, nil
	}
	var err error
	if filter.Tunnel, err = r.tunnel(ctx, cluster); err != nil {
		return netmap.AddressFilter{}, readiness{}, err
	}
	if len(filter.Tunnel) == 0 {
		state = noTunnel
	}
	return filter, state, nil
}

// write creates or updates the EndpointSlice with do, at most once per writeInterval, and writes the condition Ready
// of the ShadowEndpointSlice. It returns the time after which to reconcile again, or zero.
func (r *Reconciler) write(
	ctx context.Context, shadow *v1alpha1.ShadowEndpointSlice, state readiness, do func(context.Context) error,
) (time.Duration, error) {
	key := client.ObjectKeyFromObject(shadow)
	if wait := r.untilWrite(key); wait > 0 {
		return wait, nil
	}
	r.recordWrite(key)
	err := do(ctx)
	switch {
	case err == nil:
		return 0, r.report(ctx, shadow, state)
	case errors.Is(err, errConflict):
		return retryInterval, r.report(ctx, shadow, inConflict)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), apierrors.IsNotFound(err):
		return 0, nil
	case remote.Refused(err):
		// The error may quote text that the peer wrote.
		refused := readiness{reason: v1alpha1.ReasonProviderRefused, message: remote.Refusal(err, remote.MaxText)}
		return retryInterval, r.report(ctx, shadow, refused)
	}
	return 0, fmt.Errorf("writing EndpointSlice %s: %w", key, err)
}

func (r *Reconciler) create(ctx context.Context, wanted *discoveryv1.EndpointSlice) error {
	err := r.Client.Create(ctx, wanted.DeepCopy())
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	// The EndpointSlice is not in the cache: it lost the label that the cache selects, was created a
	// moment ago, or belongs to another client.
	live := &discoveryv1.EndpointSlice{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(wanted), live); err != nil {
		return err
	}
	if !ownedByShadow(live) {
		return errConflict
	}
	if live.AddressType != wanted.AddressType || metav1.GetControllerOf(live).UID != wanted.OwnerReferences[0].UID {
		// The cache does not contain the EndpointSlice, so its deletion may cause no event.
		if err := r.remove(ctx, live); err != nil {
			return err
		}
		return r.Client.Create(ctx, wanted)
	}
	if kit.UpdateEndpointSlice(live, wanted) {
		return r.Client.Update(ctx, live)
	}
	return nil
}

// remove deletes an EndpointSlice that belongs to a ShadowEndpointSlice.
func (r *Reconciler) remove(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	if slice == nil || !ownedByShadow(slice) || !slice.DeletionTimestamp.IsZero() {
		return nil
	}
	return kit.Delete(ctx, r.Client, slice)
}

// origin returns a remote namespace and the ForeignCluster of its consumer. The namespace is nil if it is
// not a remote namespace, and the ForeignCluster is nil if it was deleted.
func (r *Reconciler) origin(ctx context.Context, name string) (*corev1.Namespace, *v1alpha1.ForeignCluster, error) {
	namespace := &corev1.Namespace{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return nil, nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	if namespace.Labels[v1alpha1.LabelRole] != v1alpha1.RoleRemoteNamespace {
		return nil, nil, nil
	}
	cluster := &v1alpha1.ForeignCluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: namespace.Labels[v1alpha1.LabelForeignCluster]}, cluster)
	if apierrors.IsNotFound(err) {
		return namespace, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the foreign cluster of namespace %s: %w", name, err)
	}
	return namespace, cluster, nil
}

// tunnel returns the ranges in which this cluster reaches the pods and other endpoints of a consumer through the
// tunnel; none if the tunnel does not exist.
func (r *Reconciler) tunnel(ctx context.Context, consumer *v1alpha1.ForeignCluster) ([]netip.Prefix, error) {
	tunnel := &v1alpha1.TunnelEndpoint{}
	err := r.owned.Get(ctx, client.ObjectKey{Namespace: r.Network.Namespace, Name: consumer.Name}, tunnel)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the tunnel to %s: %w", consumer.Name, err)
	}
	// A TunnelEndpoint with another cluster ID is about to be deleted.
	if err != nil || tunnel.Spec.ClusterID != consumer.Spec.ClusterID {
		return nil, nil
	}
	return rangesOf(tunnel), nil
}

// report writes the condition Ready of a ShadowEndpointSlice, if it changed.
func (r *Reconciler) report(ctx context.Context, shadow *v1alpha1.ShadowEndpointSlice, state readiness) error {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: state.reason, Message: state.message,
		ObservedGeneration: shadow.Generation, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	}
	if state.ready {
		condition.Status = metav1.ConditionTrue
	}
	changed := shadow.DeepCopy()
	if !meta.SetStatusCondition(&changed.Status.Conditions, condition) {
		return nil
	}
	_, err := kit.Commit(ctx, r.Client, shadow, changed)
	return client.IgnoreNotFound(err)
}
