// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

// Command playground runs real Kubernetes clusters on one Linux machine.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "playground: nodes consist of Linux namespaces, which %s does not have; run it on Linux, "+
		"for example in a virtual machine\n", runtime.GOOS)
	os.Exit(1)
}
