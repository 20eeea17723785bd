// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Command shop is a sample application of many services, for the demo and the end-to-end tests. It
// does not depend on the product. Each service is a role of this program. The services use HTTP and
// gRPC, find each other by the names of their Services, and are configured by ConfigMaps and
// Secrets.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// roles are the services of the shop by name.
var roles = map[string]func(context.Context) error{
	"front":     front,
	"catalog":   catalog,
	"prices":    prices,
	"recommend": recommend,
	"cart":      cart,
	"orders":    orders,
	"payment":   payment,
	"shipping":  shipping,
	"stock":     stock,
	"seed":      seed,
	"report":    report,
	"meter":     meter,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stderr))
}

func run(ctx context.Context, args []string, stderr io.Writer) int {
	if len(args) != 1 || roles[args[0]] == nil {
		fmt.Fprintf(stderr, "usage: shop ROLE\nRoles: %s\n", strings.Join(slices.Sorted(maps.Keys(roles)), ", "))
		return 64
	}
	if err := roles[args[0]](ctx); err != nil && !errors.Is(err, context.Canceled) {
		slog.Error("ended", "role", args[0], "error", err)
		return 1
	}
	return 0
}

// env returns the value of an environment variable, or fallback if it is not set.
func env(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}
