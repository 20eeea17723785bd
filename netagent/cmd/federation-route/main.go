// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Command federation-route is the route agent of a node. It routes packets between the node and the active gateway.
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
