// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestQuotaOfARemoteNamespaceEqualsTheOffers(t *testing.T) {
	for _, test := range []struct {
		name   string
		offers []v1alpha1.ResourceOffer
		want   corev1.ResourceList
	}{
		{"no offer", nil, nothing},
		{"withdrawn offer",
			[]v1alpha1.ResourceOffer{*offer(func(o *v1alpha1.ResourceOffer) { o.Spec.Withdrawn = true })}, nothing},
		{"offer that is being deleted", []v1alpha1.ResourceOffer{*ending(offer())}, nothing},
		{"offer", []v1alpha1.ResourceOffer{*offer()}, resources("requests.cpu", "2", "pods", "10")},
		{"storage, which the ledger bounds", []v1alpha1.ResourceOffer{*offer(func(o *v1alpha1.ResourceOffer) {
			o.Spec.Storage = resources("requests.storage", "10Gi", "persistentvolumeclaims", "3")
		})}, resources("requests.cpu", "2", "pods", "10")},
		{"two offers", []v1alpha1.ResourceOffer{*offer(), *offer()}, resources("requests.cpu", "4", "pods", "20")},
		{
			"resources with and without a quota",
			[]v1alpha1.ResourceOffer{*offer(func(o *v1alpha1.ResourceOffer) {
				o.Spec.Resources = resources("memory", "1Gi", "ephemeral-storage", "1Gi", "hugepages-2Mi", "4Mi",
					"example.com/gpu", "1", "attachable-volumes-x", "9")
			})},
			resources("requests.memory", "1Gi", "requests.ephemeral-storage", "1Gi", "requests.hugepages-2Mi", "4Mi",
				"requests.example.com/gpu", "1"),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, quotaOf(test.offers)); diff != "" {
				t.Errorf("quota (-want +got):\n%s", diff)
			}
		})
	}
}

func TestQuotaDoesNotFallWhileMoreIsUsedThanIsOffered(t *testing.T) {
	for _, test := range []struct {
		name                         string
		current, offered, used, want corev1.ResourceList
	}{
		{"first offer",
			nil, resources("requests.cpu", "4", "pods", "10"), nil, resources("requests.cpu", "4", "pods", "10")},
		{"usage within a smaller offer",
			resources("requests.cpu", "8"), resources("requests.cpu", "4"), resources("requests.cpu", "4"),
			resources("requests.cpu", "4")},
		{"cordoned consumer",
			resources("requests.cpu", "8"), resources("requests.cpu", "0"), resources("requests.cpu", "6"),
			resources("requests.cpu", "8")},
		{"cordoned consumer with a quota below its usage",
			resources("requests.cpu", "1"), resources("requests.cpu", "0"), resources("requests.cpu", "6"),
			resources("requests.cpu", "6")},
		{"usage of one resource above the offer",
			resources("requests.cpu", "8", "pods", "9"), resources("requests.cpu", "4", "pods", "5"),
			resources("requests.cpu", "6", "pods", "1"), resources("requests.cpu", "8", "pods", "9")},
		{"greater offer of another resource",
			resources("requests.cpu", "8", "pods", "1"), resources("requests.cpu", "4", "pods", "5"),
			resources("requests.cpu", "6"), resources("requests.cpu", "8", "pods", "5")},
		{"resource that is not offered any more",
			resources("requests.cpu", "8", "requests.example.com/gpu", "1"), resources("requests.cpu", "4"),
			resources("requests.example.com/gpu", "1"), resources("requests.cpu", "4")},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, boundOf(test.current, test.offered, test.used, nil)); diff != "" {
				t.Errorf("bounds (-want +got):\n%s", diff)
			}
		})
	}
}

// The pod of a shadow pod that lost its node is created again, so that the shadow pod still
// uses its resources.
func TestQuotaOfARemoteNamespaceCoversItsUsage(t *testing.T) {
	shadow := func(name, consumer string, phase corev1.PodPhase) *v1alpha1.ShadowPod {
		return &v1alpha1.ShadowPod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "bakery"},
			Spec: v1alpha1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "web", Resources: corev1.ResourceRequirements{Requests: resources("cpu", "2")},
			}}}},
			Status: v1alpha1.ShadowPodStatus{ForeignCluster: consumer, Phase: phase},
		}
	}
	empty := func(o *v1alpha1.ResourceOffer) { o.Spec.Resources = resources("cpu", "0", "pods", "0") }
	withdrawn := func(o *v1alpha1.ResourceOffer) { o.Spec.Withdrawn = true }
	for _, test := range []struct {
		name  string
		offer *v1alpha1.ResourceOffer
		want  corev1.ResourceList
		again time.Duration
	}{
		{"cordoned consumer with pods", offer(empty), resources("requests.cpu", "2", "pods", "1"), usageInterval},
		{"enough is offered", offer(), resources("requests.cpu", "2", "pods", "10"), 0},
		{"the offer is withdrawn", offer(empty, withdrawn), nothing, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := kittest.New(t, slices.Concat(peered(), configured(), []client.Object{
				reported(requesting("bakery"), "bakery"), remoteNamespace("bakery", "bakery"), test.offer,
				shadow("web", "milan", ""), shadow("done", "milan", corev1.PodSucceeded), shadow("other", "naples", ""),
			})...)
			if again := pass(t, newReconciler(c)); again != test.again {
				t.Errorf("reconciled again after %s, want %s", again, test.again)
			}
			got := kittest.Read(c, "bakery", naming.RemoteNamespaceQuota, &corev1.ResourceQuota{}).Spec.Hard
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("quota (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUsageOfAQuotaRequestsNoPass(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*corev1.ResourceQuota)
		want   bool
	}{
		{"its usage", func(q *corev1.ResourceQuota) { q.Status.Used = resources("pods", "3") }, false},
		{"its bounds", func(q *corev1.ResourceQuota) { q.Spec.Hard = resources("pods", "3") }, true},
		{"it is in force", func(q *corev1.ResourceQuota) { q.Status.Hard = nothing }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := quotaIn("bakery", nothing)
			old.Status.Hard = nil
			current := old.DeepCopy()
			test.change(current)
			if got := quotaChanged().Update(event.UpdateEvent{ObjectOld: old, ObjectNew: current}); got != test.want {
				t.Errorf("requests a pass: %v, want %v", got, test.want)
			}
		})
	}
}
