// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointslice

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestEndpointSliceFollowsItsShadow(t *testing.T) {
	reachable, expired, unreachable := reachability(rome()), reachability(rome(withExpiredHeartbeat)),
		reachability(rome(withoutNetwork))
	ofOther := func(slice *discoveryv1.EndpointSlice) { slice.OwnerReferences = nil }
	ofEarlier := func(slice *discoveryv1.EndpointSlice) { slice.OwnerReferences[0].UID = "earlier" }
	leaving := func(s *v1alpha1.ShadowEndpointSlice) { s.DeletionTimestamp = &metav1.Time{Time: noon} }
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "endpointslices"}, "web-abcde",
		errors.New("quota\x1b[31m"))
	create, update, remove, report := "create EndpointSlice web-abcde", "update EndpointSlice web-abcde",
		"delete EndpointSlice web-abcde", "patch status ShadowEndpointSlice web-abcde"
	for _, test := range []struct {
		name           string
		cluster        *v1alpha1.ForeignCluster
		deleted        bool
		namespace      *corev1.Namespace
		shadow         *v1alpha1.ShadowEndpointSlice
		cached, unseen *discoveryv1.EndpointSlice
		answer         error
		wrote          []string
		reason         string
		again, fails   bool
	}{
		{name: "a slice is created", shadow: shadowSlice(), wrote: []string{create, report}, reason: "True Reachable"},
		{name: "a correct slice is not written", shadow: reported(reachable), cached: sliceOf(shadowSlice(), true), reason: "True Reachable"},
		{
			name: "changes of other clients are reverted", shadow: reported(reachable), wrote: []string{update},
			reason: "True Reachable",
			cached: sliceOf(shadowSlice(), true,
				func(slice *discoveryv1.EndpointSlice) { slice.Endpoints[0].Addresses = []string{"10.9.9.9"} }),
		},
		{
			name: "a label that was removed is restored", shadow: reported(reachable), wrote: []string{create, update},
			reason: "True Reachable",
			unseen: sliceOf(shadowSlice(), true,
				func(slice *discoveryv1.EndpointSlice) { delete(slice.Labels, discoveryv1.LabelManagedBy) }),
		},
		{name: "a slice that is not cached yet is not written", shadow: reported(reachable), unseen: sliceOf(shadowSlice(), true), wrote: []string{create}, reason: "True Reachable"},
		{name: "no endpoint is ready once the heartbeat expired", cluster: rome(withExpiredHeartbeat), shadow: reported(reachable), cached: sliceOf(shadowSlice(), true), wrote: []string{update, report}, reason: "False HeartbeatExpired"},
		{name: "endpoints that are not ready are written once", cluster: rome(withExpiredHeartbeat), shadow: reported(expired), cached: sliceOf(shadowSlice(), false), reason: "False HeartbeatExpired"},
		{name: "endpoints are ready again after a heartbeat", shadow: reported(expired), cached: sliceOf(shadowSlice(), false), wrote: []string{update, report}, reason: "True Reachable"},
		{name: "no slice is created without a network", cluster: rome(withoutNetwork), shadow: shadowSlice(), wrote: []string{report}, reason: "False NoNetwork"},
		{name: "the slice is deleted with the network", cluster: rome(withoutNetwork), shadow: reported(reachable), cached: sliceOf(shadowSlice(), true), wrote: []string{remove, report}, reason: "False NoNetwork"},
		{name: "a slice of another client stays without a network", cluster: rome(withoutNetwork), shadow: reported(unreachable), cached: sliceOf(shadowSlice(), true, ofOther), reason: "False NoNetwork"},
		{name: "the slice is created with a network", shadow: reported(unreachable), wrote: []string{create, report}, reason: "True Reachable"},
		{name: "no endpoint is ready without a ForeignCluster", deleted: true, shadow: reported(reachable), cached: sliceOf(shadowSlice(), true), wrote: []string{update, report}, reason: "False NoConsumer"},
		{name: "the slice is deleted with its shadow", cached: sliceOf(shadowSlice(), true), wrote: []string{remove}},
		{name: "the slice is deleted when the deletion of its shadow begins", shadow: reported(reachable, leaving), cached: sliceOf(shadowSlice(), true), wrote: []string{remove}, reason: "True Reachable"},
		{name: "a slice of another client stays", cached: sliceOf(shadowSlice(), true, ofOther)},
		{name: "a slice of another client is a conflict", shadow: shadowSlice(), cached: sliceOf(shadowSlice(), true, ofOther), wrote: []string{report}, reason: "False NameConflict", again: true},
		{name: "a slice of another client that is not cached is a conflict", shadow: shadowSlice(), unseen: sliceOf(shadowSlice(), true, ofOther), wrote: []string{create, report}, reason: "False NameConflict", again: true},
		{name: "the slice of an earlier shadow is deleted", shadow: shadowSlice(), cached: sliceOf(shadowSlice(), true, ofEarlier), wrote: []string{remove}},
		{
			name: "the slice of an earlier shadow that is not cached is replaced", shadow: shadowSlice(),
			wrote: []string{create, remove, create, report}, reason: "True Reachable",
			unseen: sliceOf(shadowSlice(), true, ofEarlier,
				func(slice *discoveryv1.EndpointSlice) { delete(slice.Labels, discoveryv1.LabelManagedBy) }),
		},
		{
			name: "a slice of another address family is deleted", shadow: reported(reachable), wrote: []string{remove},
			reason: "True Reachable",
			cached: sliceOf(shadowSlice(), true,
				func(slice *discoveryv1.EndpointSlice) { slice.AddressType = discoveryv1.AddressTypeIPv6 }),
		},
		{name: "no slice is created outside of remote namespaces", namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: remoteName}}, shadow: shadowSlice(), wrote: []string{report}, reason: "False NotARemoteNamespace", again: true},
		{name: "a refusal is reported", shadow: shadowSlice(), answer: forbidden, wrote: []string{create, report}, reason: "False ProviderRefused", again: true},
		{name: "a failure is retried", shadow: shadowSlice(), answer: apierrors.NewInternalError(errors.New("oh")), wrote: []string{create}, fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			cluster, namespace := test.cluster, test.namespace
			if cluster == nil && !test.deleted {
				cluster = rome()
			}
			if namespace == nil {
				namespace = remoteNamespace()
			}
			objects := []client.Object{namespace, ownRanges()}
			if cluster != nil {
				objects = append(objects, cluster)
			}
			if test.shadow != nil {
				objects = append(objects, test.shadow)
			}
			if test.cached != nil {
				objects = append(objects, test.cached)
			}
			if test.unseen != nil {
				objects = append(objects, test.unseen)
			}
			w := newWorld(t, objects...)
			w.unseen = test.unseen != nil
			w.Fault = func(write kittest.Write, _ bool) error {
				if write.Kind != "EndpointSlice" {
					return nil
				}
				return test.answer
			}
			result, err := w.pass(t)
			if (err != nil) != test.fails || (result.RequeueAfter > 0) != test.again {
				t.Errorf("error %v, requeued after %v", err, result.RequeueAfter)
			}
			if diff := cmp.Diff(test.wrote, w.WritesSince(0)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if reason := w.reason(); reason != test.reason {
				t.Errorf("condition Ready %q, want %q", reason, test.reason)
			}
		})
	}
}

