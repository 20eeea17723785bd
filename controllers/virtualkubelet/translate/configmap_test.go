// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// copied returns the expected metadata of a reflected object.
func copied(name string, change func(*metav1.ObjectMeta)) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Namespace: "shop-rome",
		Name:      name,
		Labels: map[string]string{
			"offloading.liqo.io/origin": "rome-id", "offloading.liqo.io/destination": "milan-id",
		},
		Annotations: map[string]string{
			"offloading.liqo.io/origin-namespace": "shop",
			"offloading.liqo.io/reflected-keys":   ";",
		},
	}
	if change != nil {
		change(&meta)
	}
	return meta
}

func TestConfigMapIsReflectedUnchanged(t *testing.T) {
	for _, test := range []struct {
		name  string
		local corev1.ConfigMap
		want  *corev1.ConfigMap
	}{
		{
			name: "data verbatim",
			local: corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Immutable: ptr.To(true),
				Data: map[string]string{"a": "1", "empty": ""}, BinaryData: map[string][]byte{"b": {0, 255}},
			},
			want: &corev1.ConfigMap{
				ObjectMeta: copied("settings", nil), Immutable: ptr.To(true),
				Data: map[string]string{"a": "1", "empty": ""}, BinaryData: map[string][]byte{"b": {0, 255}},
			},
		},
		{
			name: "labels and annotations, without owners and the annotation of kubectl",
			local: corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name: "settings", UID: "1", ResourceVersion: "7", Generation: 2, GenerateName: "set",
				Labels: map[string]string{
					"app": "web", "tier": "front", "offloading.liqo.io/origin": "other",
				},
				Annotations:     map[string]string{"example.com/note": "x", corev1.LastAppliedConfigAnnotation: "{}"},
				OwnerReferences: []metav1.OwnerReference{{Name: "web"}}, Finalizers: []string{"example.com/hold"},
			}},
			want: &corev1.ConfigMap{ObjectMeta: copied("settings", func(m *metav1.ObjectMeta) {
				m.Labels["app"], m.Labels["tier"] = "web", "front"
				m.Annotations["example.com/note"] = "x"
				m.Annotations["offloading.liqo.io/reflected-keys"] =
					"app,offloading.liqo.io/origin,tier;example.com/note"
			})},
		},
		{
			name: "the root CA has another name",
			local: corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": "consumer"},
			},
			want: &corev1.ConfigMap{
				ObjectMeta: copied("kube-root-ca.crt.home", nil), Data: map[string]string{"ca.crt": "consumer"},
			},
		},
		{
			name:  "the remote name of the root CA is reserved",
			local: corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt.home"}},
		},
		{
			name: "excluded by annotation",
			local: corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Name: "settings", Annotations: map[string]string{"liqo.io/skip-reflection": ""},
				},
			},
		},
		{
			name: "not excluded by annotation",
			local: corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Name: "settings", Annotations: map[string]string{"liqo.io/skip-reflection": "false"},
				},
			},
			want: &corev1.ConfigMap{ObjectMeta: copied("settings", func(m *metav1.ObjectMeta) {
				m.Annotations["liqo.io/skip-reflection"] = "false"
				m.Annotations["offloading.liqo.io/reflected-keys"] = ";liqo.io/skip-reflection"
			})},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.local.Namespace = "shop"
			before := test.local.DeepCopy()
			got := ConfigMap(&test.local, "shop-rome", destination)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("reflected object (-want +got):\n%s", diff)
			}
			if got != nil {
				if local := LocalConfigMap(got.Name); local != test.local.Name {
					t.Errorf("the local name of the reflected object is %s", local)
				}
				if got.Data != nil {
					got.Data["changed"] = "x"
				}
				got.Labels["changed"] = "x"
			}
			if diff := cmp.Diff(before, &test.local); diff != "" {
				t.Errorf("the reflected object shares fields with the local one:\n%s", diff)
			}
		})
	}
}

