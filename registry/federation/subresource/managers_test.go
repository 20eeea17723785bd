// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package subresource

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

var peer = schema.GroupResource{Group: "federation.liqo.io", Resource: "foreignclusters/peer"}

func TestFieldsAppliedByOtherManagersConflict(t *testing.T) {
	cluster := func(manager string, operation metav1.ManagedFieldsOperationType, subresource,
		applied string) *v1alpha1.ForeignCluster {
		return &v1alpha1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "milan", ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: manager, Operation: operation, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(applied),
			}}},
			Spec: v1alpha1.ForeignClusterSpec{Server: "https://a",
				Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}
	}
	const server = `{"f:metadata":{"f:labels":{"f:team":{}}},"f:spec":{"f:server":{}}}`
	const cpu = `{"f:spec":{"f:resources":{"f:cpu":{}}}}`
	applies := func(fields string) *v1alpha1.ForeignCluster {
		return cluster("gitops", metav1.ManagedFieldsOperationApply, "", fields)
	}
	other := func(spec *v1alpha1.ForeignClusterSpec) { spec.Server = "https://b" }
	for _, test := range []struct {
		name     string
		before   *v1alpha1.ForeignCluster
		change   func(*v1alpha1.ForeignClusterSpec)
		conflict string
	}{
		{"another value", applies(server), other, "spec.server"},
		{"the value is removed", applies(server), func(spec *v1alpha1.ForeignClusterSpec) { spec.Server = "" },
			"spec.server"},
		{"the same value", applies(server), func(*v1alpha1.ForeignClusterSpec) {}, ""},
		{"another field", applies(cpu), other, ""},
		{"a field that the sender applies", cluster("kubectl", metav1.ManagedFieldsOperationApply, "", server), other, ""},
		{"a field that was only updated", cluster("gitops", metav1.ManagedFieldsOperationUpdate, "", server), other, ""},
		{"a field that was applied to the status",
			cluster("gitops", metav1.ManagedFieldsOperationApply, "status", server), other, ""},
		{"another entry of a map", applies(cpu), func(spec *v1alpha1.ForeignClusterSpec) {
			spec.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000m"),
				corev1.ResourceMemory: resource.MustParse("1Gi")}
		}, ""},
		{"the entry of a map", applies(cpu), func(spec *v1alpha1.ForeignClusterSpec) {
			spec.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		}, "spec.resources.cpu"},
	} {
		t.Run(test.name, func(t *testing.T) {
			after := test.before.DeepCopy()
			test.change(&after.Spec)
			err := CheckManagers(peer, "kubectl", test.before, after)
			if test.conflict == "" {
				if err != nil {
					t.Errorf("it is refused: %v", err)
				}
				return
			}
			var status apierrors.APIStatus
			if !errors.As(err, &status) || status.Status().Code != http.StatusConflict {
				t.Fatalf("got %v, want Conflict", err)
			}
			causes := status.Status().Details.Causes
			if len(causes) != 1 || causes[0].Type != metav1.CauseTypeFieldManagerConflict || causes[0].Field != test.conflict ||
				causes[0].Message != `conflict with "gitops"` {
				t.Errorf("the causes are %+v", causes)
			}
		})
	}
}

func TestLostRacesAreRetriedUpToALimit(t *testing.T) {
	conflict := apierrors.NewConflict(peer, "milan", errors.New("it was changed"))
	for _, test := range []struct {
		name  string
		fails int
		err   error
		runs  int
		code  int32
	}{
		{"a race that is lost before the last attempt", raceAttempts - 1, LostRace(conflict), raceAttempts, 0},
		{"a race that is always lost", raceAttempts, LostRace(conflict), raceAttempts, http.StatusTooManyRequests},
		{"a refusal", raceAttempts, conflict, 1, http.StatusConflict},
		{"another failure of a write", raceAttempts, LostRace(apierrors.NewForbidden(peer, "milan", nil)), 1,
			http.StatusForbidden},
	} {
		t.Run(test.name, func(t *testing.T) {
			runs := 0
			_, err := Settle(peer, "milan", func() (string, error) {
				if runs++; runs <= test.fails {
					return "", test.err
				}
				return "done", nil
			})
			var status apierrors.APIStatus
			if errors.As(err, &status) != (test.code != 0) || status != nil && status.Status().Code != test.code {
				t.Errorf("the answer is %v", err)
			}
			if runs != test.runs {
				t.Errorf("it ran %d times", runs)
			}
			if seconds, delay := apierrors.SuggestsClientDelay(err); delay != (test.code == http.StatusTooManyRequests) ||
				delay && seconds != raceSeconds {
				t.Errorf("a client waits %d s", seconds)
			}
		})
	}
}
