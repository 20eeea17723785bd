// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Local returns the configuration of clients of the local cluster, from a kubeconfig file or, if its name is empty,
// from the ServiceAccount of the pod. It fails if that source cannot be read. agent is added to the user agent of the
// clients.
func Local(kubeconfig, agent string) (*rest.Config, error) {
	read := rest.InClusterConfig
	if kubeconfig != "" {
		read = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", kubeconfig) }
	}
	config, err := read()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of this cluster's clients: %w", err)
	}
	config.QPS, config.Burst = qps, burst
	// Since Kubernetes 1.37, each event of a watch is compressed separately for clients that accept it. Within a
	// cluster, CPU time is scarcer than bandwidth.
	config.DisableCompression = true
	return rest.AddUserAgent(config, agent), nil
}
