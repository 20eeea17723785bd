// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// apiRetry is the interval at which awaitAPI requests the discovery of the federation API.
const apiRetry = 500 * time.Millisecond

// newestResource is a resource of the federation API that version 0.1.0 does not serve.
const newestResource = "tunnelreaches"

// awaitAPI waits until the federation API of this version is served. It fails only if ctx is done. Controllers cannot
// be set up before, because the manager's REST mapper does not find all federation kinds. A process that starts
// together with the API server, for example in an upgrade, thus waits instead of exiting with an error.
func awaitAPI(ctx context.Context, client discovery.ServerResourcesInterface) error {
	logger := klog.FromContext(ctx)
	waiting := false
	return wait.PollUntilContextCancel(ctx, apiRetry, true, func(context.Context) (bool, error) {
		served, err := client.ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
		if err == nil && !slices.ContainsFunc(served.APIResources, func(resource metav1.APIResource) bool {
			return resource.Name == newestResource
		}) {
			err = fmt.Errorf("the API server is of an earlier version: it serves no %s", newestResource)
		}
		if err != nil && !waiting {
			waiting = true
			logger.Info("Waiting for the federation API", "err", err)
		}
		return err == nil, nil
	})
}