func TestPeerImportsNoServices(t *testing.T) {
	slice, _ := sliceFor(shadowSlice(func(s *v1alpha1.ShadowEndpointSlice) {
		s.Labels["multicluster.kubernetes.io/service-name"], s.Labels["multicluster.kubernetes.io/source-cluster"] = "web",
			"milan"
	}), remoteNamespace(), true, netmap.AddressFilter{Complete: true})
	plain, _ := sliceFor(shadowSlice(), remoteNamespace(), true, netmap.AddressFilter{Complete: true})
	if diff := cmp.Diff(plain.Labels, slice.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestEndpointSliceIsLabelledWithItsConsumer(t *testing.T) {
	got, left := sliceFor(shadowSlice(), remoteNamespace(), true, netmap.AddressFilter{Complete: true})
	want := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-abcde", Namespace: remoteName,
			Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: v1alpha1.ManagedBy,
				v1alpha1.LabelOrigin: "consumer-id", v1alpha1.LabelDestination: "provider-id",
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "federation.liqo.io/v1alpha1", Kind: "ShadowEndpointSlice",
				Name: "web-abcde", UID: "shadow-uid", Controller: ptr.To(true)}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP),
			Port: ptr.To[int32](8080)}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.1.0.1"}, Hostname: ptr.To("web-0"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)}},
			{Addresses: []string{"10.1.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || left != 0 {
		t.Errorf("%d left out (-want +got):\n%s", left, diff)
	}
	unreached, _ := sliceFor(shadowSlice(), remoteNamespace(), false, netmap.AddressFilter{Complete: true})
	for i, endpoint := range unreached.Endpoints {
		if *endpoint.Conditions.Ready || *endpoint.Conditions.Serving {
			t.Errorf("endpoint %d is used and cannot be reached", i)
		}
	}
}

