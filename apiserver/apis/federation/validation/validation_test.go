// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	milanID = "3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11"
	romeID  = "9a4b0a8e-5a3e-4a53-8f2e-6b1f1f1f2c22"
)

// wrong is a change that makes a valid object invalid, and the paths of the fields that validation
// must report.
type wrong[P any] struct {
	spoil func(P)
	paths []string
}

// object is an API object, a pointer to one of the types of the federation.
type object interface {
	runtime.Object
	metav1.Object
}

// runCreate fails the test unless validate returns no error for good, and for each test exactly the
// errors at its paths for a copy of good that the test spoiled.
func runCreate[P object](t *testing.T, good P, validate func(P) field.ErrorList, tests map[string]wrong[P]) {
	t.Helper()
	runUpdate(t, good, func(obj, _ P) field.ErrorList { return validate(obj) }, tests)
}

// runUpdate is runCreate for updates: validate gets good as the old object.
func runUpdate[P object](t *testing.T, good P, validate func(obj, old P) field.ErrorList, tests map[string]wrong[P]) {
	t.Helper()
	good.SetResourceVersion("1")
	if errs := validate(good.DeepCopyObject().(P), good); len(errs) > 0 {
		t.Fatalf("a good object is refused: %v", errs)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			spoiled := good.DeepCopyObject().(P)
			test.spoil(spoiled)
			errs := validate(spoiled, good)
			if diff := cmp.Diff(test.paths, paths(errs)); diff != "" {
				t.Errorf("the paths differ (-want +got):\n%s%v", diff, errs)
			}
			for _, err := range errs {
				if err.Type != field.ErrorTypeDuplicate && err.Detail == "" && !strings.Contains(err.ErrorBody(), " ") {
					t.Errorf("no reason is given: %v", err)
				}
			}
		})
	}
}

func paths(errs field.ErrorList) []string {
	var found []string
	for _, err := range errs {
		found = append(found, err.Field)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func condition(change ...func(*metav1.Condition)) metav1.Condition {
	c := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Done", Message: "all is well",
		LastTransitionTime: metav1.NewTime(time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC))}
	for _, f := range change {
		f(&c)
	}
	return c
}

// many returns a list of most+1 elements, one more than permitted; nth returns element i.
func many[T any](most int, nth func(i int) T) []T {
	list := make([]T, most+1)
	for i := range list {
		list[i] = nth(i)
	}
	return list
}
