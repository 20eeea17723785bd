// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// apiRetry is the time between two attempts to reach the federation API.
const apiRetry = 500 * time.Millisecond

// awaitAPI returns when the federation API is served, or with the error of the context. The
// manager of controllers discovers the kinds that it caches once, when they are prepared: a
// process that starts together with the API server, for example in an upgrade, waits for it
// and does not end with an error.
func awaitAPI(ctx context.Context, client discovery.ServerResourcesInterface) error {
	logger := klog.FromContext(ctx)
	waiting := false
	return wait.PollUntilContextCancel(ctx, apiRetry, true, func(context.Context) (bool, error) {
		_, err := client.ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
		if err != nil && !waiting {
			waiting = true
			logger.Info("Waiting for the federation API", "err", err)
		}
		return err == nil, nil
	})
}