func TestEndpointsWithAddressesOfTheProviderAreRefused(t *testing.T) {
	for _, test := range []struct {
		name      string
		node      []v1alpha1.ClusterRange
		addresses []string
		want      []string
		reason    string
	}{
		{name: "other addresses", node: node("192.0.2.1", "10.2.0.0/24"), addresses: []string{"10.1.0.1"}, want: []string{"10.1.0.1"}, reason: "True Reachable"},
		{name: "an address of a node", node: node("192.0.2.1", "10.2.0.0/24"), addresses: []string{"192.0.2.1", "10.1.0.1"}, want: []string{"10.1.0.1"}, reason: "True AddressesRefused"},
		{name: "an address of a pod", node: node("192.0.2.1", "10.2.0.0/24"), addresses: []string{"10.2.0.7", "10.1.0.1"}, want: []string{"10.1.0.1"}, reason: "True AddressesRefused"},
		{name: "a refused address", addresses: []string{"10.96.0.1", "10.1.0.1"}, want: []string{"10.1.0.1"}, reason: "True AddressesRefused"},
		{name: "an address of a Service", addresses: []string{"10.200.3.4", "10.1.0.1"}, want: []string{"10.1.0.1"}, reason: "True AddressesRefused"},
		{name: "no other addresses", node: node("192.0.2.1", "10.2.0.0/24"), addresses: []string{"10.2.0.7"}, reason: "False AddressesRefused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			shadow := shadowSlice(func(s *v1alpha1.ShadowEndpointSlice) {
				s.Spec.Endpoints = nil
				for _, address := range test.addresses {
					s.Spec.Endpoints = append(s.Spec.Endpoints, v1alpha1.ShadowEndpoint{Addresses: []string{address}})
				}
			})
			w := newWorld(t, rome(), remoteNamespace(), ownRanges(test.node...), shadow)
			if _, err := w.pass(t); err != nil {
				t.Fatal(err)
			}
			got, _ := w.addresses()
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if reason := w.reason(); reason != test.reason {
				t.Errorf("condition Ready %q, want %q", reason, test.reason)
			}
		})
	}
}

// Without the ranges of its Services, a provider cannot refuse endpoints in them.
func TestUnknownServiceCIDRsRefuseAllEndpoints(t *testing.T) {
	for _, test := range []struct {
		name    string
		known   bool
		refused []netip.Prefix
		wrote   []string
		reason  string
	}{
		{"no source", false, nil, []string{"delete EndpointSlice web-abcde", "patch status ShadowEndpointSlice web-abcde"}, "False ServiceCIDRsUnknown"},
		{"refused CIDRs", false, []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}, nil, "True Reachable"},
		{"ServiceCIDRs", true, nil, nil, "True Reachable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			objects := []client.Object{rome(), remoteNamespace(), reported(reachability(rome())), sliceOf(shadowSlice(), true)}
			if test.known {
				objects = append(objects, ownRanges())
			}
			w := newWorld(t, objects...)
			w.r.Network.Refused = test.refused
			if _, err := w.pass(t); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.wrote, w.WritesSince(0)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if reason := w.reason(); reason != test.reason {
				t.Errorf("condition Ready %q, want %q", reason, test.reason)
			}
		})
	}
}

// A range that is derived from running pods lacks the pods that start later in another range.
func TestUnknownPodCIDRsRefuseAllEndpointsOfATenant(t *testing.T) {
	tenant := func(cluster *v1alpha1.ForeignCluster) { cluster.Spec.Trust = v1alpha1.TrustTenant }
	sameOwner := func(cluster *v1alpha1.ForeignCluster) { cluster.Spec.Trust = v1alpha1.TrustSameOwner }
	derived := v1alpha1.ClusterRange{Use: v1alpha1.RangeOfPods, CIDR: "10.2.0.0/24", Source: v1alpha1.SourcePod}
	known := v1alpha1.ClusterRange{Use: v1alpha1.RangeOfPods, CIDR: "10.2.0.0/16", Source: v1alpha1.SourceValue}
	deleted := []string{"delete EndpointSlice web-abcde", "patch status ShadowEndpointSlice web-abcde"}
	for _, test := range []struct {
		name    string
		trust   func(*v1alpha1.ForeignCluster)
		pods    []v1alpha1.ClusterRange
		refused []netip.Prefix
		wrote   []string
		reason  string
	}{
		{"a tenant, and configured ranges", tenant, []v1alpha1.ClusterRange{known}, nil, nil, "True Reachable"},
		{"a tenant, and ranges of running pods", tenant, []v1alpha1.ClusterRange{derived}, nil, deleted,
			"False PodCIDRsUnknown"},
		{"a tenant, and no ranges", tenant, nil, nil, deleted, "False PodCIDRsUnknown"},
		{"a tenant, and other refused CIDRs", tenant, []v1alpha1.ClusterRange{derived},
			[]netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}, deleted, "False PodCIDRsUnknown"},
		{"a tenant, and refused CIDRs with all pods", tenant, []v1alpha1.ClusterRange{derived},
			[]netip.Prefix{netip.MustParsePrefix("10.2.0.0/16")}, nil, "True Reachable"},
		{"the same owner", sameOwner, []v1alpha1.ClusterRange{derived}, nil, nil, "True Reachable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, rome(test.trust), remoteNamespace(), reported(reachability(rome())),
				sliceOf(shadowSlice(), true), ownRanges(test.pods...))
			w.r.Network.Refused = test.refused
			if _, err := w.pass(t); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.wrote, w.WritesSince(0)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if reason := w.reason(); reason != test.reason {
				t.Errorf("condition Ready %q, want %q", reason, test.reason)
			}
		})
	}
	if !reachabilityChanged(rome(sameOwner), rome(tenant)) {
		t.Error("a change of the trust causes no reconcile")
	}
}

