// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

func TestRaisedRequestExpandsVolumeAndClaim(t *testing.T) {
	for name, test := range map[string]struct {
		request string
		phase   corev1.PersistentVolumeClaimPhase
		change  func(*corev1.PersistentVolume)
		other   bool
		// want are the resulting capacities of the volume and of the claim.
		want [2]string
	}{
		"a raised request":   {request: "2Gi", phase: corev1.ClaimBound, want: [2]string{"2Gi", "2Gi"}},
		"the same request":   {request: "1Gi", phase: corev1.ClaimBound, want: [2]string{"1Gi", "1Gi"}},
		"a smaller request":  {request: "500Mi", phase: corev1.ClaimBound, want: [2]string{"1Gi", "1Gi"}},
		"a lost claim":       {request: "2Gi", phase: corev1.ClaimLost, want: [2]string{"1Gi", "1Gi"}},
		"a volume elsewhere": {request: "2Gi", phase: corev1.ClaimBound, other: true, want: [2]string{"1Gi", "1Gi"}},
		"an interrupted write": {request: "2Gi", phase: corev1.ClaimBound, want: [2]string{"2Gi", "2Gi"},
			change: func(v *corev1.PersistentVolume) { v.Spec.Capacity = storage("2Gi") }},
		"a volume bound to another claim": {request: "2Gi", phase: corev1.ClaimBound, want: [2]string{"1Gi", "1Gi"},
			change: func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "another" }},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "uid"},
				Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pvc-1",
					Resources: corev1.VolumeResourceRequirements{Requests: storage(test.request)}},
				Status: corev1.PersistentVolumeClaimStatus{Phase: test.phase, Capacity: storage("1Gi")}}
			volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"},
				Spec: corev1.PersistentVolumeSpec{Capacity: storage("1Gi"), ClaimRef: &corev1.ObjectReference{UID: "uid"}}}
			if test.change != nil {
				test.change(volume)
			}
			client := fake.NewClientset(claim, volume)
			factory := informers.NewSharedInformerFactory(client, 0)
			e, err := newExpander(client, factory.Core().V1().PersistentVolumeClaims(),
				func(*corev1.PersistentVolume) bool { return !test.other })
			if err != nil {
				t.Fatal(err)
			}
			factory.Start(t.Context().Done())
			if !cache.WaitForCacheSync(t.Context().Done(), e.synced) {
				t.Fatal("the cache of claims is not filled")
			}
			if err := e.expand(t.Context(), cache.MetaObjectToName(claim)); err != nil {
				t.Fatal(err)
			}
			volume, err = client.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			claim, err = client.CoreV1().PersistentVolumeClaims("shop").Get(t.Context(), "data", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := [2]string{volume.Spec.Capacity.Storage().String(), claim.Status.Capacity.Storage().String()}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
