// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestDeletedPodWhoseEndWasNotObservedEndsAfterItsGracePeriod(t *testing.T) {
	spec := online()
	spec.EvictionTimeoutSeconds = ptr.To[int32](600)
	w := newWorld(t, spec)
	app := podOf(appName)
	w.number(app)
	app.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
	w.must(w.kube.Create(t.Context(), app))
	w.settle()
	w.noStatefulSet = true
	// The controller evicts the pod, which does not end, and stops before the pod is deleted by force.
	app = get(w, appName, &corev1.Pod{})
	app.Finalizers = []string{"example.com/node"}
	w.must(w.kube.Update(t.Context(), app))
	w.until(v1alpha1.MoveQuiescing)
	w.reconcile()
	app = get(w, appName, &corev1.Pod{})
	app.Finalizers = nil
	w.must(w.kube.Update(t.Context(), app))
	w.restart()
	w.reconcile()
	w.kube.Clock.Step(55 * time.Second)
	w.reconcile()
	if progress := w.virtualVolume().Status.Move; progress.Phase != v1alpha1.MoveQuiescing ||
		!strings.Contains(progress.Message, "has not reported its end") {
		t.Fatalf("progress %+v", progress)
	}
	w.kube.Clock.Step(10 * time.Second)
	w.until(v1alpha1.MoveSucceeded)
}
