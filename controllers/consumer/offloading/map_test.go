// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestMapHasEntriesOfSelectedAndRemainingNamespaces(t *testing.T) {
	france := offloadingOf("shop", time.Hour, inRegion("fr"))
	disabled := foreignCluster()
	disabled.Spec.Outgoing = v1alpha1.PeeringDisabled
	deleted := virtualNode()
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{Time: kittest.Epoch}, []string{"test/stays"}
	frenchNode := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "liqo-milan", Labels: map[string]string{"region": "fr"},
	}}
	created, patched := []string{"create NamespaceMap rome"}, []string{"patch NamespaceMap rome"}

	for _, test := range []struct {
		name    string
		objects []client.Object
		want    []string
		wrote   []string
	}{
		{
			name:    "a selected namespace gets an entry, and the first one a map",
			objects: []client.Object{foreignCluster(), virtualNode(), offloadingOf("shop", 0)},
			want:    []string{"shop"}, wrote: created,
		},
		{
			name:    "nothing is written when nothing changed",
			objects: []client.Object{foreignCluster(), virtualNode(), offloadingOf("shop", 0), namespaceMap("shop")},
			want:    []string{"shop"},
		},
		{
			name:    "no map is created without an entry",
			objects: []client.Object{foreignCluster(), virtualNode(), france},
		},
		{
			name:    "the entry of a namespace that is not selected is removed",
			objects: []client.Object{foreignCluster(), virtualNode(), france, namespaceMap("shop")},
			wrote:   patched,
		},
		{
			name: "an entry is kept while its namespace has pods on the provider",
			objects: []client.Object{
				foreignCluster(), virtualNode(), france, namespaceMap("shop"), podOf("", "web", 0, offloaded),
			},
			want: []string{"shop"},
		},
		{
			name: "local and finished pods keep no entry",
			objects: []client.Object{
				foreignCluster(), virtualNode(), france, namespaceMap("shop"),
				podOf("", "local", 0), podOf("", "done", 0, offloaded, succeeded),
			},
			wrote: patched,
		},
		{
			name:    "pods alone add no entry",
			objects: []client.Object{foreignCluster(), virtualNode(), france, podOf("", "web", 0, offloaded)},
		},
		{
			name:    "the labels of the virtual node are selected",
			objects: []client.Object{foreignCluster(), virtualNode(), france, frenchNode},
			want:    []string{"shop"}, wrote: created,
		},
		{
			name: "an entry is kept while the namespace is being unoffloaded",
			objects: []client.Object{
				foreignCluster(), virtualNode(), offloadingOf("shop", 0, deletedSince(0)), namespaceMap("shop"),
			},
			want: []string{"shop"},
		},
		{
			name:    "a namespace that is being unoffloaded gets no entry",
			objects: []client.Object{foreignCluster(), virtualNode(), offloadingOf("shop", 0, deletedSince(0))},
		},
		{
			name: "a peering that ends keeps its entries and gets no more",
			objects: []client.Object{disabled, virtualNode(), offloadingOf("shop", 0), offloadingOf("bank", 0),
				namespaceMap("shop")},
			want: []string{"shop"},
		},
		{
			name: "a virtual node that is being deleted keeps entries and gets no more",
			objects: []client.Object{foreignCluster(), deleted, offloadingOf("shop", 0), offloadingOf("bank", 0),
				namespaceMap("shop")},
			want: []string{"shop"},
		},
		{
			name:    "without virtual nodes all entries are removed",
			objects: []client.Object{foreignCluster(), offloadingOf("shop", 0), namespaceMap("shop")},
			wrote:   patched,
		},
		{
			name: "an entry without an offloading is removed",
			objects: []client.Object{
				foreignCluster(), virtualNode(), offloadingOf("shop", 0), namespaceMap("other", "shop"),
			},
			want: []string{"shop"}, wrote: patched,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newConsumer(t, test.objects...)
			var got []string
			for _, entry := range c.passMap().Spec.Namespaces {
				got = append(got, entry.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.wrote, c.WritesSince(0)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEntryStaysWhileThePodsOfItsNamespaceAreUnknown(t *testing.T) {
	c := newConsumer(t, append(offloadedShop(), offloadingOf("shop", time.Hour, inRegion("fr")))...)
	c.watches.complete = false
	c.passMap()
	if len(c.Writes) > 0 {
		t.Errorf("a remote namespace whose pods are unknown is removed: %q", c.Writes)
	}
}

func TestPodsOfDaemonSetsKeepNoEntryWherePodsAreEvicted(t *testing.T) {
	for enforcement, stays := range map[v1alpha1.PlacementEnforcement]bool{v1alpha1.Warn: true, v1alpha1.Evict: false} {
		c := newConsumer(t, append(offloadedShop(), offloadingOf(
			"shop", time.Hour, remoteOnly(enforcement), inRegion("fr"),
		),
			podOf("daemons", "daemon", time.Hour, ofDaemonSet, offloaded))...)
		c.passMap()
		if len(c.Writes) > 0 == stays {
			t.Errorf("%s: writes %q", enforcement, c.Writes)
		}
	}
}

func TestRemoteNamespaceBelongsToTheNamespaceThatHasIt(t *testing.T) {
	defaultName := func(o *v1alpha1.NamespaceOffloading) { o.Spec.NamespaceMappingStrategy = v1alpha1.DefaultName }
	unique := offloadingOf("shop", 0, defaultName)
	remoteName := naming.UniqueRemoteNamespace("shop", "rome", romeID)
	older := offloadingOf(remoteName, time.Hour)
	holder := namespaceMap()
	holder.Spec.Namespaces = []v1alpha1.NamespaceMapping{{Name: "shop", RemoteName: remoteName}}
	common := []client.Object{foreignCluster(), virtualNode(), labelled("shop"), labelled(remoteName)}
	for _, test := range []struct {
		name    string
		objects []client.Object
		want    string
	}{
		{"the oldest offloading gets the name", []client.Object{unique, older}, remoteName},
		{"the offloading that has the name keeps it", []client.Object{unique, older, holder}, "shop"},
		{"the offloading keeps the name while it is unoffloaded",
			[]client.Object{offloadingOf("shop", 0, defaultName, deletedSince(0)), older, holder}, "shop"},
		{"the name is free without the offloading", []client.Object{older, holder}, remoteName},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newConsumer(t, append(test.objects, common...)...)
			want := []v1alpha1.NamespaceMapping{{Name: test.want, RemoteName: remoteName}}
			if diff := cmp.Diff(want, c.passMap().Spec.Namespaces); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}

	c := newConsumer(t, append(common, unique, older, holder)...)
	if _, err := c.reconciler.Reconcile(t.Context(), offloadingRequest(remoteName)); err != nil {
		t.Fatal(err)
	}
	status := kittest.Read(
		c.Cluster, remoteName, v1alpha1.NamespaceOffloadingName, &v1alpha1.NamespaceOffloading{},
	).Status
	ready := meta.FindStatusCondition(status.Clusters[0].Conditions, v1alpha1.ConditionReady)
	if status.Phase != v1alpha1.OffloadingAllFailed || ready == nil || ready.Reason != "NameTaken" {
		t.Errorf("status of the other namespace: %+v", status)
	}
}

func TestOldestNamespacesFillTheMap(t *testing.T) {
	objects := []client.Object{foreignCluster(), virtualNode()}
	for i := range maxEntries + 1 {
		objects = append(objects, offloadingOf(fmt.Sprintf("n%04d", i), time.Duration(i)*time.Minute))
	}
	entries := newConsumer(t, objects...).passMap().Spec.Namespaces
	if len(entries) != maxEntries || entries[0].Name != "n0001" {
		t.Errorf("%d entries, the first is %s", len(entries), entries[0].Name)
	}
}
