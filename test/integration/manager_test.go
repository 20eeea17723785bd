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

// runManager runs controllers with the permissions of a client configuration until the test ends.
func runManager(t *testing.T, connection *rest.Config, setUps ...func(ctrl.Manager) error) {
	t.Helper()
	connection = rest.CopyConfig(connection)
	connection.QPS = -1
	manager, err := kit.NewManager(connection, klog.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, setUp := range setUps {
		if err := setUp(manager); err != nil {
			t.Fatal(err)
		}
	}
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