func TestUpdateConfigMapChangesWhatDiffers(t *testing.T) {
	local := func(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
		m := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:   "shop",
				Name:        "settings",
				Labels:      map[string]string{"app": "web"},
				Annotations: map[string]string{"note": "x"},
			},
			Data: map[string]string{"a": "1"},
		}
		if change != nil {
			change(m)
		}
		return m
	}
	immutable := func(m *corev1.ConfigMap) { m.Immutable = ptr.To(true) }
	for _, test := range []struct {
		name string
		// before and after modify the local object of the first and the second translation; drift modifies the reflected
		// object between them.
		before, after, drift func(*corev1.ConfigMap)
		want                 Change
		// kept has the annotations that the provider added.
		kept map[string]string
	}{
		{name: "nothing"},
		{name: "data", after: func(m *corev1.ConfigMap) { m.Data["a"] = "2" }, want: Update},
		{name: "empty data", after: func(m *corev1.ConfigMap) { m.BinaryData = map[string][]byte{} }},
		{name: "removed data", after: func(m *corev1.ConfigMap) { m.Data = nil }, want: Update},
		{name: "a label", after: func(m *corev1.ConfigMap) { m.Labels["app"] = "shop" }, want: Update},
		{name: "a removed label", after: func(m *corev1.ConfigMap) { m.Labels = nil }, want: Update},
		{name: "a removed annotation", after: func(m *corev1.ConfigMap) { m.Annotations = nil }, want: Update},
		{name: "data changed on the provider", drift: func(m *corev1.ConfigMap) { m.Data["b"] = "2" }, want: Update},
		{
			name: "a label changed on the provider", drift: func(m *corev1.ConfigMap) { m.Labels["app"] = "other" },
			want: Update,
		},
		{
			name:  "an annotation removed on the provider",
			drift: func(m *corev1.ConfigMap) { delete(m.Annotations, "note") }, want: Update,
		},
		{
			name:  "annotations of the provider",
			drift: func(m *corev1.ConfigMap) { m.Annotations["provider"] = "y" },
			kept:  map[string]string{"provider": "y"},
		},
		{
			name: "a label in addition to the provider's", kept: map[string]string{"provider": "y"}, want: Update,
			drift: func(m *corev1.ConfigMap) { m.Annotations["provider"] = "y" },
			after: func(m *corev1.ConfigMap) { delete(m.Annotations, "note") },
		},
		{name: "immutable", after: immutable, want: Update},
		{name: "unchanged immutable object", before: immutable, after: immutable},
		{
			name: "the label of an immutable object", before: immutable, want: Update,
			after: func(m *corev1.ConfigMap) { immutable(m); m.Labels["app"] = "shop" },
		},
		{
			name: "the data of an immutable object", before: immutable, want: Replace,
			after: func(m *corev1.ConfigMap) { immutable(m); m.Data["a"] = "2" },
		},
		{name: "no longer immutable", before: immutable, want: Replace},
	} {
		t.Run(test.name, func(t *testing.T) {
			existing := ConfigMap(local(test.before), "shop-rome", destination)
			existing.ResourceVersion = "7"
			if test.drift != nil {
				test.drift(existing)
			}
			desired := ConfigMap(local(test.after), "shop-rome", destination)
			if got := UpdateConfigMap(existing, desired); got != test.want {
				t.Fatalf("change %d, want %d", got, test.want)
			}
			if test.want == Replace {
				return
			}
			expected := desired.DeepCopy()
			expected.ResourceVersion = "7"
			for key, value := range test.kept {
				expected.Annotations[key] = value
			}
			if diff := cmp.Diff(expected.ObjectMeta, existing.ObjectMeta); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
			if UpdateConfigMap(existing, desired) != Keep {
				t.Error("a second update changes something")
			}
		})
	}
}

func TestPodsReferToConfigMapsByTheirRemoteName(t *testing.T) {
	ref := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	using := func(name string) corev1.PodSpec {
		containers := []corev1.Container{{
			Name: "app",
			Env: []corev1.EnvVar{
				{Name: "PLAIN", Value: "kube-root-ca.crt"},
				{
					Name: "CA",
					ValueFrom: &corev1.EnvVarSource{
						ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref(name), Key: "ca.crt"},
					},
				},
				{
					Name: "SECRET",
					ValueFrom: &corev1.EnvVarSource{
						SecretKeyRef: &corev1.SecretKeySelector{
							LocalObjectReference: ref("kube-root-ca.crt"), Key: "k",
						},
					},
				},
			},
			EnvFrom: []corev1.EnvFromSource{
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref(name)}},
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("kube-root-ca.crt")}},
			},
		}}
		return corev1.PodSpec{
			Containers: containers, InitContainers: containers,
			Volumes: []corev1.Volume{
				{
					Name: "mounted",
					VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref(name)},
					},
				},
				{
					Name: "settings",
					VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref("settings")},
					},
				},
				projected("projected", configMap(name), configMap("settings")),
			},
		}
	}
	got := ShadowPod(&corev1.Pod{Spec: using("kube-root-ca.crt")}, "shop-rome", destination, nil)
	want := ShadowPod(&corev1.Pod{Spec: using("kube-root-ca.crt.home")}, "shop-rome", destination, nil)
	if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
}
