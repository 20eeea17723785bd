// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func list(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func text(list corev1.ResourceList) map[string]string {
	texts := map[string]string{}
	for name, quantity := range list {
		texts[string(name)] = quantity.String()
	}
	return texts
}

func container(requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func TestTakes(t *testing.T) {
	for _, test := range []struct {
		name                string
		requests, allocated corev1.ResourceList
		want                corev1.ResourceList
	}{
		{"no larger allocation", list("cpu", "1"), nil, list("cpu", "1", "pods", "1")},
		{"a larger allocation", list("cpu", "1", "memory", "1Gi"), list("cpu", "3"), list("cpu", "3", "memory", "1Gi", "pods", "1")},
		{"a smaller allocation", list("cpu", "4"), list("cpu", "3"), list("cpu", "4", "pods", "1")},
		{"an allocation that is not requested", list("cpu", "1"), list("memory", "1Gi"), list("cpu", "1", "memory", "1Gi", "pods", "1")},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := &corev1.PodSpec{Containers: []corev1.Container{container(test.requests, nil)}}
			if diff := cmp.Diff(text(test.want), text(Takes(spec, test.allocated))); diff != "" {
				t.Errorf("takes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMore(t *testing.T) {
	got := More(list("cpu", "1", "memory", "2Gi", "pods", "1"),
		list("cpu", "1500m", "memory", "1Gi", "pods", "1", "nvidia.com/gpu", "1"))
	if diff := cmp.Diff(text(list("cpu", "500m", "nvidia.com/gpu", "1")), text(got)); diff != "" {
		t.Errorf("more (-want +got):\n%s", diff)
	}
}

func TestRequests(t *testing.T) {
	sidecar := container(list("cpu", "100m"), nil)
	sidecar.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	for _, test := range []struct {
		name string
		spec corev1.PodSpec
		want map[string]string
	}{
		{"a pod without requests counts as a pod", corev1.PodSpec{Containers: []corev1.Container{{}}}, map[string]string{"pods": "1"}},
		{
			"containers add up",
			corev1.PodSpec{Containers: []corev1.Container{container(list("cpu", "1", "memory", "1Gi"), nil),
				container(list("cpu", "500m"), nil)}},
			map[string]string{"pods": "1", "cpu": "1500m", "memory": "1Gi"},
		},
		{
			"a limit without a request is one",
			corev1.PodSpec{Containers: []corev1.Container{container(list("cpu", "1"),
				list("cpu", "2", "memory", "1Gi", "example.com/gpu", "2"))}},
			map[string]string{"pods": "1", "cpu": "1", "memory": "1Gi", "example.com/gpu": "2"},
		},
		{
			"the largest init container counts, in addition to the sidecars before it",
			corev1.PodSpec{InitContainers: []corev1.Container{sidecar, container(list("cpu", "3"), nil),
				container(list("cpu", "1"), nil)}, Containers: []corev1.Container{container(list("cpu", "1"), nil)}},
			map[string]string{"pods": "1", "cpu": "3100m"},
		},
		{
			"requests of the pod replace those of its containers",
			corev1.PodSpec{
				Resources:  &corev1.ResourceRequirements{Requests: list("cpu", "2"), Limits: list("cpu", "4", "memory", "2Gi")},
				Containers: []corev1.Container{container(list("cpu", "1"), nil)},
			},
			map[string]string{"pods": "1", "cpu": "2", "memory": "2Gi"},
		},
		{
			"overhead is added",
			corev1.PodSpec{Overhead: list("memory", "100Mi"),
				Containers: []corev1.Container{container(list("memory", "1Gi"), nil)}},
			map[string]string{"pods": "1", "memory": "1124Mi"},
		},
		{"negative requests are dropped", corev1.PodSpec{Containers: []corev1.Container{container(list("cpu", "-1"), nil)}}, map[string]string{"pods": "1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := test.spec.DeepCopy()
			if diff := cmp.Diff(test.want, text(Requests(&test.spec))); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, &test.spec); diff != "" {
				t.Errorf("the pod was changed:\n%s", diff)
			}
		})
	}
}

func TestShort(t *testing.T) {
	for _, test := range []struct {
		name                     string
		granted, used, requested corev1.ResourceList
		want                     string
	}{
		{"there is room", list("cpu", "4"), list("cpu", "3"), list("cpu", "1"), ""},
		{"there is too little room", list("cpu", "4"), list("cpu", "3500m"), list("cpu", "1"), "cpu: 1 requested, 3500m of 4 granted used, 500m left"},
		{"more is used than granted", list("pods", "2"), list("pods", "5"), list("pods", "1"), "pods: 1 requested, 5 of 2 granted used, 0 left"},
		{"more is used of a resource that is not requested", list("pods", "2", "cpu", "1"), list("pods", "1", "cpu", "5"), list("pods", "1"), ""},
		{
			"nothing is granted", nil, nil, list("pods", "1", "cpu", "1"),
			"cpu: 1 requested, 0 of 0 granted used, 0 left; pods: 1 requested, 0 of 0 granted used, 0 left",
		},
		{"a resource is not granted", list("pods", "2"), nil, list("pods", "1", "example.com/gpu", "1"), "example.com/gpu: 1 requested, 0 of 0 granted used, 0 left"},
		{"0 of a resource that is not granted", list("pods", "2"), nil, list("pods", "1", "cpu", "0"), ""},
		{"beyond 64 bits", list("memory", "9E"), list("memory", "8E"), list("memory", "8E"), "memory: 8E requested, 8E of 9E granted used, 1E left"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Sentence(Short(test.granted, test.used, test.requested)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestGrantedSumsAcceptedAndValidOffers(t *testing.T) {
	offer := func(cpu string, change func(*v1alpha1.ResourceOffer)) *v1alpha1.ResourceOffer {
		offer := &v1alpha1.ResourceOffer{Spec: v1alpha1.ResourceOfferSpec{Resources: list("cpu", cpu)}}
		offer.Status.Phase = v1alpha1.NegotiationAccepted
		if change != nil {
			change(offer)
		}
		return offer
	}
	got := Granted([]*v1alpha1.ResourceOffer{
		offer("1", nil),
		offer("2", nil),
		offer("4", func(o *v1alpha1.ResourceOffer) { o.Status.Phase = "" }),
		offer("8", func(o *v1alpha1.ResourceOffer) { o.Status.Phase = v1alpha1.NegotiationRefused }),
		offer("16", func(o *v1alpha1.ResourceOffer) { o.Spec.Withdrawn = true }),
		offer("32", func(o *v1alpha1.ResourceOffer) { o.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }),
	})
	if diff := cmp.Diff(map[string]string{"cpu": "3"}, text(got)); diff != "" {
		t.Errorf("granted (-want +got):\n%s", diff)
	}
}

func TestExceeded(t *testing.T) {
	over := Exceeded(list("cpu", "2", "pods", "3"), list("cpu", "2", "pods", "4", "memory", "1Gi"))
	names := []corev1.ResourceName{}
	for _, s := range over {
		names = append(names, s.Resource)
	}
	if diff := cmp.Diff([]corev1.ResourceName{"memory", "pods"}, names); diff != "" {
		t.Errorf("exceeded (-want +got):\n%s", diff)
	}
}

// The test reserves and releases random amounts in random order. The usage must never exceed the quota,
// and must be empty at the end.
func TestGrantsAreNeverExceededAndReleasesAreExact(t *testing.T) {
	names := []corev1.ResourceName{"cpu", "memory", "pods", "example.com/gpu"}
	amounts := rapid.Custom(func(t *rapid.T) corev1.ResourceList {
		amounts := corev1.ResourceList{}
		for _, name := range names {
			if rapid.Bool().Draw(t, "named") {
				amounts[name] = *resource.NewMilliQuantity(rapid.Int64Min(0).Draw(t, string(name)), resource.DecimalSI)
			}
		}
		return amounts
	})
	rapid.Check(t, func(t *rapid.T) {
		granted, used := amounts.Draw(t, "granted"), corev1.ResourceList{}
		var reserved []corev1.ResourceList
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				requested := amounts.Draw(t, "requested")
				if len(Short(granted, used, requested)) == 0 {
					Add(used, requested)
					reserved = append(reserved, requested)
				}
			},
			"release": func(t *rapid.T) {
				if len(reserved) == 0 {
					return
				}
				i := rapid.IntRange(0, len(reserved)-1).Draw(t, "which")
				Subtract(used, reserved[i])
				reserved = slices.Delete(reserved, i, i+1)
			},
			"": func(t *rapid.T) {
				if over := Exceeded(granted, used); len(over) > 0 {
					t.Fatalf("more is used than granted: %s", Sentence(over))
				}
			},
		})
		for _, amounts := range reserved {
			Subtract(used, amounts)
		}
		maps.DeleteFunc(used, func(_ corev1.ResourceName, quantity resource.Quantity) bool { return quantity.IsZero() })
		if len(used) > 0 {
			t.Fatalf("everything is released, and %v is left", text(used))
		}
	})
}
