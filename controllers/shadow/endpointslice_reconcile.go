// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/remote"
)

// sliceRetry is when a slice is tried again that was in conflict, or refused:
// what has to change is no event here.
const sliceRetry = 30 * time.Second

// reconcile brings one shadow endpoint slice and the EndpointSlice of its name
// together, whatever has happened to either of them.
func (c *EndpointSlices) reconcile(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	existing, err := c.slices.EndpointSlices(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		existing, err = nil, nil
	}
	if err != nil {
		return 0, err
	}
	shadow, err := c.shadows.ShadowEndpointSlices(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		// Not before its time: one that is made anew is no faster.
		wait := c.tooSoon(key)
		if wait == 0 {
			c.forget(key)
		}
		return wait, c.remove(ctx, existing)
	}
	if err != nil {
		return 0, err
	}
	if !shadow.DeletionTimestamp.IsZero() {
		return 0, c.remove(ctx, existing)
	}
	twin, cluster, err := c.origin(key.Namespace)
	if err != nil {
		return 0, err
	}
	if twin == nil {
		return sliceRetry, c.say(ctx, shadow, verdict{reason: reasonNotATwin, message: "The namespace is not a twin of a consumer's; nothing is reached from there."})
	}
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return 0, err
	}
	services, err := c.services.List(labels.Everything())
	if err != nil {
		return 0, err
	}
	own := territoryOf(nodes, services, c.network.Refused)
	v := reachability(cluster)
	if v.ready && len(services) == 0 && len(c.network.Refused) == 0 {
		v = servicesUnknown
	}
	if cluster != nil && cmp.Or(cluster.Spec.Networking, c.network.Networking) == v1alpha1.NetworkingTunnel {
		if own.tunnel, err = c.tunnel(cluster); err != nil {
			return 0, err
		}
		if len(own.tunnel) == 0 {
			v = noTunnel
		}
	}
	if v.reason == reasonNoNetwork || v.reason == reasonServicesUnknown {
		// Every node would keep what it can never use.
		if err := c.remove(ctx, existing); err != nil {
			return 0, err
		}
		return 0, c.say(ctx, shadow, v)
	}
	wanted, left := sliceFor(shadow, twin, v.ready, own)
	v = judged(v, left, len(wanted.Endpoints))
	switch {
	case existing == nil:
		return c.write(ctx, key, shadow, v, func(ctx context.Context) error { return c.create(ctx, wanted) })
	case !metav1.IsControlledBy(existing, shadow):
		if ownedByShadow(existing) {
			return 0, c.remove(ctx, existing)
		}
		return sliceRetry, c.say(ctx, shadow, inConflict)
	case !existing.DeletionTimestamp.IsZero():
		// That it is gone will be an event.
		return 0, nil
	case existing.AddressType != wanted.AddressType:
		// It is made anew when it is gone.
		return 0, c.remove(ctx, existing)
	}
	changed := existing.DeepCopy()
	if !bring(changed, wanted) {
		return 0, c.say(ctx, shadow, v)
	}
	return c.write(ctx, key, shadow, v, func(ctx context.Context) error { return c.update(ctx, changed) })
}

var inConflict = verdict{reason: reasonConflict, message: "The provider has an EndpointSlice of this name that is not made of a shadow endpoint slice; it is left alone."}

var servicesUnknown = verdict{reason: reasonServicesUnknown, message: "The provider does not tell the addresses of its Services, by no ServiceCIDR and no refused CIDR of its administrators; there is no EndpointSlice."}

var noTunnel = verdict{reason: reasonNoNetwork, message: "No tunnel is agreed upon between the clusters; there is no EndpointSlice."}

// errConflict says that the name is somebody else's.
var errConflict = errors.New("an EndpointSlice of that name is not made of a shadow endpoint slice")

