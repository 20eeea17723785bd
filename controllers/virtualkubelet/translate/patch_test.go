// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestPatchOfAVirtualNodeIsApplied(t *testing.T) {
	term := func(app string) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{
			TopologyKey:   corev1.LabelHostname,
			LabelSelector: selects("app", metav1.LabelSelectorOpIn, app),
		}
	}
	together := func(apps ...string) *corev1.PodAffinity {
		result := &corev1.PodAffinity{}
		for _, app := range apps {
			result.RequiredDuringSchedulingIgnoredDuringExecution = append(
				result.RequiredDuringSchedulingIgnoredDuringExecution,
				term(app),
			)
		}
		return result
	}
	apart := func(apps ...string) *corev1.PodAntiAffinity {
		result := &corev1.PodAntiAffinity{}
		for _, app := range apps {
			result.PreferredDuringSchedulingIgnoredDuringExecution = append(
				result.PreferredDuringSchedulingIgnoredDuringExecution,
				corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: term(app)},
			)
		}
		return result
	}
	nodes := &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "pool", Operator: corev1.NodeSelectorOpExists},
				},
			}},
		},
	}
	for _, test := range []struct {
		name        string
		local, want corev1.PodSpec
		patch       v1alpha1.OffloadingPatch
	}{
		{
			name: "chooses nodes of the provider, in place of the virtual one",
			local: corev1.PodSpec{
				NodeSelector: map[string]string{"liqo.io/type": "virtual-node"},
				Affinity:     &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
			},
			patch: v1alpha1.OffloadingPatch{
				NodeSelector: map[string]string{"disk": "ssd"}, Affinity: &corev1.Affinity{NodeAffinity: nodes},
			},
			want: corev1.PodSpec{
				NodeSelector: map[string]string{"disk": "ssd"}, Affinity: &corev1.Affinity{NodeAffinity: nodes},
			},
		},
		{
			name: "adds terms to the pod's terms",
			local: corev1.PodSpec{
				Affinity: &corev1.Affinity{PodAffinity: together("own"), PodAntiAffinity: apart("own")},
			},
			patch: v1alpha1.OffloadingPatch{
				Affinity: &corev1.Affinity{PodAffinity: together("more"), PodAntiAffinity: apart("more")},
			},
			want: corev1.PodSpec{
				Affinity: &corev1.Affinity{PodAffinity: together("own", "more"), PodAntiAffinity: apart("own", "more")},
			},
		},
		{
			name: "keeps the pod's terms",
			local: corev1.PodSpec{
				Affinity: &corev1.Affinity{PodAffinity: together("own"), PodAntiAffinity: apart("own")},
			},
			patch: v1alpha1.OffloadingPatch{Affinity: &corev1.Affinity{NodeAffinity: nodes}},
			want: corev1.PodSpec{
				Affinity: &corev1.Affinity{
					NodeAffinity: nodes, PodAffinity: together("own"), PodAntiAffinity: apart("own"),
				},
			},
		},
		{
			name:  "adds tolerations, each once",
			local: corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "gpu"}}},
			patch: v1alpha1.OffloadingPatch{Tolerations: []corev1.Toleration{{Key: "gpu"}, {Key: "spot"}}},
			want:  corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "gpu"}, {Key: "spot"}}},
		},
		{
			name:  "names another runtime class",
			local: corev1.PodSpec{RuntimeClassName: ptr.To("kata")},
			patch: v1alpha1.OffloadingPatch{RuntimeClassName: ptr.To("gvisor")},
			want:  corev1.PodSpec{RuntimeClassName: ptr.To("gvisor")},
		},
		{
			name:  "takes the runtime class away",
			local: corev1.PodSpec{RuntimeClassName: ptr.To("kata")},
			patch: v1alpha1.OffloadingPatch{RuntimeClassName: ptr.To("")},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			local, patch := &corev1.Pod{Spec: test.local}, test.patch.DeepCopy()
			want := test.want
			want.AutomountServiceAccountToken, want.EnableServiceLinks = ptr.To(false), ptr.To(false)
			got := ShadowPod(local.DeepCopy(), "demo-rome", destination, patch).Spec.Pod
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("pod of the shadow pod (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(&test.patch, patch); diff != "" {
				t.Errorf("the patch was changed:\n%s", diff)
			}
		})
	}
}

func TestExcludedLabelsAndAnnotationsAreNotForwarded(t *testing.T) {
	local := podOf(func(*corev1.PodSpec) {})
	local.Annotations = map[string]string{"secret": "x", "note": "y"}
	patch := &v1alpha1.OffloadingPatch{
		// LabelOrigin and AnnotationOriginUID are always set.
		ExcludedLabels:      []string{"hash", v1alpha1.LabelOrigin},
		ExcludedAnnotations: []string{"secret", "missing", v1alpha1.AnnotationOriginUID},
	}
	before := local.DeepCopy()
	got := ShadowPod(local, "demo-rome", destination, patch)
	wantLabels := map[string]string{
		"app": "web", "offloading.liqo.io/origin": "rome-id",
		"offloading.liqo.io/destination": "milan-id", "offloading.liqo.io/virtual-node": "liqo-milan",
	}
	wantAnnotations := map[string]string{
		"note": "y", "offloading.liqo.io/origin-namespace": "demo", "offloading.liqo.io/origin-uid": "uid",
	}
	if diff := cmp.Diff(wantLabels, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantAnnotations, got.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, local); diff != "" {
		t.Errorf("the local pod was changed:\n%s", diff)
	}
	running := ShadowPod(local, "demo-rome", destination, nil)
	if !UpdateShadowPod(running, got) || running.Labels["hash"] != "" || running.Annotations["secret"] != "" {
		t.Errorf("a running pod still has labels %v, annotations %v", running.Labels, running.Annotations)
	}
}
