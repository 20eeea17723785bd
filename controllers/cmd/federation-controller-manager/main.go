// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// The federation-controller-manager runs the controllers of peerings, resources, offloading, networks
// and volumes.
package main

import (
	"os"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection"
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"

	"liqo.io/federation/controllers/cmd/federation-controller-manager/app"
)

func main() {
	os.Exit(cli.Run(app.NewCommand(genericapiserver.SetupSignalContext())))
}
