// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/volume"
)

// maxShown is an upper bound for the length of a provider's texts in local objects.
const maxShown = 600

// FuzzAnswerOfAProvider computes local objects from arbitrary ShadowVolumeClaims that a provider returns. The
// PersistentVolume and the statuses of the claim and the virtual volume must be of bounded size and valid.
func FuzzAnswerOfAProvider(f *testing.F) {
	one := resource.MustParse("1Gi")
	for _, seed := range []v1alpha1.ShadowVolumeClaim{
		{
			Spec: v1alpha1.ShadowVolumeClaimSpec{StorageClassName: "fast", Storage: one},
			Status: v1alpha1.ShadowVolumeClaimStatus{Phase: v1alpha1.ShadowVolumeClaimBound, Capacity: &one, VolumeName: "pvc-1",
				Pods: []string{"db-0"}},
		},
		{Status: v1alpha1.ShadowVolumeClaimStatus{
			Phase: v1alpha1.ShadowVolumeClaimPending,
			Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionVolumeBound, Status: metav1.ConditionFalse, Reason: shadowProvisioningFailed, Message: "no room"},
				{Type: v1alpha1.ConditionVolumeResized, Status: metav1.ConditionFalse, Reason: "ResizeFailed", Message: "no room"},
			},
		}},
	} {
		encoded, err := json.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Add([]byte(
		`{"metadata":{"name":"../other","namespace":"kube-system","labels":{"a":"b"},` +
			`"annotations":{"storage.liqo.io/origin-claim":"\u001b"}},` +
			`"spec":{"storageClassName":"a/b"},"status":{"phase":"Great","capacity":"-1",` +
			`"conditions":[{"type":"VolumeBound"},{"type":"VolumeBound"},{"type":"x"}]}}`))
	f.Add([]byte(`{"status":{"phase":"Lost","capacity":"8Ei"}}`))
	f.Add([]byte(`{"status":{"capacity":"1500m"}}`))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		var answer v1alpha1.ShadowVolumeClaim
		if json.Unmarshal(encoded, &answer) != nil {
			return
		}
		accepted := answered(&answer)
		if again := answered(accepted); len(again.Status.Conditions) > 2 ||
			again.Spec.StorageClassName != accepted.Spec.StorageClassName {
			t.Errorf("kept %+v, then %+v", accepted, again)
		}
		for key, value := range accepted.Annotations {
			if len(key)+len(value) > maxShown {
				t.Errorf("annotation %s has %d bytes", key, len(value))
			}
		}
		// Shadows.create sets the requested name, whatever name the provider returns.
		accepted.Namespace, accepted.Name = milanSpace, shadowName
		claim := userClaim(bound(volume.VolumeName(claimUID)))
		virtualNode := &v1alpha1.VirtualNode{Spec: v1alpha1.VirtualNodeSpec{ClusterID: milanID, NodeName: milanNode}}
		pv := remoteVolume(claim, virtual(), accepted, virtualNode, &corev1.Node{})
		if _, isRemote, err := volume.HandleOf(pv); err != nil || !isRemote {
			t.Errorf("handle %q: %v", pv.Spec.CSI.VolumeHandle, err)
		}
		if capacity := pv.Spec.Capacity.Storage(); capacity.Cmp(*requested(claim)) < 0 || capacity.Cmp(maxAnswer) > 0 ||
			capacity.MilliValue()%1000 != 0 && capacity.Value() < 1<<50 {
			t.Errorf("capacity %s", capacity)
		}
		if class := pv.Annotations[volume.AnnotationStorageClass]; len(class) > 253 {
			t.Errorf("class with %d bytes", len(class))
		}
		if problem := resizeProblem(accepted, "milan"); problem != nil &&
			(utf8.RuneCountInString(problem.reason) > maxShown || utf8.RuneCountInString(problem.message) > maxShown ||
				strings.ContainsRune(problem.message, '\x1b')) {
			t.Errorf("problem %+v", problem)
		}
		expectVirtualVolume(t, &observation{
			claim: claim, ownID: romeID, volume: pv, kept: accepted,
			handle:  &volume.Handle{ClusterID: milanID, Namespace: accepted.Namespace, Claim: accepted.Name},
			cluster: &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}},
		})
	})
}

// expectVirtualVolume fails the test if the API server would refuse a virtual volume with the observed status.
func expectVirtualVolume(t *testing.T, seen *observation) {
	t.Helper()
	described := &v1alpha1.VirtualVolume{ObjectMeta: metav1.ObjectMeta{Name: seen.claim.Name,
		Namespace: seen.claim.Namespace, ResourceVersion: "1"}}
	seen.into(&described.Status, 1)
	for i := range described.Status.Conditions {
		described.Status.Conditions[i].LastTransitionTime = metav1.NewTime(time.Unix(1_900_000_000, 0))
	}
	var old, current federation.VirtualVolume
	old.ObjectMeta = described.ObjectMeta
	if err := v1alpha1.Convert_v1alpha1_VirtualVolume_To_federation_VirtualVolume(described, &current, nil); err != nil {
		t.Fatal(err)
	}
	if errs := validation.ValidateVirtualVolumeStatusUpdate(&current, &old); len(errs) > 0 {
		t.Errorf("the status is refused: %v", errs)
	}
}
