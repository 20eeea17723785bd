// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
)

// reachWorld is a world in which milan, a provider and a consumer, reaches offloaded pods only.
type reachWorld struct {
	*world
	reach *ReachReconciler
}

func newReachWorld(t *testing.T) *reachWorld {
	t.Helper()
	w := &reachWorld{world: newWorld(t)}
	w.reach = &ReachReconciler{Addresses: w.Addresses, Services: w.services, Events: w.Events}
	w.selects("milan", v1alpha1.ReachOffloaded)
	w.Add(kittest.PeeringNamespace("bank-milan", v1alpha1.RoleRemoteNamespace, "milan"),
		kittest.PeeringNamespace("bank-naples", v1alpha1.RoleRemoteNamespace, "naples"),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	return w
}

// selects sets the reach of a peer in its TunnelEndpoint.
func (w *reachWorld) selects(peer string, mode v1alpha1.ReachMode) {
	w.t.Helper()
	kittest.Change(w.Cluster, installation, peer, &v1alpha1.TunnelEndpoint{}, func(te *v1alpha1.TunnelEndpoint) {
		te.Spec.Reach = mode
	})
}

// pod creates a pod with addresses.
func (w *reachWorld) pod(namespace, name string, addresses ...string) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	pod.Status.Phase = corev1.PodRunning
	for _, address := range addresses {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: address})
	}
	w.Add(pod)
	return pod
}

// reaches fails the test unless a pass leaves a TunnelReach of milan with exactly these addresses, and the next pass
// writes nothing.
func (w *reachWorld) reaches(want ...string) {
	w.t.Helper()
	w.Pass(w.reach, milan)
	got := kittest.Read(w.Cluster, installation, "milan", &v1alpha1.TunnelReach{})
	if diff := cmp.Diff(want, got.Spec.Addresses, cmpopts.EquateEmpty()); diff != "" || got.Spec.ClusterID != milanID {
		w.t.Fatalf("milan, cluster %s, reaches (-want +got):\n%s", got.Spec.ClusterID, diff)
	}
	if _, writes := w.Pass(w.reach, milan); len(writes) > 0 {
		w.t.Fatalf("a pass with nothing to change writes %v", writes)
	}
}

// exists reports whether milan has a TunnelReach.
func (w *reachWorld) exists() bool {
	return w.Has(&v1alpha1.TunnelReach{ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: "milan"}})
}

func TestAConsumerReachesThePodsOfItsRemoteNamespaces(t *testing.T) {
	w := newReachWorld(t)
	w.reaches()
	w.pod("bank-milan", "b", "10.0.1.8", "fd00::8")
	w.pod("bank-milan", "a", "10.0.1.9")
	w.pod("bank-naples", "of-another-consumer", "10.0.1.10")
	w.pod("kube-system", "dns", "10.0.1.11")
	w.pod("bank-milan", "outside-of-the-tunnel", "172.18.0.9")
	w.pod("bank-milan", "without-address")
	host := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "bank-milan", Name: "on-the-host"}}
	host.Spec.HostNetwork = true
	host.Status.PodIPs = []corev1.PodIP{{IP: "10.0.1.12"}}
	finished := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "bank-milan", Name: "finished"}}
	finished.Status.Phase, finished.Status.PodIPs = corev1.PodSucceeded, []corev1.PodIP{{IP: "10.0.1.13"}}
	w.Add(host, finished)
	// fd00::8 is in no local range of the tunnel.
	w.reaches("10.0.1.8", "10.0.1.9")
	w.Remove(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "bank-milan", Name: "b"}})
	w.reaches("10.0.1.9")
}