// write changes the EndpointSlice, not too soon after the last time, and tells
// the consumer how that went.
func (c *EndpointSlices) write(ctx context.Context, key cache.ObjectName, shadow *v1alpha1.ShadowEndpointSlice, v verdict, do func(context.Context) error) (time.Duration, error) {
	if wait := c.tooSoon(key); wait > 0 {
		return wait, nil
	}
	c.wrote(key)
	err := do(ctx)
	switch {
	case err == nil:
		return 0, c.say(ctx, shadow, v)
	case errors.Is(err, errConflict):
		return sliceRetry, c.say(ctx, shadow, inConflict)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), apierrors.IsNotFound(err):
		return 0, nil
	case remote.Refused(err):
		// It may quote what the peer wrote.
		return sliceRetry, c.say(ctx, shadow, verdict{reason: v1alpha1.ReasonProviderRefused, message: remote.Text(err.Error())})
	}
	return 0, fmt.Errorf("write EndpointSlice %s: %w", key, err)
}

func (c *EndpointSlices) create(ctx context.Context, wanted *discoveryv1.EndpointSlice) error {
	client := c.kube.DiscoveryV1().EndpointSlices(wanted.Namespace)
	_, err := client.Create(ctx, wanted, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	// It lost the label that the cache selects by, was not seen yet, or is
	// somebody else's.
	live, err := client.Get(ctx, wanted.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !ownedByShadow(live) {
		return errConflict
	}
	if live.AddressType != wanted.AddressType || metav1.GetControllerOf(live).UID != wanted.OwnerReferences[0].UID {
		// The cache may not tell when it is gone.
		if err := c.remove(ctx, live); err != nil {
			return err
		}
		_, err = client.Create(ctx, wanted, metav1.CreateOptions{})
		return err
	}
	if bring(live, wanted) {
		return c.update(ctx, live)
	}
	return nil
}

func (c *EndpointSlices) update(ctx context.Context, changed *discoveryv1.EndpointSlice) error {
	_, err := c.kube.DiscoveryV1().EndpointSlices(changed.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	return err
}

// remove deletes an EndpointSlice that was made of a shadow one, as it was
// seen.
func (c *EndpointSlices) remove(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	if slice == nil || !ownedByShadow(slice) || !slice.DeletionTimestamp.IsZero() {
		return nil
	}
	err := c.kube.DiscoveryV1().EndpointSlices(slice.Namespace).Delete(ctx, slice.Name, *metav1.NewPreconditionDeleteOptions(string(slice.UID)))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete EndpointSlice %s/%s: %w", slice.Namespace, slice.Name, err)
	}
	return nil
}

// origin is a twin namespace and its consumer; nil if it is none, or if that is
// gone.
func (c *EndpointSlices) origin(namespace string) (*corev1.Namespace, *v1alpha1.ForeignCluster, error) {
	twin, err := c.namespaces.Get(namespace)
	if err != nil {
		return nil, nil, fmt.Errorf("find namespace %s: %w", namespace, err)
	}
	if twin.Labels[v1alpha1.LabelRole] != v1alpha1.RoleTwin {
		return nil, nil, nil
	}
	cluster, err := c.clusters.Get(twin.Labels[v1alpha1.LabelForeignCluster])
	if apierrors.IsNotFound(err) {
		return twin, nil, nil
	}
	return twin, cluster, err
}

// tunnel are the ranges that the tunnel to a consumer leads to, as they are called
// here; none while none is agreed upon.
func (c *EndpointSlices) tunnel(consumer *v1alpha1.ForeignCluster) ([]netip.Prefix, error) {
	tunnel, err := c.tunnels.Get(consumer.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	// One to another cluster of that name is about to go.
	if err != nil || tunnel.Spec.ClusterID != consumer.Spec.ClusterID {
		return nil, err
	}
	return rangesOf(tunnel), nil
}

// say tells the consumer how its endpoints stand.
func (c *EndpointSlices) say(ctx context.Context, shadow *v1alpha1.ShadowEndpointSlice, v verdict) error {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v.reason, Message: v.message,
		ObservedGeneration: shadow.Generation, LastTransitionTime: metav1.NewTime(c.clock.Now()),
	}
	if v.ready {
		condition.Status = metav1.ConditionTrue
	}
	changed := shadow.DeepCopy()
	if !meta.SetStatusCondition(&changed.Status.Conditions, condition) {
		return nil
	}
	_, err := commit.Commit(ctx, c.federation.FederationV1alpha1().ShadowEndpointSlices(shadow.Namespace), shadow, changed)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
