// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

const webForNaples = "10.1.2.2 for naples: 10.70.0.255"

func TestPodOnAProviderHasAnAddressForTheOthers(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *world)
		want   []string
	}{
		"nothing changes": {func(*world) {}, []string{webForNaples}},
		"it finished":     {func(w *world) { w.pods.of["liqo-milan"][0].Status.Phase = corev1.PodSucceeded }, nil},
		"it is deleted":   {func(w *world) { clear(w.pods.of) }, nil},
		"it may be deleted": {func(w *world) { clear(w.pods.of); w.pods.unknown.Insert("liqo-milan") },
			[]string{webForNaples}},
		"other pods may exist": {func(w *world) { clear(w.pods.of); w.pods.unknown.Insert("liqo-naples") }, nil},
		"it moved": {func(w *world) { clear(w.pods.of); w.runs("naples", "10.3.1.1") },
			[]string{"10.3.1.1 for milan: 10.70.0.255"}},
		"a younger one replaced it": {func(w *world) {
			w.Cluster.Clock.Step(time.Minute)
			w.runs("naples", "10.3.1.1")
		}, []string{"10.3.1.1 for milan: 10.70.0.255"}},
		"it has another address": {func(w *world) { clear(w.pods.of); w.runs("milan", "10.1.2.3") },
			[]string{"10.1.2.3 for naples: 10.70.0.255"}},
		"its namespace is not offloaded there": {func(w *world) { w.offload("naples", "other") }, nil},
		"no tunnel to the other provider":      {func(w *world) { w.disconnect("naples") }, nil},
		"no tunnel to its provider":            {func(w *world) { w.disconnect("milan") }, nil},
		"its address is behind no tunnel":      {func(w *world) { clear(w.pods.of); w.runs("milan", "172.18.0.2") }, nil},
		"the pool has one of its families": {func(w *world) { clear(w.pods.of); w.runs("milan", "10.1.2.2", "fd00:2::2") },
			[]string{webForNaples}},
		"the pool has another range": {func(w *world) { w.pool("10.90.0.0/24") },
			[]string{"10.1.2.2 for naples: 10.90.0.255"}},
		"the pool has both families": {func(w *world) {
			w.pool("10.70.0.0/24", "fd70::/120")
			clear(w.pods.of)
			w.runs("milan", "10.1.2.2", "fd00:2::2")
		}, []string{webForNaples, "fd00:2::2 for naples: fd70::ff"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.expect(w.ofPods, web, webForNaples)
			test.change(w)
			// Deleted mappings are created again in the pass that follows.
			w.Pass(w.ofPods, web)
			w.expect(w.ofPods, web, test.want...)
			w.noEvents()
		})
	}
}

// lagging is a client whose cache has an older pool.
type lagging struct {
	client.Client
	pool *v1alpha1.AddressPool
}

// Get implements client.Reader.
func (l lagging) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	if pool, ok := object.(*v1alpha1.AddressPool); ok {
		l.pool.DeepCopyInto(pool)
		return nil
	}
	return l.Client.Get(ctx, key, object, options...)
}

func TestAddressOfAPoolThatTheCacheLacksIsKept(t *testing.T) {
	w := newWorld(t)
	w.pool("10.90.0.0/24")
	w.expect(w.ofPods, web, "10.1.2.2 for naples: 10.90.0.255")
	current := w.Addresses.Client
	w.Addresses.Client = lagging{current, &v1alpha1.AddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ExternalAddressPool},
		Spec:       v1alpha1.AddressPoolSpec{CIDRs: []string{"10.70.0.0/24"}},
	}}
	w.expect(w.ofPods, web, "10.1.2.2 for naples: 10.90.0.255")
	w.Addresses.Client = current
	w.pool("10.70.0.0/24")
	w.Pass(w.ofPods, web)
	w.expect(w.ofPods, web, webForNaples)
}

func TestMissingAddressIsReportedOnceAndRequestedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		cidrs  []string
		reason string
		after  time.Duration
	}{
		"no pool":       {nil, ReasonNoExternalAddresses, 0},
		"an empty pool": {[]string{"10.70.0.0/32"}, ReasonAddressesExhausted, exhaustedRetry},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.pool(test.cidrs...)
			other := kit.Request("shop", "other")
			pod := w.pods.of["liqo-milan"][0].DeepCopy()
			pod.Name, pod.Status.PodIPs[0].IP = other.Name, "10.1.2.3"
			w.pods.of["liqo-milan"] = append(w.pods.of["liqo-milan"], pod)
			if test.cidrs != nil {
				w.expect(w.ofPods, web, "10.1.2.2 for naples: 10.70.0.0")
			}
			var last []string
			for range 3 {
				var after time.Duration
				if after, last = w.Pass(w.ofPods, other); after > test.after || after == 0 != (test.after == 0) {
					t.Errorf("requested again after %s, want %s", after, test.after)
				}
				w.Cluster.Clock.Step(time.Second)
			}
			if len(last) > 0 {
				t.Errorf("within a minute, it is requested again: %v", last)
			}
			w.Pass(w.ofPods, web)
			if events := w.Recorded(); len(events) != 1 || !strings.Contains(events[0], test.reason) {
				t.Errorf("events %q, want one with reason %s", events, test.reason)
			}
			w.pool("10.70.0.0/24")
			if after, _ := w.Pass(w.ofPods, other); after != 0 {
				t.Errorf("with addresses, it is requested again after %s", after)
			}
			found, err := w.mappingsOf(t.Context(), podOrigin(other.NamespacedName))
			if err != nil || len(found) != 1 {
				t.Errorf("with addresses, it has %v, error %v", found, err)
			}
		})
	}
}

