// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// The federation-mover copies the files of one volume to another. It runs in both pods of a move.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"liqo.io/federation/controllers/storage/mover"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := mover.Run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