func TestAProviderReachesEndpointsOfReflectedServices(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*reachWorld)
		want   []string
	}{
		"endpoints that are pods of the namespace": {func(*reachWorld) {}, []string{"10.0.3.4"}},
		"no EndpointSlice":                         {func(w *reachWorld) { w.serves() }, nil},
		"the Service does not exist":               {func(w *reachWorld) { w.services.services = nil }, nil},
		"the Service is not reflected": {func(w *reachWorld) {
			w.services.services[0].SetAnnotations(map[string]string{v1alpha1.AnnotationSkipReflection: "true"})
		}, nil},
		"the Service is reflected to another provider": {func(w *reachWorld) {
			w.services.services[0].SetAnnotations(map[string]string{v1alpha1.AnnotationReflectTo: naplesID})
		}, nil},
		"the Service is reflected to this provider and to another one": {func(w *reachWorld) {
			w.services.services[0].SetAnnotations(map[string]string{v1alpha1.AnnotationReflectTo: naplesID + "," + milanID})
		}, []string{"10.0.3.4"}},
		"the EndpointSlice is not reflected": {func(w *reachWorld) {
			w.services.slices[0].SetAnnotations(map[string]string{v1alpha1.AnnotationSkipReflection: "true"})
		}, nil},
		"the namespace is not offloaded to the provider": {func(w *reachWorld) { w.offload("milan") }, nil},
		"there is no virtual node":                       {func(w *reachWorld) { w.withoutNode("milan") }, nil},
		"a pod of another namespace": {func(w *reachWorld) {
			w.serves(endpoint("db", "10.0.3.9"))
		}, nil},
		"an endpoint of a remote namespace twice": {func(w *reachWorld) {
			w.pod("bank-milan", "same", "10.0.3.4")
		}, []string{"10.0.3.4"}},
		"a pod on a virtual node": {func(w *reachWorld) {
			w.pod("shop", "away", "10.1.3.4")
			w.serves(endpoint("db", "10.1.3.4"))
		}, nil},
		"a pod on a virtual node with an address in the ranges of local pods": {func(w *reachWorld) {
			pod := podIn("shop")
			pod.Spec.NodeName, pod.Status.PodIPs = "liqo-naples", []corev1.PodIP{{IP: "10.0.3.9"}}
			w.Add(pod)
			w.serves(endpoint("db", "10.0.3.9"))
		}, nil},
		"a name": {func(w *reachWorld) {
			slice := endpoint("db", "db.example.com")
			slice.AddressType = discoveryv1.AddressTypeFQDN
			w.serves(slice)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReachWorld(t)
			w.pod("shop", "db", "10.0.3.4")
			w.pod("shop", "without-service", "10.0.3.5")
			w.pod("kube-system", "dns", "10.0.3.9")
			w.serves(endpoint("db", "10.0.3.4", 5432))
			test.change(w)
			w.reaches(test.want...)
		})
	}
}

func TestTunnelReachExistsWhileItsTunnelIsRestricted(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*reachWorld)
		exists bool
	}{
		"restricted":      {func(*reachWorld) {}, true},
		"reach All":       {func(w *reachWorld) { w.selects("milan", v1alpha1.ReachAll) }, false},
		"reach empty":     {func(w *reachWorld) { w.selects("milan", "") }, false},
		"no tunnel":       {func(w *reachWorld) { w.disconnect("milan") }, false},
		"another cluster": {func(w *reachWorld) { w.disconnect("milan"); w.connectRestricted("milan", naplesID) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReachWorld(t)
			w.pod("bank-milan", "a", "10.0.1.9")
			w.reaches("10.0.1.9")
			test.change(w)
			w.Pass(w.reach, milan)
			w.Pass(w.reach, milan) // creates it again after the deletion
			if got := w.exists(); got != test.exists {
				t.Errorf("the TunnelReach exists: %t", got)
			}
		})
	}
}

// connectRestricted creates the tunnel to a peer with reach Offloaded.
func (w *reachWorld) connectRestricted(name, id string) {
	w.t.Helper()
	w.connect(name, id)
	w.selects(name, v1alpha1.ReachOffloaded)
}

// After a restart, pods stay reachable until all Services are cached.
func TestReachIsKeptWhileServicesAreNotCached(t *testing.T) {
	w := newReachWorld(t)
	w.pod("shop", "db", "10.0.3.4")
	w.serves(endpoint("db", "10.0.3.4", 5432))
	w.reaches("10.0.3.4")
	w.services.unknown = true
	w.pod("shop", "another", "10.0.3.5")
	w.pod("bank-milan", "a", "10.0.1.9")
	w.reaches("10.0.1.9", "10.0.3.4")
	w.services.unknown = false
	w.reaches("10.0.1.9", "10.0.3.4")
}

// Another pod may receive the address of a pod that has ended.
func TestAddressesOfEndedPodsAreRemovedWhileServicesAreNotCached(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*reachWorld)
		want   []string
	}{
		"no pod ends": {func(*reachWorld) {}, []string{"10.0.1.9", "10.0.3.4"}},
		"a pod of an offloaded namespace ends": {func(w *reachWorld) {
			w.Remove(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}})
		}, []string{"10.0.1.9"}},
		"a pod of another namespace receives its address": {func(w *reachWorld) {
			w.Remove(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}})
			w.pod("kube-system", "dns", "10.0.3.4")
		}, []string{"10.0.1.9"}},
		"a pod of a remote namespace ends": {func(w *reachWorld) {
			w.Remove(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "bank-milan", Name: "a"}})
		}, []string{"10.0.3.4"}},
		"the namespace is no longer offloaded": {func(w *reachWorld) { w.offload("milan") }, []string{"10.0.1.9"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReachWorld(t)
			w.pod("shop", "db", "10.0.3.4")
			w.pod("bank-milan", "a", "10.0.1.9")
			w.serves(endpoint("db", "10.0.3.4", 5432))
			w.reaches("10.0.1.9", "10.0.3.4")
			w.services.unknown = true
			test.change(w)
			w.reaches(test.want...)
		})
	}
}

