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
	// last is called with the last request that fails. It may be nil.
	last func()
}

func (u *unserved) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	if u.left == 0 {
		return &metav1.APIResourceList{}, nil
	}
	if u.left--; u.left == 0 && u.last != nil {
		u.last()
	}
	return nil, apierrors.NewServiceUnavailable("the server is currently unable to handle the request")
}

func TestControllersWaitForTheFederationAPI(t *testing.T) {
	api := &unserved{left: 1}
	if err := awaitAPI(t.Context(), api); err != nil || api.left != 0 {
		t.Errorf("error %v with %d failures left, want none", err, api.left)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := awaitAPI(ctx, &unserved{left: 1, last: cancel}); !errors.Is(err, context.Canceled) {
		t.Errorf("a process that ends while it waits: %v, want %v", err, context.Canceled)
	}
}
