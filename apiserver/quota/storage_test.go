// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const fast = "fast.storageclass.storage.k8s.io/requests.storage"

func TestStorageGrantedSumsAcceptedOffersWithStorage(t *testing.T) {
	offer := func(storage corev1.ResourceList, classes []string,
		change func(*v1alpha1.ResourceOffer)) *v1alpha1.ResourceOffer {
		offer := &v1alpha1.ResourceOffer{Spec: v1alpha1.ResourceOfferSpec{Storage: storage, StorageClasses: classes}}
		offer.Status.Phase = v1alpha1.NegotiationAccepted
		if change != nil {
			change(offer)
		}
		return offer
	}
	granted, classes := StorageGranted([]*v1alpha1.ResourceOffer{
		offer(list("requests.storage", "1Gi", fast, "512Mi"), []string{"slow", "fast"}, nil),
		offer(list("requests.storage", "2Gi", "persistentvolumeclaims", "3"), []string{"fast", "archive"}, nil),
		offer(list("persistentvolumeclaims", "7"), []string{"without-storage"}, nil),
		offer(list("requests.storage", "0"), []string{"zero"}, nil),
		offer(nil, []string{"none"}, nil),
		offer(list("requests.storage", "4Gi"), []string{"pending"}, func(o *v1alpha1.ResourceOffer) { o.Status.Phase = "" }),
		offer(list("requests.storage", "8Gi"), []string{"withdrawn"},
			func(o *v1alpha1.ResourceOffer) { o.Spec.Withdrawn = true }),
	})
	if diff := cmp.Diff(map[string]string{"requests.storage": "3Gi", "persistentvolumeclaims": "3", fast: "512Mi"},
		text(granted)); diff != "" {
		t.Errorf("granted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"slow", "fast", "archive"}, classes); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
}

func TestStorageOfLimits(t *testing.T) {
	for _, test := range []struct {
		name   string
		limits corev1.ResourceList
		want   map[string]string
	}{
		{"no limits", nil, map[string]string{}},
		{"no storage", list("cpu", "1", "persistentvolumeclaims", "1"), map[string]string{}},
		{"none of it", list("requests.storage", "0", "persistentvolumeclaims", "1"), map[string]string{}},
		{"only storage is kept", list("cpu", "1", "requests.storage", "1Gi", "persistentvolumeclaims", "1", fast, "0"),
			map[string]string{"requests.storage": "1Gi", "persistentvolumeclaims": "1", fast: "0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, text(StorageOf(test.limits))); diff != "" {
				t.Errorf("storage (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStorageShortBoundsWhatTheQuotaNames(t *testing.T) {
	requested := ClaimStorage("fast", ptr.To(resource.MustParse("2Gi")))
	for _, test := range []struct {
		name          string
		granted, used corev1.ResourceList
		want          string
	}{
		{"nothing is granted", nil, nil, "requests.storage: 2Gi requested, 0 of 0 granted used, 0 left"},
		{"only a class is granted", list(fast, "9Gi"), nil, "requests.storage: 2Gi requested, 0 of 0 granted used, 0 left"},
		{"classes and claims are not bounded", list("requests.storage", "2Gi"), nil, ""},
		{"the class is exhausted", list("requests.storage", "9Gi", fast, "3Gi"), list(fast, "2Gi"),
			fast + ": 2Gi requested, 2Gi of 3Gi granted used, 1Gi left"},
		{"0 of the class is granted", list("requests.storage", "9Gi", fast, "0"), nil,
			fast + ": 2Gi requested, 0 of 0 granted used, 0 left"},
		{"there are enough claims", list("requests.storage", "9Gi", "persistentvolumeclaims", "1"),
			list("persistentvolumeclaims", "1"),
			"persistentvolumeclaims: 1 requested, 1 of 1 granted used, 0 left"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Sentence(StorageShort(test.granted, test.used, requested)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestClaimUsesItsLargestSize(t *testing.T) {
	size := func(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }
	for _, test := range []struct {
		sizes []*resource.Quantity
		want  string
	}{
		{[]*resource.Quantity{size("1Gi"), nil, nil}, "1Gi"},
		{[]*resource.Quantity{size("1Gi"), size("3Gi"), size("2Gi")}, "3Gi"},
		{[]*resource.Quantity{size("1Gi"), nil, size("1200Mi")}, "1200Mi"},
	} {
		want := map[string]string{"requests.storage": test.want, fast: test.want, "persistentvolumeclaims": "1"}
		if diff := cmp.Diff(want, text(ClaimStorage("fast", test.sizes...))); diff != "" {
			t.Errorf("sizes %v (-want +got):\n%s", test.sizes, diff)
		}
	}
}