// A consumer behind a tunnel cannot direct the provider's Services to other addresses.
func TestEndpointsOutsideOfTheTunnelsRangesAreRefused(t *testing.T) {
	through := func(cluster *v1alpha1.ForeignCluster) {
		cluster.Spec.ClusterID, cluster.Spec.Networking = "consumer-id", v1alpha1.NetworkingTunnel
	}
	tunnel := func(cluster string, remote ...string) *v1alpha1.TunnelEndpoint {
		te := &v1alpha1.TunnelEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "rome"},
			Spec: v1alpha1.TunnelEndpointSpec{ClusterID: cluster}}
		for _, mapped := range remote {
			te.Spec.Remote = append(te.Spec.Remote, v1alpha1.CIDRMapping{CIDR: "10.244.0.0/16", Mapped: mapped})
		}
		return te
	}
	both, one := []string{"10.1.0.1", "10.1.0.2"}, []string{"10.1.0.2"}
	for _, test := range []struct {
		name      string
		cluster   *v1alpha1.ForeignCluster
		byDefault v1alpha1.NetworkingMode
		tunnel    *v1alpha1.TunnelEndpoint
		cached    *discoveryv1.EndpointSlice
		want      []string
		reason    string
	}{
		{name: "addresses in the range", cluster: rome(through), tunnel: tunnel("consumer-id", "10.1.0.0/16"), want: both, reason: "True Reachable"},
		{name: "addresses in several ranges", cluster: rome(through), tunnel: tunnel("consumer-id", "10.1.0.1/32", "fd00::/48", "10.1.0.2/32"), want: both, reason: "True Reachable"},
		{name: "an address outside of the range", cluster: rome(through), tunnel: tunnel("consumer-id", "10.1.0.2/31"), want: one, reason: "True AddressesRefused"},
		{name: "addresses outside of the mapped range", cluster: rome(through), tunnel: tunnel("consumer-id", "10.9.0.0/16"), reason: "False AddressesRefused"},
		{name: "an expired heartbeat", cluster: rome(through, withExpiredHeartbeat), tunnel: tunnel("consumer-id", "10.1.0.2/31"), want: one, reason: "False HeartbeatExpired"},
		{name: "Tunnel by default", cluster: rome(func(c *v1alpha1.ForeignCluster) { c.Spec.ClusterID = "consumer-id" }), byDefault: v1alpha1.NetworkingTunnel, tunnel: tunnel("consumer-id", "10.1.0.2/31"), want: one, reason: "True AddressesRefused"},
		{name: "an existing slice", cluster: rome(through), tunnel: tunnel("consumer-id", "10.1.0.2/31"), cached: sliceOf(shadowSlice(), true), want: one, reason: "True AddressesRefused"},
		{name: "no tunnel", cluster: rome(through), reason: "False NoNetwork"},
		{name: "an existing slice without a tunnel", cluster: rome(through), cached: sliceOf(shadowSlice(), true), reason: "False NoNetwork"},
		{name: "a tunnel to another cluster", cluster: rome(through), tunnel: tunnel("other-id", "10.1.0.0/16"), reason: "False NoNetwork"},
		{name: "a tunnel without valid ranges", cluster: rome(through), tunnel: tunnel("consumer-id", "10.1.0.0"), reason: "False NoNetwork"},
		{name: "a flat network", cluster: rome(), tunnel: tunnel("consumer-id", "10.9.0.0/16"), want: both, reason: "True Reachable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			objects := []client.Object{test.cluster, remoteNamespace(), ownRanges(), shadowSlice()}
			if test.cached != nil {
				objects = append(objects, test.cached)
			}
			if test.tunnel != nil {
				objects = append(objects, test.tunnel)
			}
			w := newWorld(t, objects...)
			if test.byDefault != "" {
				w.r.Network.Networking = test.byDefault
			}
			if _, err := w.pass(t); err != nil {
				t.Fatal(err)
			}
			got, exists := w.addresses()
			if exists == strings.HasSuffix(test.reason, reasonNoNetwork) {
				t.Errorf("there is an EndpointSlice: %t", exists)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if reason := w.reason(); reason != test.reason {
				t.Errorf("condition Ready %q, want %q", reason, test.reason)
			}
		})
	}
	if tunnelChanged(tunnel("consumer-id", "10.1.0.0/16"), tunnel("consumer-id", "10.1.0.0/16")) ||
		!tunnelChanged(tunnel("consumer-id", "10.1.0.0/16"), tunnel("consumer-id", "10.9.0.0/16")) {
		t.Error("tunnels are selected by their ranges alone")
	}
}

