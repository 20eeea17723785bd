// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
)

func TestPodHasNoAccountPriorityOrNodeOfTheProvider(t *testing.T) {
	shadow := shadowPod(func(shadow *v1alpha1.ShadowPod) {
		shadow.Labels[v1alpha1.LabelOrigin] = "forged"
		shadow.Spec.Pod.ServiceAccountName = "admin"
		shadow.Spec.Pod.DeprecatedServiceAccount = "admin"
		shadow.Spec.Pod.AutomountServiceAccountToken = ptr.To(true)
		shadow.Spec.Pod.PriorityClassName = "system-node-critical"
		shadow.Spec.Pod.Priority = ptr.To[int32](2000001000)
		shadow.Spec.Pod.NodeName = "control-plane"
	})
	before := shadow.DeepCopy()
	pod := podOf(t, shadow)
	if pod.Labels[v1alpha1.LabelOrigin] != "consumer-id" || pod.Labels[v1alpha1.LabelDestination] != "provider-id" {
		t.Errorf("labels %v", pod.Labels)
	}
	want := before.Spec.Pod.DeepCopy()
	want.ServiceAccountName, want.DeprecatedServiceAccount, want.PriorityClassName, want.Priority, want.NodeName = "",
		"", "", nil, ""
	want.AutomountServiceAccountToken, want.EnableServiceLinks = ptr.To(false), ptr.To(false)
	want.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.Quantity{},
		corev1.ResourceMemory: resource.Quantity{}}
	if diff := cmp.Diff(*want, pod.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, shadow); diff != "" {
		t.Errorf("shadow pod (-before +after):\n%s", diff)
	}
	if !metav1.IsControlledBy(pod, shadow) || len(pod.Finalizers) > 0 {
		t.Errorf("owners %v, finalizers %v", pod.OwnerReferences, pod.Finalizers)
	}
}

// TestPodHasNoFieldThatTheProviderRefuses sets each field in turn, as if the shadow pod had not been validated.
func TestPodHasNoFieldThatTheProviderRefuses(t *testing.T) {
	for _, rule := range podspec.PodFields {
		if rule.Translation != podspec.Disabled && rule.Refusal == "" {
			continue
		}
		pod := podOf(t, shadowPod(func(shadow *v1alpha1.ShadowPod) {
			switch field := reflect.ValueOf(&shadow.Spec.Pod).Elem().FieldByName(rule.Name); field.Kind() {
			case reflect.String:
				field.SetString("other")
			case reflect.Slice:
				field.Set(reflect.MakeSlice(field.Type(), 1, 1))
			case reflect.Pointer:
				field.Set(reflect.New(field.Type().Elem()))
				if flag, ok := field.Interface().(*bool); ok {
					*flag = true
				}
			default:
				t.Errorf("the test cannot set %s", rule.Name)
			}
		}))
		got := reflect.ValueOf(pod.Spec).FieldByName(rule.Name)
		if flag, ok := got.Interface().(*bool); ok && rule.Translation == podspec.Disabled {
			if flag == nil || *flag {
				t.Errorf("%s is not false", rule.Name)
			}
		} else if !got.IsZero() {
			t.Errorf("%s is %v", rule.Name, got)
		}
	}
}

func TestContainerWithoutRequestsRequestsZero(t *testing.T) {
	pod := podOf(t, shadowPod(func(shadow *v1alpha1.ShadowPod) {
		shadow.Spec.Pod.InitContainers = []corev1.Container{{Name: "init", Image: "one"}}
		shadow.Spec.Pod.Containers = []corev1.Container{
			{Name: "requests", Image: "one", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}},
			{Name: "limits", Image: "one", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi")}}},
		}
	}))
	nothing := resource.Quantity{}
	for _, test := range []struct {
		container corev1.Container
		want      corev1.ResourceList
	}{
		{pod.Spec.InitContainers[0], corev1.ResourceList{corev1.ResourceCPU: nothing, corev1.ResourceMemory: nothing}},
		{pod.Spec.Containers[0], corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: nothing}},
		// Kubernetes itself sets a missing request to the limit.
		{pod.Spec.Containers[1], corev1.ResourceList{corev1.ResourceCPU: nothing}},
	} {
		if diff := cmp.Diff(test.want, test.container.Resources.Requests); diff != "" {
			t.Errorf("requests of %s (-want +got):\n%s", test.container.Name, diff)
		}
	}
}

