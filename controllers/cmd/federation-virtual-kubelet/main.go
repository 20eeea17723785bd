// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// The federation-virtual-kubelet implements the kubelet of one virtual node, and creates its pods on the provider.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/restclient"

	"liqo.io/federation/controllers/virtualkubelet/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.Run(app.NewCommand(ctx)))
}
