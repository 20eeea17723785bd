// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/federation/controllers/commit"
)

func TestControllerRuntimeMetricsDoNotCollideWithProcessMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	for _, name := range []string{"controller_runtime_reconcile_total", "workqueue_adds_total", "go_goroutines"} {
		registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: name}))
	}
	families, err := withoutDuplicates(registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	want := []string{"controller_runtime_reconcile_total", "controller_runtime_workqueue_adds_total"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("gathered metrics (-want +got):\n%s", diff)
	}
	if _, err := (prometheus.Gatherers{legacyregistry.DefaultGatherer, Metrics()}).Gather(); err != nil {
		t.Errorf("the process cannot gather its metrics: %v", err)
	}
}

func TestCacheKeepsThePodFieldsThatControllersRead(t *testing.T) {
	claim := corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"},
	}}
	ephemeral := corev1.Volume{Name: "tmp", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "db-0", Namespace: "shop", UID: "1", Annotations: map[string]string{"large": "value"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec: corev1.PodSpec{
			NodeName: "worker", Containers: []corev1.Container{{Name: "db"}},
			Volumes: []corev1.Volume{claim, {Name: "scratch"}, ephemeral}, HostNetwork: true,
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
		},
	}
	stateless := pod.DeepCopy()
	stateless.Spec.Volumes = pod.Spec.Volumes[1:2]

	kept, err := TrimPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "db-0", Namespace: "shop", UID: "1",
			Annotations: map[string]string{"large": "value"}},
		Spec:   corev1.PodSpec{NodeName: "worker", Volumes: []corev1.Volume{claim, ephemeral}, HostNetwork: true},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: pod.Status.PodIPs},
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("pod with claims (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"data-db-0", "db-0-tmp"}, ClaimsOf(want)); diff != "" {
		t.Errorf("claims of the pod (-want +got):\n%s", diff)
	}
	kept, err = TrimPod(stateless)
	if err != nil {
		t.Fatal(err)
	}
	want = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "db-0", Namespace: "shop", UID: "1"},
		Spec:       corev1.PodSpec{NodeName: "worker", HostNetwork: true},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: pod.Status.PodIPs},
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("pod without claims (-want +got):\n%s", diff)
	}
}

func TestCommitPatchesOnlyChangedFields(t *testing.T) {
	stored := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "shop", UID: "1"}}
	writer := fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(stored).
		WithStatusSubresource(stored).Build()
	claim := &corev1.PersistentVolumeClaim{}
	if err := writer.Get(t.Context(), client.ObjectKeyFromObject(stored), claim); err != nil {
		t.Fatal(err)
	}

	unchanged := claim.DeepCopy()
	if sent, err := Commit(t.Context(), writer, claim, unchanged); sent || err != nil {
		t.Errorf("without a change: sent %v, error %v", sent, err)
	}
	bound := claim.DeepCopy()
	bound.Status.Phase = corev1.ClaimBound
	if sent, err := Commit(t.Context(), writer, claim, bound); !sent || err != nil {
		t.Errorf("change of the status: sent %v, error %v", sent, err)
	}
	if _, err := Commit(t.Context(), writer, claim, bound); !apierrors.IsConflict(err) {
		t.Errorf("change of an old version: error %v, want a conflict", err)
	}
	both := bound.DeepCopy()
	both.Labels = map[string]string{"app": "db"}
	if _, err := Commit(t.Context(), writer, claim, both); !errors.Is(err, commit.ErrBothChanged) {
		t.Errorf("change of object and status: error %v, want %v", err, commit.ErrBothChanged)
	}
	if err := writer.Get(t.Context(), client.ObjectKeyFromObject(stored), claim); err != nil ||
		claim.Status.Phase != corev1.ClaimBound {
		t.Errorf("phase %q, error %v, want Bound", claim.Status.Phase, err)
	}
}

func TestDeleteIgnoresAReplacedObject(t *testing.T) {
	for name, answer := range map[string]error{
		"missing":  apierrors.NewNotFound(corev1.Resource("pods"), "db"),
		"replaced": apierrors.NewConflict(corev1.Resource("pods"), "db", errors.New("uid differs")),
		"refused":  apierrors.NewForbidden(corev1.Resource("pods"), "db", errors.New("not allowed")),
	} {
		t.Run(name, func(t *testing.T) {
			writer := &deletions{answer: answer}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "shop", UID: "1"}}
			err := Delete(t.Context(), writer, pod)
			if failed := err != nil; failed != (name == "refused") {
				t.Errorf("error %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), "shop/db") {
				t.Errorf("error %q does not name the pod", err)
			}
			if uid := writer.options.Preconditions.UID; uid == nil || *uid != "1" {
				t.Errorf("deleted with UID %v, want 1", uid)
			}
		})
	}
}

// deletions is a client whose Delete returns an error and records its options.
type deletions struct {
	client.Client
	answer  error
	options client.DeleteOptions
}

func (d *deletions) Delete(_ context.Context, _ client.Object, options ...client.DeleteOption) error {
	d.options.ApplyOptions(options)
	return d.answer
}