func TestMirroredStateChangesWithEveryReflectedField(t *testing.T) {
	before, err := mirroredOf(shadowPod())
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*v1alpha1.ShadowPod){
		"label":      func(s *v1alpha1.ShadowPod) { s.Labels["app"] = "other" },
		"annotation": func(s *v1alpha1.ShadowPod) { s.Annotations["more"] = "" },
		"image":      func(s *v1alpha1.ShadowPod) { s.Spec.Pod.Containers[0].Image = "two" },
		"init image": func(s *v1alpha1.ShadowPod) {
			s.Spec.Pod.InitContainers = []corev1.Container{{Name: "init", Image: "one"}}
		},
		"ephemeral container": func(s *v1alpha1.ShadowPod) { debugged(s) },
		"deadline":            func(s *v1alpha1.ShadowPod) { s.Spec.Pod.ActiveDeadlineSeconds = ptr.To[int64](1) },
		"toleration":          func(s *v1alpha1.ShadowPod) { s.Spec.Pod.Tolerations = []corev1.Toleration{{Key: "dedicated"}} },
	} {
		after, err := mirroredOf(shadowPod(change))
		if err != nil {
			t.Fatal(err)
		}
		if after.Hash == before.Hash {
			t.Errorf("a changed %s does not change the state", name)
		}
	}
	if after, err := mirroredOf(shadowPod(requesting("2"))); err != nil || after.Resources == before.Resources ||
		after.Hash != before.Hash {
		t.Errorf("changed resources do not change their own hash alone: %v", err)
	}
	again, err := mirroredOf(shadowPod(never, hasEnded))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, again); diff != "" {
		t.Errorf("a change of another field changes the state (-want +got):\n%s", diff)
	}
}

