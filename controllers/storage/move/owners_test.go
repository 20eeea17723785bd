// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// With OwnerReferencesPermissionEnforcement, the API server refuses blockOwnerDeletion of an owner that the client may
// not finalize.
func TestNewClaimDoesNotBlockTheDeletionOfItsOwner(t *testing.T) {
	w := newWorld(t, online())
	claim := get(w, claimName, &corev1.PersistentVolumeClaim{})
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Database", Name: "db",
		UID: types.UID("2"), Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}}
	w.must(w.kube.Update(t.Context(), claim))
	w.settle()
	w.until(v1alpha1.MoveSucceeded)
	claim = get(w, claimName, &corev1.PersistentVolumeClaim{})
	if len(claim.OwnerReferences) != 1 || claim.OwnerReferences[0].Name != "db" ||
		!ptr.Deref(claim.OwnerReferences[0].Controller, false) || claim.OwnerReferences[0].BlockOwnerDeletion != nil {
		t.Errorf("owners %+v", claim.OwnerReferences)
	}
}
