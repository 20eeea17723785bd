// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	federation "liqo.io/federation/generated/clientset/versioned/fake"
)

func newProvider(objects ...runtime.Object) *federation.Clientset {
	return federation.NewClientset(objects...)
}

// answerFence sets the pods in the status of the fence, as the provider does.
func (w *world) answerFence(id string, users ...string) {
	w.t.Helper()
	claims := w.provider.FederationV1alpha1().ShadowVolumeClaims("shop-rome")
	list, err := claims.List(w.t.Context(), metav1.ListOptions{})
	w.must(err)
	for i := range list.Items {
		claim := &list.Items[i]
		if claim.Spec.Fence != id {
			w.t.Fatalf("the fence is %q, want %s", claim.Spec.Fence, id)
		}
		claim.Status.Fence = &v1alpha1.VolumeFenceStatus{ID: id, Users: users}
		_, err := claims.UpdateStatus(w.t.Context(), claim, metav1.UpdateOptions{})
		w.must(err)
	}
}

// reportUnused sets the status of each fence on milan to no pods, and removes it where the fence was removed.
func (w *world) reportUnused() {
	w.t.Helper()
	for _, claim := range w.shadows() {
		claim.Status.Fence = nil
		if claim.Spec.Fence != "" {
			claim.Status.Fence = &v1alpha1.VolumeFenceStatus{ID: claim.Spec.Fence}
		}
		_, err := w.provider.FederationV1alpha1().ShadowVolumeClaims(claim.Namespace).UpdateStatus(w.t.Context(), &claim,
			metav1.UpdateOptions{})
		w.must(err)
	}
}
