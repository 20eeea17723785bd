// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Command federation-gateway terminates the tunnels to the gateways of remote clusters.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/restclient"

	"liqo.io/federation/netagent/gateway"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.Run(gateway.NewCommand(ctx)))
}