func TestReportsAreForgottenWithTheirOwner(t *testing.T) {
	w := newWorld(t)
	w.pool()
	w.Pass(w.ofPods, web)
	if len(w.Recorded()) != 1 || len(w.reported) != 1 {
		t.Fatalf("reported %v, want one", w.reported)
	}
	offloading := kittest.Read(w.Cluster, "shop", v1alpha1.NamespaceOffloadingName, &v1alpha1.NamespaceOffloading{})
	w.Remove(offloading)
	w.forget(client.ObjectKeyFromObject(offloading))
	w.Pass(w.ofPods, web)
	if len(w.reported) > 0 {
		t.Errorf("without the NamespaceOffloading, %v is reported", w.reported)
	}
	w.noEvents()
}

func TestOnlySingleMappingsOfThePodAreDeleted(t *testing.T) {
	w := newWorld(t)
	w.expect(w.ofPods, web, webForNaples)
	kept := []client.Object{
		&v1alpha1.AddressMapping{
			ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: "range", Labels: map[string]string{
				v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: "milan",
			}},
			Spec: v1alpha1.AddressMappingSpec{ClusterID: milanID, Pool: v1alpha1.ExternalAddressPool, CIDR: "10.70.0.0/30"},
		},
		&v1alpha1.AddressMapping{
			ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: "by-hand"},
			Spec: v1alpha1.AddressMappingSpec{
				ClusterID: naplesID, Pool: v1alpha1.ExternalAddressPool, Address: "10.1.2.2",
			},
		},
	}
	w.Add(kept...)
	clear(w.pods.of)
	w.Pass(w.ofPods, web)
	if left := w.allMappings(); len(left) != len(kept) {
		t.Errorf("without the pod, %v are left, want the other %d", left, len(kept))
	}
}

func TestInterruptedPassIsCompletedByTheNext(t *testing.T) {
	bothFamilies := func(t *testing.T) *world {
		w := newWorld(t)
		w.expect(w.ofPods, web, webForNaples)
		w.pool("10.70.0.0/24", "fd70::/120")
		clear(w.pods.of)
		w.runs("milan", "10.1.2.3", "fd00:2::2")
		return w
	}
	for number := range 3 {
		for _, done := range []bool{false, true} {
			w := bothFamilies(t)
			w.Kill(len(w.Writes)+number, done)
			if _, err := w.ofPods.Reconcile(t.Context(), web); !errors.Is(err, kittest.ErrKilled) {
				t.Fatalf("write %d: error %v", number, err)
			}
			w.Fault = nil
			w.Pass(w.ofPods, web)
			if got := len(w.allMappings()); got != 2 {
				t.Errorf("killed at write %d (done: %v): %v", number, done, w.allMappings())
			}
			if _, writes := w.Pass(w.ofPods, web); len(writes) > 0 {
				t.Errorf("killed at write %d (done: %v): then %v is written", number, done, writes)
			}
		}
	}
}

func TestPodsOfATunnelAreReconciled(t *testing.T) {
	w := newWorld(t)
	w.expect(w.ofPods, web, webForNaples)
	gone := kit.Request("shop", "gone")
	w.Add(single(installation, podOrigin(gone.NamespacedName), milanID, peer{"naples", naplesID}, netipAddr("10.1.9.9")))
	tunnel := func(name string) client.Object {
		return &v1alpha1.TunnelEndpoint{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	for _, test := range []struct {
		name string
		got  []string
		want []string
	}{
		{"tunnel to its provider", texts(w.ofPods.behindTunnel(t.Context(), tunnel("milan"))), []string{"shop/web"}},
		{"tunnel to another provider", texts(w.ofPods.behindTunnel(t.Context(), tunnel("naples"))),
			[]string{"shop/gone", "shop/web"}},
		{"tunnel to a stranger", texts(w.ofPods.behindTunnel(t.Context(), tunnel("turin"))), nil},
		{"deleted virtual node", texts(w.ofPods.allMapped(t.Context(), nil)), []string{"shop/gone", "shop/web"}},
		{"changed pool", texts(w.ofPods.all(t.Context(), nil)), []string{"shop/gone", "shop/web"}},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
