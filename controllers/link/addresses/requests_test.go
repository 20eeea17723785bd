// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func netipAddr(text string) netip.Addr { return netip.MustParseAddr(text) }

// texts returns the different requests as sorted text.
func texts(requests []reconcile.Request) []string {
	var all []string
	for _, request := range requests {
		all = append(all, request.String())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// requested is a queue that records what is added.
type requested struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	all []reconcile.Request
}

// Add implements workqueue.TypedInterface.
func (q *requested) Add(request reconcile.Request) { q.all = append(q.all, request) }

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *requested) AddAfter(request reconcile.Request, _ time.Duration) { q.Add(request) }

func TestNamespacesThatAMapGainsOrLosesAreReconciled(t *testing.T) {
	w := newWorld(t)
	mapOf := func(namespace string, names ...string) *v1alpha1.NamespaceMap {
		m := &v1alpha1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rome"}}
		for _, name := range names {
			m.Spec.Namespaces = append(m.Spec.Namespaces, v1alpha1.NamespaceMapping{Name: name})
		}
		return m
	}
	const ofMilan, ofTenant = "liqo-peer-milan", "liqo-tenant-milan"
	for _, test := range []struct {
		name            string
		old, current    *v1alpha1.NamespaceMap
		pods, endpoints []string
	}{
		{"created", nil, mapOf(ofMilan, "bakery", "shop"), []string{"shop/web"}, []string{"/bakery", "/shop"}},
		{"deleted", mapOf(ofMilan, "bakery", "shop"), nil, []string{"shop/web"}, []string{"/bakery", "/shop"}},
		{"one lost", mapOf(ofMilan, "bakery", "shop"), mapOf(ofMilan, "bakery"), []string{"shop/web"}, []string{"/shop"}},
		{"one gained", mapOf(ofMilan, "shop"), mapOf(ofMilan, "bakery", "shop"), nil, []string{"/bakery"}},
		{"status alone changed", mapOf(ofMilan, "shop"), mapOf(ofMilan, "shop"), nil, nil},
		{"a consumer's", nil, mapOf(ofTenant, "shop"), nil, nil},
	} {
		for _, of := range []struct {
			reconciler inNamespaces
			want       []string
		}{{w.ofPods, test.pods}, {w.endpoints, test.endpoints}} {
			queue := &requested{}
			switch handler := ofNamespaceMap(of.reconciler); {
			case test.old == nil:
				handler.Create(t.Context(), event.CreateEvent{Object: test.current}, queue)
			case test.current == nil:
				handler.Delete(t.Context(), event.DeleteEvent{Object: test.old}, queue)
			default:
				handler.Update(t.Context(), event.UpdateEvent{ObjectOld: test.old, ObjectNew: test.current}, queue)
			}
			if diff := cmp.Diff(of.want, texts(queue.all)); diff != "" {
				t.Errorf("%s, %T (-want +got):\n%s", test.name, of.reconciler, diff)
			}
		}
	}
}

func TestMappingsLeadToTheirOrigins(t *testing.T) {
	pod, namespace := podOrigin(web.NamespacedName), origin{ofEndpoints, shop.NamespacedName}
	cluster := origin{ofAPIServer, milan.NamespacedName}
	for _, test := range []struct {
		of   origin
		text string
	}{{pod, "shop/web"}, {namespace, "shop/"}, {cluster, "milan"}} {
		mapping := single(installation, test.of, romeID, peer{"milan", milanID}, netipAddr("10.1.2.3"))
		if got := originOf(mapping); got != test.of || got.String() != test.text {
			t.Errorf("the origin of %v is %v", test.of, got)
		}
		if diff := cmp.Diff([]string{test.text}, originValue(mapping)); diff != "" {
			t.Errorf("indexed by (-want +got):\n%s", diff)
		}
		for _, kind := range []kind{ofPod, ofEndpoints, ofAPIServer} {
			queue := &requested{}
			toOrigin(kind).Create(t.Context(), event.CreateEvent{Object: mapping}, queue)
			if got := len(queue.all) > 0; got != (kind == test.of.kind) {
				t.Errorf("a mapping of %v is of kind %d: %v", test.of, kind, got)
			}
		}
		// An upgrade keeps the mappings of the version before.
		if name := mapping.Name; test.of == pod && name != "milan-213f1f30221c079e4c4a" {
			t.Errorf("the mapping is named %s", name)
		}
	}
	for _, other := range []*v1alpha1.AddressMapping{
		{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}}},
		{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelOrigin: milanID}}},
	} {
		if values := append(originValue(other), peerValue(other)...); len(values) > 0 {
			t.Errorf("a mapping with labels %v is indexed by %v", other.Labels, values)
		}
	}
}

func TestServicesAndEndpointsThatAreNoPodsRequestAPass(t *testing.T) {
	w := newWorld(t)
	pod := endpoint("web", "10.0.3.4", 80)
	for _, test := range []struct {
		name string
		send func(cache.ResourceEventHandler)
		want []string
	}{
		{"a Service", func(h cache.ResourceEventHandler) {
			h.OnAdd(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}, false)
		}, []string{"/shop"}},
		{"an endpoint", func(h cache.ResourceEventHandler) { h.OnAdd(endpoint("db", "192.0.2.7", 5432), false) },
			[]string{"/shop"}},
		{"a pod", func(h cache.ResourceEventHandler) { h.OnAdd(pod, false) }, nil},
		{"an endpoint that became a pod", func(h cache.ResourceEventHandler) {
			h.OnUpdate(endpoint("web", "192.0.2.7", 80), pod)
		}, []string{"/shop"}},
		{"a missed deletion", func(h cache.ResourceEventHandler) {
			h.OnDelete(cache.DeletedFinalStateUnknown{Obj: endpoint("db", "192.0.2.7", 5432)})
		}, []string{"/shop"}},
	} {
		w.endpoints = &EndpointReconciler{Addresses: w.Addresses}
		test.send(w.endpoints.Changes())
		queue := &requested{}
		if err := w.endpoints.changed.Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, texts(queue.all)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
