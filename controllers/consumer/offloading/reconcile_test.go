// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestPhaseSumsUpTheSelectedProviders(t *testing.T) {
	reporting := func(phase v1alpha1.NamespaceMappingPhase) state {
		return state{selected: true, requested: true, reported: &v1alpha1.NamespaceMappingStatus{Phase: phase}}
	}
	ready, refused := reporting(v1alpha1.NamespaceMappingReady), reporting(v1alpha1.NamespaceMappingRefused)
	for _, test := range []struct {
		name   string
		states []state
		want   v1alpha1.OffloadingPhase
	}{
		{"no provider", nil, v1alpha1.OffloadingNoClusterSelected},
		{"none is selected", []state{{}}, v1alpha1.OffloadingNoClusterSelected},
		{"all are ready", []state{ready, ready, {}}, v1alpha1.OffloadingReady},
		{"one has not answered", []state{ready, {selected: true, requested: true}}, v1alpha1.OffloadingInProgress},
		{"one is terminating", []state{reporting(v1alpha1.NamespaceMappingTerminating)}, v1alpha1.OffloadingInProgress},
		{"some failed", []state{ready, refused}, v1alpha1.OffloadingSomeFailed},
		{"all failed", []state{refused, reporting(v1alpha1.NamespaceMappingConflict)}, v1alpha1.OffloadingAllFailed},
		{"the map is full", []state{{selected: true, full: true}}, v1alpha1.OffloadingAllFailed},
		{"the name is taken", []state{{selected: true, taken: true}}, v1alpha1.OffloadingAllFailed},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := phaseOf(test.states); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestTimeAloneDoesNotChangeTheStatus(t *testing.T) {
	offloading := offloadingOf("shop", 0)
	states := []state{
		{cluster: "milan", selected: true, requested: true},
		{cluster: "paris", selectorErr: errors.New("no")},
	}
	offloading.Status = statusOf(offloading, "shop", states, v1alpha1.OffloadingInProgress, kittest.Epoch)
	later := statusOf(offloading, "shop", states, v1alpha1.OffloadingInProgress, kittest.Epoch.Add(time.Hour))
	if diff := cmp.Diff(offloading.Status, later); diff != "" {
		t.Errorf("status (-before +after):\n%s", diff)
	}
}

func TestOffloadedNamespaceIsLabelledAndThenNotWritten(t *testing.T) {
	c := newConsumer(t, foreignCluster(), virtualNode(), namespaceMap("shop"), namespace("shop", nil),
		offloadingOf("shop", 0))
	c.pass()
	want := []string{
		"patch Namespace shop", "create RoleBinding federation-reflection",
		"patch status NamespaceOffloading offloading",
	}
	if diff := cmp.Diff(want, c.WritesSince(0)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if status := c.status(); status.Phase != v1alpha1.OffloadingReady {
		t.Errorf("status %+v", status)
	}
	c.pass()
	if got := c.WritesSince(len(want)); got != nil {
		t.Errorf("a settled namespace is written: %q", got)
	}
}

func TestStatusOfAnotherRemoteNamespaceIsPending(t *testing.T) {
	for _, test := range []struct {
		name, requested, reported string
		phase                     v1alpha1.NamespaceMappingPhase
		want                      string
		message                   string
	}{
		{"the requested one is ready", "shop", "shop", v1alpha1.NamespaceMappingReady, "RemoteNamespaceCreated", ""},
		{"an earlier one is not ready", "shop", "shop-old", v1alpha1.NamespaceMappingReady, "Pending", "shop-old"},
		{
			"a former failed namespace", "shop", "shop-old", v1alpha1.NamespaceMappingConflict, "Pending",
			"has not created the remote namespace yet.",
		},
		{
			"a former ready namespace without an entry", "", "shop-old", v1alpha1.NamespaceMappingReady, "Pending",
			"shop-old",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := namespaceMap("shop")
			m.Spec.Namespaces[0].RemoteName = test.requested
			if test.requested == "" {
				m.Spec.Namespaces = nil
			}
			m.Status.Namespaces[0].RemoteName, m.Status.Namespaces[0].Phase = test.reported, test.phase
			c := newConsumer(t, foreignCluster(), virtualNode(), m, labelled("shop"), offloadingOf("shop", 0))
			c.pass()
			ready := meta.FindStatusCondition(c.status().Clusters[0].Conditions, v1alpha1.ConditionReady)
			if ready == nil || ready.Reason != test.want || !strings.Contains(ready.Message, test.message) {
				t.Errorf("condition %+v, want %s", ready, test.want)
			}
			if events := c.Recorded(); len(events) > 0 {
				t.Errorf("events %q", events)
			}
		})
	}
}

func TestRefusalOfAProviderIsOneEvent(t *testing.T) {
	c := newConsumer(t, append(offloadedShop(), offloadingOf("shop", time.Hour, remoteOnly(v1alpha1.Warn)))...)
	kittest.Change(c.Cluster, "liqo-peer-milan", "rome", &v1alpha1.NamespaceMap{}, func(m *v1alpha1.NamespaceMap) {
		m.Status.Namespaces[0].Phase, m.Status.Namespaces[0].Message = v1alpha1.NamespaceMappingConflict,
			"a namespace of this name exists"
	})
	for pass, want := range [][]string{{"NamespaceConflict"}, nil} {
		c.pass()
		if diff := cmp.Diff(want, c.reasons()); diff != "" {
			t.Errorf("events of reconcile %d (-want +got):\n%s", pass, diff)
		}
	}
}

func TestChangedEntriesRequestAPassOverTheirNamespaces(t *testing.T) {
	before := namespaceMap("bank", "shop")
	before.Generation = 1
	unreported := before.DeepCopy()
	unreported.Status.Namespaces = nil
	for _, test := range []struct {
		name   string
		old    *v1alpha1.NamespaceMap
		change func(*v1alpha1.NamespaceMap)
		want   []string
	}{
		{"created", nil, func(*v1alpha1.NamespaceMap) {}, []string{"bank", "shop"}},
		{"nothing", before, func(*v1alpha1.NamespaceMap) {}, nil},
		{"the status of one", before, func(m *v1alpha1.NamespaceMap) {
			m.Status.Namespaces[1].Phase = v1alpha1.NamespaceMappingFailed
		}, []string{"shop"}},
		{"one is no longer reported", before, func(m *v1alpha1.NamespaceMap) {
			m.Status.Namespaces = m.Status.Namespaces[:1]
		}, []string{"shop"}},
		{"the entry of one that is not reported is removed", unreported, func(m *v1alpha1.NamespaceMap) {
			m.Generation, m.Spec.Namespaces = 2, m.Spec.Namespaces[:1]
		}, []string{"bank", "shop"}},
		{"the spec", before, func(m *v1alpha1.NamespaceMap) { m.Generation = 2 }, []string{"bank", "shop"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			current := before.DeepCopy()
			if test.old != nil {
				current = test.old.DeepCopy()
			}
			test.change(current)
			got := changedNamespaces(test.old, current)
			slices.Sort(got)
			if diff := cmp.Diff(test.want, slices.Compact(got)); diff != "" {
				t.Errorf("namespaces (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnoffloadingWaitsForPodsAndRemoteNamespacesUntilTheTimeout(t *testing.T) {
	pod := podOf("", "web", 0, offloaded)
	endingPod, done, local := podOf("", "web", 0, offloaded, ending), podOf("", "web", 0, offloaded, succeeded),
		podOf("", "web", 0)
	reported := []state{{cluster: "milan", reported: &namespaceMap("shop").Status.Namespaces[0]}}
	deleting := func(ago time.Duration, states []state, pods ...*corev1.Pod) client.Object {
		return offloadingOf("shop", time.Hour, deletedSince(ago), reportedAs(t, states, pods...))
	}
	for _, test := range []struct {
		name       string
		objects    []client.Object
		wrote      []string
		retryAfter bool
	}{
		{
			name:    "the phase is reported first",
			objects: []client.Object{offloadingOf("shop", time.Hour, deletedSince(0)), namespaceMap("shop"), pod},
			wrote:   []string{"patch status NamespaceOffloading offloading"},
		},
		{
			name:    "pods on virtual nodes are deleted",
			objects: []client.Object{deleting(0, reported, pod), namespaceMap("shop"), pod},
			wrote:   []string{"delete Pod web"}, retryAfter: true,
		},
		{
			name:       "a pod is deleted once",
			objects:    []client.Object{deleting(0, reported, endingPod), namespaceMap("shop"), endingPod},
			retryAfter: true,
		},
		{
			name:    "finished pods stay; the remote namespace is removed",
			objects: []client.Object{deleting(0, reported), namespaceMap("shop"), done},
			wrote:   []string{"patch NamespaceMap rome"}, retryAfter: true,
		},
		{
			name:    "local pods stay; without the remote namespace, label and finalizer are removed",
			objects: []client.Object{deleting(0, []state{{cluster: "milan"}}), namespaceMap(), local},
			wrote:   []string{"patch Namespace shop", "patch NamespaceOffloading offloading"},
		},
		{
			name:    "after the timeout the offloading ends",
			objects: []client.Object{deleting(timeout, reported), namespaceMap("shop"), endingPod},
			wrote: []string{
				"patch NamespaceMap rome", "patch Namespace shop", "patch NamespaceOffloading offloading",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newConsumer(t, append(test.objects, foreignCluster(), virtualNode(), labelled("shop"))...)
			retryAfter, _ := c.pass()
			if diff := cmp.Diff(test.wrote, c.WritesSince(0)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if (retryAfter > 0) != test.retryAfter {
				t.Errorf("reconciled again after %s", retryAfter)
			}
		})
	}
}

func TestUnoffloadedNamespaceHasNoLabelAndNoAccounts(t *testing.T) {
	shop := labelled("shop")
	metav1.SetMetaDataAnnotation(&shop.ObjectMeta, v1alpha1.AnnotationAccounts,
		"liqo-peer-milan:federation-virtual-kubelet-milan:default")
	c := newConsumer(t, offloadingOf("shop", time.Hour, deletedSince(0), reportedAs(t, nil)), shop)
	c.pass()
	got := kittest.Read(c.Cluster, "", "shop", &corev1.Namespace{})
	if len(got.Labels)+len(got.Annotations) > 0 {
		t.Errorf("labels %v, annotations %v, want none", got.Labels, got.Annotations)
	}
}