func TestServicesAreWatchedForRestrictedPeersOnly(t *testing.T) {
	w := newReachWorld(t)
	w.Pass(w.reach, milan)
	if w.services.forgotten.Has("shop") {
		t.Error("the Services are not watched")
	}
	w.selects("milan", v1alpha1.ReachAll)
	w.Pass(w.reach, milan)
	if !w.services.forgotten.Has("shop") {
		t.Error("the Services are watched while no peer is restricted")
	}
}

func TestTooManyPodsAreReportedOnce(t *testing.T) {
	w := newReachWorld(t)
	var addresses []string
	for i := range v1alpha1.MaxTunnelReachAddresses + 1 {
		addresses = append(addresses, fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250))
	}
	w.pod("bank-milan", "many", addresses...)
	w.Pass(w.reach, milan)
	w.Pass(w.reach, milan)
	got := kittest.Read(w.Cluster, installation, "milan", &v1alpha1.TunnelReach{})
	if len(got.Spec.Addresses) != v1alpha1.MaxTunnelReachAddresses {
		t.Errorf("%d addresses", len(got.Spec.Addresses))
	}
	if events := w.Recorded(); len(events) != 1 || !strings.Contains(events[0], ReasonReachExceeded) {
		t.Errorf("events %q, want one with reason %s", events, ReasonReachExceeded)
	}
}

// A process that ends at any write leaves a state from which the next one continues.
func TestReachIsWrittenAfterAnInterruption(t *testing.T) {
	exists := func(w *reachWorld) {
		w.pod("bank-milan", "a", "10.0.1.9")
		w.reaches("10.0.1.9")
	}
	for name, test := range map[string]struct {
		before, change func(*reachWorld)
		write          string
		want           []string
	}{
		"create": {
			func(*reachWorld) {}, func(w *reachWorld) { w.pod("bank-milan", "a", "10.0.1.9") },
			"create TunnelReach milan", []string{"10.0.1.9"},
		},
		"update": {
			exists, func(w *reachWorld) { w.pod("bank-milan", "b", "10.0.1.8") },
			"patch TunnelReach milan", []string{"10.0.1.8", "10.0.1.9"},
		},
		"delete": {
			exists, func(w *reachWorld) { w.disconnect("milan"); w.connectRestricted("milan", naplesID) },
			"delete TunnelReach milan", nil,
		},
	} {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, done %t", name, done), func(t *testing.T) {
				w := newReachWorld(t)
				test.before(w)
				test.change(w)
				written := len(w.Writes)
				w.Kill(written, done)
				if _, err := w.reach.Reconcile(t.Context(), milan); err == nil {
					t.Fatal("the write did not fail")
				}
				w.Fault = nil
				if diff := cmp.Diff([]string{test.write}, w.WritesSince(written)); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
				if test.want == nil {
					w.Pass(w.reach, milan)
					w.Pass(w.reach, milan)
					if got := kittest.Read(w.Cluster, installation, "milan", &v1alpha1.TunnelReach{}); got.Spec.ClusterID != naplesID {
						t.Errorf("the TunnelReach is for cluster %s", got.Spec.ClusterID)
					}
					return
				}
				w.reaches(test.want...)
			})
		}
	}
}

func TestChangesInANamespaceConcernItsPeers(t *testing.T) {
	w := newReachWorld(t)
	w.connectElsewhere(t)
	for name, test := range map[string]struct {
		object client.Object
		want   []string
	}{
		"a pod of a remote namespace":          {podIn("bank-milan"), []string{"milan"}},
		"a pod of an offloaded namespace":      {podIn("shop"), []string{"milan", "turin"}},
		"a pod of a local namespace":           {podIn("kube-system"), nil},
		"a pod of a peer that is unrestricted": {podIn("bank-naples"), nil},
		"a remote namespace": {
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bank-milan"}}, []string{"milan"},
		},
		"an EndpointSlice": {endpoint("db", "10.0.3.4"), []string{"milan", "turin"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, request := range w.reach.ofNamespace(t.Context(), test.object) {
				got = append(got, request.Name)
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// connectElsewhere adds another restricted provider, turin.
func (w *reachWorld) connectElsewhere(t *testing.T) {
	t.Helper()
	w.connectRestricted("turin", "44444444-4444-4444-8444-444444444444")
	w.offload("turin", "shop")
}

func podIn(namespace string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod"}}
}

func TestOnlyAddressesOfPodsEnqueueTheirPeers(t *testing.T) {
	running := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := podIn("bank-milan")
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.1.9"}}}
		change(pod)
		return pod
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"a condition": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}}
		}, false},
		"a label":      {func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, false},
		"the deletion": {func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }, false},
		"an address":   {func(p *corev1.Pod) { p.Status.PodIPs[0].IP = "10.0.1.10" }, true},
		"no address":   {func(p *corev1.Pod) { p.Status.PodIPs = nil }, true},
		"it finished":  {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		"one address more": {func(p *corev1.Pod) {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: "fd00::9"})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := podAddressesChanged(running(func(*corev1.Pod) {}), running(test.change)); got != test.want {
				t.Errorf("changed: %t", got)
			}
		})
	}
}
