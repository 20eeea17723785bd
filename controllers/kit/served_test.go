// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// discovery is a discovery client that returns resources for example.com/v1, or failure.
type discovery struct {
	requests  int
	resources []metav1.APIResource
	failure   error
}

func (d *discovery) ServerResourcesForGroupVersionWithContext(
	_ context.Context, groupVersion string,
) (*metav1.APIResourceList, error) {
	d.requests++
	if groupVersion != "example.com/v1" {
		return nil, apierrors.NewNotFound(v1alpha1.Resource("groups"), groupVersion)
	}
	return &metav1.APIResourceList{APIResources: d.resources}, d.failure
}

func TestDiscoveryIsReadOnceWithinHalfAnInterval(t *testing.T) {
	start := time.Unix(0, 0)
	clock := clocktesting.NewFakePassiveClock(start)
	cluster := &discovery{resources: []metav1.APIResource{{Name: "widgets", Namespaced: true},
		{Name: "widgets/status", Namespaced: true}}}
	served := NewServedKinds(cluster, clock)
	find := func(group, resource string, want bool) {
		t.Helper()
		found, err := served.Find(t.Context(), metav1.GroupVersionResource{Group: group, Version: "v1", Resource: resource})
		if err != nil || (found != nil) != want {
			t.Errorf("%s of %s: %v, error %v", resource, group, found, err)
		}
	}
	find("example.com", "widgets", true)
	find("example.com", "gadgets", false)
	if cluster.requests != 1 {
		t.Errorf("discovery was read %d times, want once", cluster.requests)
	}
	find("example.org", "widgets", false)
	clock.SetTime(start.Add(ServedKindsInterval))
	cluster.resources = nil
	find("example.com", "widgets", false)
	clock.SetTime(start.Add(2 * ServedKindsInterval))
	cluster.failure = errors.New("no answer")
	_, err := served.Find(t.Context(), metav1.GroupVersionResource{Group: "example.com", Version: "v1",
		Resource: "widgets"})
	if !errors.Is(err, cluster.failure) {
		t.Errorf("error %v, want %v", err, cluster.failure)
	}
}
