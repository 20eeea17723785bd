// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// The route agent routes packets between its node and the gateway to remote clusters.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/restclient"

	"liqo.io/federation/netagent/route"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.Run(route.NewCommand(ctx)))
}
