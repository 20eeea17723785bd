// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/controllers/kit"
)

// newManager returns a manager with the rights of a connection.
func newManager(t *testing.T, config *rest.Config) ctrl.Manager {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	manager, err := kit.NewManager(config, klog.Background())
	if err != nil {
		t.Fatal(err)
	}
	return manager
}

// startManager runs a manager until the test ends.
func startManager(t *testing.T, manager ctrl.Manager) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := manager.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}
