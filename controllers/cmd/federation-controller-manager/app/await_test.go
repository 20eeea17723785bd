// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// unserved is a discovery client that fails for a number of requests, as if the API were not served yet.
type unserved struct {
	discovery.ServerResourcesInterface
	left int
	// earlier is true if an API server of an earlier version answers these requests.
	earlier bool
	// last is called with the last request that fails. It may be nil.
	last func()
}

func (u *unserved) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	if u.left == 0 {
		return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: newestResource}}}, nil
	}
	if u.left--; u.left == 0 && u.last != nil {
		u.last()
	}
	if u.earlier {
		return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "foreignclusters"}}}, nil
	}
	return nil, apierrors.NewServiceUnavailable("the server is currently unable to handle the request")
}

func TestControllersWaitForTheFederationAPI(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		api := &unserved{left: 1, earlier: earlier}
		if err := awaitAPI(t.Context(), api); err != nil || api.left != 0 {
			t.Errorf("earlier version %t: error %v with %d failures left, want none", earlier, err, api.left)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := awaitAPI(ctx, &unserved{left: 1, last: cancel}); !errors.Is(err, context.Canceled) {
		t.Errorf("a process that ends while it waits: %v, want %v", err, context.Canceled)
	}
}
