// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Local makes the configuration of clients of this cluster: of a kubeconfig
// file, or without one of the service account of the pod.
func Local(kubeconfig, agent string) (*rest.Config, error) {
	read := rest.InClusterConfig
	if kubeconfig != "" {
		read = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", kubeconfig) }
	}
	config, err := read()
	if err != nil {
		return nil, fmt.Errorf("connect to this cluster: %w", err)
	}
	config.QPS, config.Burst = qps, burst
	// Since Kubernetes 1.37 each event of a watch is compressed by itself for those
	// who take it so. Within a cluster that costs more than the bytes.
	config.DisableCompression = true
	return rest.AddUserAgent(config, agent), nil
}
