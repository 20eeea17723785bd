// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remotens

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestShadowPodsWithEqualImagesShareThem(t *testing.T) {
	trimmed := func(containers ...corev1.Container) []corev1.Container {
		obj, err := TrimShadowPod(
			&v1alpha1.ShadowPod{Spec: v1alpha1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: containers}}},
		)
		if err != nil {
			t.Fatal(err)
		}
		return obj.(*v1alpha1.ShadowPod).Spec.Pod.Containers
	}
	web, db := corev1.Container{Name: "web", Image: "web:1"}, corev1.Container{Name: "db", Image: "db:1"}
	one, same := trimmed(web, db), trimmed(corev1.Container{Name: "web", Image: "web:1", Args: []string{"serve"}}, db)
	if &one[0] != &same[0] {
		t.Error("equal images do not share memory")
	}
	sized := func(requests, limits corev1.ResourceList) corev1.Container {
		return corev1.Container{
			Name:      "web",
			Image:     "web:1",
			Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
		}
	}
	cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	for _, other := range [][]corev1.Container{
		{web}, {db, web}, {
			web, {Name: "db", Image: "db:2"},
		}, {}, {sized(cpu, nil)}, {sized(nil, cpu)}, {sized(cpu, cpu)},
		{sized(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1")}, nil)},
	} {
		if diff := cmp.Diff(other, trimmed(other...)); diff != "" {
			t.Errorf("images (-want +got):\n%s", diff)
		}
	}
}

func TestPodsOfOneDeploymentShareEqualParts(t *testing.T) {
	trimmed := func(pod *corev1.Pod) *corev1.Pod {
		// Each copy is a separate value, as decoded from the API server's responses.
		obj, err := TrimLocalPod(pod.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		return obj.(*corev1.Pod)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            "web-1",
			Labels:          map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "1"}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager"}},
		},
		Spec: corev1.PodSpec{
			NodeName:    "liqo-milan",
			Tolerations: []corev1.Toleration{{Key: "virtual", Operator: corev1.TolerationOpExists}},
			Affinity:    &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
			Volumes: []corev1.Volume{
				{
					Name:         "kube-api-access-1",
					VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}},
				},
			},
			Containers: []corev1.Container{{
				Name: "web", Env: []corev1.EnvVar{{Name: "LANG", Value: "it"}},
				VolumeMounts: []corev1.VolumeMount{{Name: "kube-api-access-1", MountPath: "/var/run/secrets"}},
			}},
		},
		Status: corev1.PodStatus{
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1, 0)},
			},
		},
	}
	change := func(how func(*corev1.Pod)) *corev1.Pod {
		changed := pod.DeepCopy()
		how(changed)
		return changed
	}
	one := trimmed(pod)
	other := trimmed(change(func(p *corev1.Pod) {
		p.Name, p.Spec.Volumes[0].Name, p.Spec.Containers[0].VolumeMounts[0].Name = "web-2", "kube-api-access-2",
			"kube-api-access-2"
	}))
	if &one.OwnerReferences[0] != &other.OwnerReferences[0] || &one.Spec.Tolerations[0] != &other.Spec.Tolerations[0] ||
		one.Spec.Affinity != other.Spec.Affinity || &one.Status.Conditions[0] != &other.Status.Conditions[0] ||
		one.Spec.Volumes[0].Projected != other.Spec.Volumes[0].Projected ||
		&one.Spec.Containers[0].Env[0] != &other.Spec.Containers[0].Env[0] {
		t.Error("equal values do not share memory")
	}
	large := change(func(p *corev1.Pod) { p.OwnerReferences[0].Name = strings.Repeat("x", largestShared) })
	if one, other := trimmed(large), trimmed(large); &one.OwnerReferences[0] == &other.OwnerReferences[0] {
		t.Error("large values are shared")
	}
	for _, pod := range []*corev1.Pod{
		pod,
		change(func(p *corev1.Pod) { p.Labels["app"] = "db" }),
		change(func(p *corev1.Pod) { p.Labels = nil }),
		change(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "2" }),
		change(func(p *corev1.Pod) { p.Spec.Tolerations[0].Effect = corev1.TaintEffectNoExecute }),
		change(func(p *corev1.Pod) { p.Spec.Tolerations = nil }),
		change(func(p *corev1.Pod) { p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{} }),
		change(func(p *corev1.Pod) { p.Spec.Volumes[0].Name = "kube-api-access-2" }),
		change(func(p *corev1.Pod) { p.Spec.Volumes[0].Projected.DefaultMode = ptr.To[int32](0o400) }),
		change(func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[0].MountPath = "/elsewhere" }),
		change(func(p *corev1.Pod) { p.Spec.Containers[0].Env[0].Value = "en" }),
		change(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }),
		change(func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Unix(2, 0) }),
		change(func(p *corev1.Pod) { p.Status.Conditions = nil }),
	} {
		want := pod.DeepCopy()
		want.ManagedFields = nil
		if diff := cmp.Diff(want, trimmed(pod)); diff != "" {
			t.Errorf("a pod in the cache (-want +got):\n%s", diff)
		}
	}
}
