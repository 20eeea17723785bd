// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Command federation-apiserver serves the API group federation.liqo.io as an aggregated API server.
package main

import (
	"fmt"
	"os"

	genericapiserver "k8s.io/apiserver/pkg/server"

	"liqo.io/federation/apiserver/cmd/federation-apiserver/app"
)

func main() {
	if err := app.NewCommand(os.Stdout).ExecuteContext(genericapiserver.SetupSignalContext()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
