// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command playground runs real Kubernetes clusters on one Linux machine.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"liqo.io/federation/hack/playground/cmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cmd.Execute(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
