// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"strings"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// bindsADeletedClaimAgain deletes a remote namespace by hand while a pod uses a volume in it. The
// product must not provision an empty volume instead. A command of docs/volumes.md binds the old
// volume again, and the pod finds its data.
func (f fabric) bindsADeletedClaimAgain(t *testing.T) {
	grantsStorage(t, "1Gi")
	o := storedOnMilan(t, v1alpha1.UnoffloadRefuse)
	at := volumeThat(t, o.namespace, movedClaim, "be bound", func(v *v1alpha1.VirtualVolume) bool {
		return v.Status.Phase == v1alpha1.VirtualVolumeBound && v.Status.Location != nil
	}).Status.Location
	claims := milan.Federation.FederationV1alpha1().ShadowVolumeClaims(o.remote)
	stored := must(claims.Get(t.Context(), at.ClaimName, metav1.GetOptions{}))(t).Status.VolumeName

	kubectl(t, milan, "delete", "namespace", o.remote, "--timeout=110s")
	volumeThat(t, o.namespace, movedClaim, "name the volume that milan kept", func(v *v1alpha1.VirtualVolume) bool {
		ready := apimeta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionVolumeReady)
		return v.Status.Phase == v1alpha1.VirtualVolumeLost && ready != nil && strings.Contains(ready.Message, stored)
	})
	runsThePage(t, milan, "volumes.md", "$volume", stored)
	runsWithItsData(t, o, true, 2)
	if got := must(claims.Get(t.Context(), at.ClaimName, metav1.GetOptions{}))(t).Status.VolumeName; got != stored {
		t.Errorf("the claim is bound to %s, not to %s", got, stored)
	}
}
