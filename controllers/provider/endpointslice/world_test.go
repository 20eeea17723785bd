// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointslice

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

const remoteName = "shop-rome"

var (
	noon = kittest.Epoch
	web  = client.ObjectKey{Namespace: remoteName, Name: "web-abcde"}
)

func shadowSlice(change ...func(*v1alpha1.ShadowEndpointSlice)) *v1alpha1.ShadowEndpointSlice {
	shadow := &v1alpha1.ShadowEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-abcde", Namespace: remoteName, UID: "shadow-uid", Generation: 1,
			Labels: map[string]string{discoveryv1.LabelServiceName: "web",
				discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io", v1alpha1.LabelOrigin: "elsewhere"},
			Annotations: map[string]string{"a": "b"},
		},
		Spec: v1alpha1.ShadowEndpointSliceSpec{
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP),
				Port: ptr.To[int32](8080)}},
			Endpoints: []v1alpha1.ShadowEndpoint{
				{Addresses: []string{"10.1.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}, Hostname: ptr.To("web-0")},
				{Addresses: []string{"10.1.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)}},
			},
		},
	}
	for _, c := range change {
		c(shadow)
	}
	return shadow
}

// reported is a shadow slice with a condition Ready.
func reported(v readiness, change ...func(*v1alpha1.ShadowEndpointSlice)) *v1alpha1.ShadowEndpointSlice {
	shadow := shadowSlice(change...)
	status := metav1.ConditionFalse
	if v.ready {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&shadow.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: status, Reason: v.reason, Message: v.message,
		ObservedGeneration: shadow.Generation,
	})
	return shadow
}

func rome(change ...func(*v1alpha1.ForeignCluster)) *v1alpha1.ForeignCluster {
	cluster := &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "rome"},
		Status: v1alpha1.ForeignClusterStatus{
			Networking: v1alpha1.PeeringEstablished,
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionConsumerAlive, Status: metav1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(cluster)
	}
	return cluster
}

func withExpiredHeartbeat(cluster *v1alpha1.ForeignCluster) {
	cluster.Status.Conditions[0].Status = metav1.ConditionFalse
}

func withoutNetwork(cluster *v1alpha1.ForeignCluster) {
	cluster.Status.Networking = v1alpha1.PeeringNone
}

func remoteNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: remoteName, Labels: map[string]string{
		v1alpha1.LabelRole: v1alpha1.RoleRemoteNamespace, v1alpha1.LabelForeignCluster: "rome",
		v1alpha1.LabelOrigin: "consumer-id", v1alpha1.LabelDestination: "provider-id",
	}}}
}

// node returns the ranges of a node and its pods.
func node(address, pods string) []v1alpha1.ClusterRange {
	return []v1alpha1.ClusterRange{
		{Use: v1alpha1.RangeOfNodes, CIDR: address + "/32", Source: v1alpha1.SourceNode},
		{Use: v1alpha1.RangeOfPods, CIDR: pods, Source: v1alpha1.SourceNode},
	}
}

// clusterInfo returns a ClusterInfo with these ranges of Services, followed by the other ranges.
func clusterInfo(services []string, others ...v1alpha1.ClusterRange) *v1alpha1.ClusterInfo {
	info := &v1alpha1.ClusterInfo{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterInfoName}}
	for _, cidr := range services {
		info.Status.Ranges = append(info.Status.Ranges, v1alpha1.ClusterRange{
			Use: v1alpha1.RangeOfServices, CIDR: cidr, Source: v1alpha1.SourceServiceCIDR,
		})
	}
	info.Status.Ranges = append(info.Status.Ranges, others...)
	return info
}

// sliceOf returns the EndpointSlice of a shadow one as the API server has it.
func sliceOf(shadow *v1alpha1.ShadowEndpointSlice, reachable bool,
	change ...func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	slice, _ := sliceFor(shadow, remoteNamespace(), reachable, netmap.AddressFilter{Complete: true})
	slice.UID = "slice-uid"
	for _, c := range change {
		c(slice)
	}
	return slice
}

// kept is a finalizer for test objects that are being deleted. The controller does not read it.
const kept = "example.com/grace-period"

// world is a provider with a consumer, rome, and its shadow slice.
type world struct {
	*kittest.Cluster
	r *Reconciler
	// unseen is true if the cache contains no EndpointSlices.
	unseen bool
}

// newWorld returns a provider with objects.
func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	for _, object := range objects {
		if !object.GetDeletionTimestamp().IsZero() && len(object.GetFinalizers()) == 0 {
			object.SetFinalizers([]string{kept})
		}
	}
	w := &world{Cluster: kittest.New(t, objects...)}
	w.r = &Reconciler{Client: w.Controller, Live: w.Controller, Clock: w.Clock, Network: Network{
		Refused: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}, Networking: v1alpha1.NetworkingFlat,
		Namespace: "liqo",
	}}
	w.r.owned = w.Cache(w.isCached)
	return w
}

// isCached reports whether the controller's own cache has an object.
func (w *world) isCached(object client.Object) bool {
	_, isSlice := object.(*discoveryv1.EndpointSlice)
	return !isSlice || !w.unseen && object.GetLabels()[discoveryv1.LabelManagedBy] == v1alpha1.ManagedBy
}

// pass reconciles once.
func (w *world) pass(t *testing.T) (ctrl.Result, error) {
	t.Helper()
	return w.r.Reconcile(t.Context(), kit.Request(web.Namespace, web.Name))
}

// reason returns the status and reason of the condition Ready; empty if there is none.
func (w *world) reason() string {
	shadow := &v1alpha1.ShadowEndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}}
	if !w.Has(shadow) {
		return ""
	}
	if ready := meta.FindStatusCondition(shadow.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return string(ready.Status) + " " + ready.Reason
	}
	return ""
}

// addresses returns the addresses in the EndpointSlice, and whether it exists.
func (w *world) addresses() ([]string, bool) {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}}
	if !w.Has(slice) {
		return nil, false
	}
	var all []string
	for _, endpoint := range slice.Endpoints {
		all = slices.Concat(all, endpoint.Addresses)
	}
	return all, true
}

// ownRanges returns the ClusterInfo of the provider with its Service CIDR and further ranges.
func ownRanges(others ...v1alpha1.ClusterRange) *v1alpha1.ClusterInfo {
	return clusterInfo([]string{"10.200.0.0/16", "fd00:200::/112"}, others...)
}
