// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestASenderRunsOnACordonedNodeOfAProviderAndAReceiverDoesNot(t *testing.T) {
	for role, want := range map[string]bool{roleSender: true, roleReceiver: false} {
		tolerations := place{clusterID: "22222222-2222-4222-8222-222222222222"}.tolerations(role)
		got := slices.ContainsFunc(tolerations, func(toleration corev1.Toleration) bool {
			return toleration.Key == corev1.TaintNodeUnschedulable && toleration.Effect == corev1.TaintEffectNoSchedule
		})
		if got != want {
			t.Errorf("%s: %+v", role, tolerations)
		}
	}
}