// Webhooks of the provider change pods when they are created, after the controller has set their metadata.
func TestLabelsThatTheProviderChangedAreKept(t *testing.T) {
	shadow := func(labels map[string]string) *v1alpha1.ShadowPod {
		return shadowPod(func(s *v1alpha1.ShadowPod) { s.Labels, s.Annotations = labels, labels })
	}
	// Pods of v0.1.0 have a record without hashes.
	ofV010 := func(pod *corev1.Pod) {
		recorded := recordedOn(pod)
		recorded.LabelHashes, recorded.AnnotationHashes = nil, nil
		encoded, err := json.Marshal(recorded)
		if err != nil {
			t.Fatal(err)
		}
		pod.Annotations[annotationMirrored] = string(encoded)
	}
	before := map[string]string{
		"same": "1", "changed": "1", "removed": "1", "mesh": "consumer", "dropped": "1", "gone": "1",
	}
	wanted := map[string]string{
		"same": "1", "changed": "2", "new": "1", "mesh": "other", "dropped": "2", "team": "consumer",
	}
	for _, test := range []struct {
		name   string
		change func(*corev1.Pod)
		want   map[string]string
	}{
		{"with a record of values", func(*corev1.Pod) {}, map[string]string{
			"same": "1", "changed": "2", "new": "1", "mesh": "provider", "team": "provider", "gone": "provider"}},
		{"with a record of v0.1.0", ofV010, map[string]string{
			"same": "1", "changed": "2", "new": "1", "mesh": "other", "team": "provider", "dropped": "2"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := podOf(t, shadow(before), test.change)
			pod.Labels[v1alpha1.LabelOrigin] = "provider"
			for _, metadata := range []map[string]string{pod.Labels, pod.Annotations} {
				metadata["mesh"], metadata["team"], metadata["gone"] = "provider", "provider", "provider"
				delete(metadata, "dropped")
			}
			for range 2 {
				if err := update(pod, shadow(wanted), remoteNamespace(), true); err != nil {
					t.Fatal(err)
				}
			}
			annotations := maps.Clone(pod.Annotations)
			delete(annotations, annotationMirrored)
			labels := maps.Clone(pod.Labels)
			if origin := labels[v1alpha1.LabelOrigin]; origin != "consumer-id" {
				t.Errorf("the label of the consumer is %q", origin)
			}
			delete(labels, v1alpha1.LabelOrigin)
			delete(labels, v1alpha1.LabelDestination)
			if diff := cmp.Diff(test.want, labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTolerationIsAddedOrGetsAnotherDuration(t *testing.T) {
	pod := podOf(t, shadowPod(), func(pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "provider"}, {Key: "both", TolerationSeconds: ptr.To[int64](1)}}
	})
	changed := shadowPod(func(s *v1alpha1.ShadowPod) {
		s.Spec.Pod.Tolerations = []corev1.Toleration{{Key: "both", TolerationSeconds: ptr.To[int64](2)}, {Key: "new"}}
	})
	if err := update(pod, changed, remoteNamespace(), true); err != nil {
		t.Fatal(err)
	}
	want := []corev1.Toleration{{Key: "provider"}, {Key: "both", TolerationSeconds: ptr.To[int64](2)}, {Key: "new"}}
	if diff := cmp.Diff(want, pod.Spec.Tolerations); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
}

func TestCacheKeepsThePodFieldsThatTheControllerReads(t *testing.T) {
	pod := podOf(t, shadowPod())
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main"}}
	got, err := trim(pod)
	if err != nil {
		t.Fatal(err)
	}
	trimmed := got.(*corev1.Pod)
	if trimmed.ManagedFields != nil || trimmed.Spec.Containers != nil || trimmed.Labels != nil ||
		trimmed.Status.ContainerStatuses != nil {
		t.Errorf("kept %+v", trimmed)
	}
	if recordedOn(trimmed).Hash == "" || trimmed.UID != types.UID("pod-uid") ||
		!metav1.IsControlledBy(trimmed, shadowPod()) {
		t.Errorf("lacks a field: %+v", trimmed)
	}
	ended := podOf(t, shadowPod(never), in(corev1.PodFailed))
	ended.Status.ContainerStatuses = pod.Status.ContainerStatuses
	if got, err = trim(ended); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ended.Status, got.(*corev1.Pod).Status); diff != "" {
		t.Errorf("status of a finished pod (-want +got):\n%s", diff)
	}
}

func TestPodsAreRestrictedToSharedNodes(t *testing.T) {
	zone := corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpExists}
	shared := corev1.NodeSelectorRequirement{Key: "shared", Operator: corev1.NodeSelectorOpIn, Values: []string{"yes"}}
	required := func(terms ...[]corev1.NodeSelectorRequirement) *corev1.Affinity {
		selector := &corev1.NodeSelector{}
		for _, term := range terms {
			selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: term})
		}
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}}
	}
	type requirements = []corev1.NodeSelectorRequirement
	for _, test := range []struct {
		name         string
		nodes        map[string]string
		before, want *corev1.Affinity
	}{
		{"all nodes are shared", nil, nil, nil},
		{"some nodes are shared", map[string]string{"shared": "yes"}, nil, required(requirements{shared})},
		{"some nodes are shared and the pod requires others", map[string]string{"shared": "yes"}, required(requirements{zone}, requirements{zone}), required(requirements{zone, shared}, requirements{zone, shared})},
		{"the pod requires no node", map[string]string{"shared": "yes"}, required(nil), required(nil)},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := corev1.PodSpec{Affinity: test.before.DeepCopy()}
			requireNodes(&spec, test.nodes)
			if diff := cmp.Diff(test.want, spec.Affinity); diff != "" {
				t.Errorf("affinity (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodsPreferTheOfferedNode(t *testing.T) {
	spec := corev1.PodSpec{}
	preferNode(&spec, "")
	if spec.Affinity != nil {
		t.Fatalf("affinity without an offered node: %v", spec.Affinity)
	}
	own := corev1.PreferredSchedulingTerm{Weight: 1}
	spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{own}}}
	preferNode(&spec, "worker-1")
	want := []corev1.PreferredSchedulingTerm{own,
		{Weight: 100, Preference: corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"worker-1"}},
		}}}}
	if diff := cmp.Diff(want, spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution); diff != "" {
		t.Errorf("preferences (-want +got):\n%s", diff)
	}
}