func TestEndpointSliceIsWrittenOnceASecondAtMost(t *testing.T) {
	w := newWorld(t, rome(), remoteNamespace(), ownRanges(), shadowSlice())
	for _, step := range []struct {
		after time.Duration
		again time.Duration
		wrote int
	}{{0, 0, 1}, {300 * time.Millisecond, 700 * time.Millisecond, 1}, {700 * time.Millisecond, 0, 2}} {
		w.Clock.Step(step.after)
		result, err := w.pass(t)
		if err != nil {
			t.Fatal(err)
		}
		wrote := 0
		for _, write := range w.Writes {
			if write.Verb == "create" {
				wrote++
			}
		}
		if result.RequeueAfter != step.again || wrote != step.wrote {
			t.Errorf("after %v: %d writes, requeued after %v", step.after, wrote, result.RequeueAfter)
		}
		if err := w.DeleteAllOf(t.Context(), &discoveryv1.EndpointSlice{}, client.InNamespace(web.Namespace)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWriteIntervalHoldsForARecreatedEndpointSlice(t *testing.T) {
	w := newWorld(t, rome(), remoteNamespace(), ownRanges())
	w.r.recordWrite(web)
	if w.r.untilWrite(client.ObjectKey{Namespace: "other", Name: web.Name}) > 0 {
		t.Error("it holds for the same name in another namespace")
	}
	w.Clock.Step(300 * time.Millisecond)
	result, err := w.pass(t)
	if err != nil || result.RequeueAfter != 700*time.Millisecond || w.r.untilWrite(web) != result.RequeueAfter {
		t.Errorf("requeued after %v, %v, and written after %v", result.RequeueAfter, err, w.r.untilWrite(web))
	}
	w.Clock.Step(700 * time.Millisecond)
	result, err = w.pass(t)
	if err != nil || result.RequeueAfter != 0 || len(w.r.written) > 0 {
		t.Errorf("requeued after %v, %v, with the times %v", result.RequeueAfter, err, w.r.written)
	}
}

func TestForeignClusterAndTunnelLeadToTheSlicesOfTheConsumer(t *testing.T) {
	other := remoteNamespace()
	other.Name, other.Labels[v1alpha1.LabelForeignCluster] = "shop-naples", "naples"
	another := shadowSlice()
	another.Namespace = other.Name
	w := newWorld(t, remoteNamespace(), other, shadowSlice(), another)
	want := []reconcile.Request{{NamespacedName: web}}
	for _, object := range []client.Object{rome(), &v1alpha1.TunnelEndpoint{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}} {
		if diff := cmp.Diff(want, w.r.requestsOfConsumer(t.Context(), object)); diff != "" {
			t.Errorf("%T (-want +got):\n%s", object, diff)
		}
	}
}

func TestChangesOfReachabilityAreSelected(t *testing.T) {
	for _, test := range []struct {
		name     string
		old, now *v1alpha1.ForeignCluster
		want     bool
	}{
		{"nothing", rome(), rome(), false},
		{"generation", rome(), rome(func(c *v1alpha1.ForeignCluster) { c.Status.ObservedGeneration = 7 }), false},
		{"heartbeat that expires", rome(), rome(withExpiredHeartbeat), true},
		{"heartbeat after one that expired", rome(withExpiredHeartbeat), rome(), true},
		{"network that ends", rome(), rome(withoutNetwork), true},
		{"networking mode", rome(), rome(func(c *v1alpha1.ForeignCluster) { c.Spec.Networking = v1alpha1.NetworkingTunnel }), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := reachabilityChanged(test.old, test.now); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
