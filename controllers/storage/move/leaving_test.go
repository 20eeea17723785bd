// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestMoveToAProviderIsRolledBackWhenOffloadingEnds(t *testing.T) {
	offloading := &v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: v1alpha1.NamespaceOffloadingName}}
	provider := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	for _, test := range []struct {
		name    string
		deleted client.Object
		want    string
	}{
		{"the namespace is unoffloaded", offloading, "being unoffloaded"},
		{"the peering is deleted", provider, "ForeignCluster milan does not exist"},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := online()
			spec.Target = v1alpha1.MoveTarget{ClusterName: "milan"}
			w := newWorld(t, spec)
			w.must(w.kube.Create(t.Context(), offloading.DeepCopy()))
			w.settle()
			w.stopAt(v1alpha1.MoveCopying)
			w.must(w.kube.Delete(t.Context(), test.deleted.DeepCopyObject().(client.Object)))
			progress := w.until(v1alpha1.MoveFailed)
			w.settle()
			w.assertBoundTo(sourceName)
			if !strings.Contains(progress.Message, test.want) {
				t.Errorf("message %q", progress.Message)
			}
		})
	}
}

func TestRollingBackDoesNotWaitForADeletedPeering(t *testing.T) {
	w := newWorld(t, online())
	w.settle()
	w.stopAt(v1alpha1.MoveCopying)
	vv := w.virtualVolume()
	vv.Status.Move.Source.ClusterName, vv.Status.Move.Source.ClusterID = "milan", "9f1c"
	w.must(w.kube.Status().Update(t.Context(), vv))
	w.must(w.kube.Delete(t.Context(), &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}))
	w.cancel()
	w.until(v1alpha1.MoveCancelled)
	w.settle()
	w.assertBoundTo(sourceName)
}
