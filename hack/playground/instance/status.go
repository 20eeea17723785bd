// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"strings"

	"liqo.io/federation/hack/playground/build"
	"liqo.io/federation/hack/playground/cluster"
	"liqo.io/federation/hack/playground/sandbox"
	"liqo.io/federation/hack/playground/state"
)

// NodeStatus is the status of a node.
type NodeStatus struct {
	Cluster string
	Node    *state.Node
	// Running is the number of daemons that run, of the Expected number. Missing are the names of daemons that do
	// not run.
	Running, Expected int
	Missing           []string
	// Kubernetes is the state of the Node: Ready, NotReady or Unknown.
	Kubernetes string
}

// Healthy reports whether all daemons of the node run and its Node is Ready.
func (s NodeStatus) Healthy() bool { return len(s.Missing) == 0 && s.Kubernetes == "Ready" }

// Status returns the status of the nodes of an instance, except fake nodes, and the errors of API servers by name of
// the cluster.
func Status(ctx context.Context, i *state.Instance, tools *build.Set) ([]NodeStatus, map[string]error, error) {
	var nodes []NodeStatus
	failures := map[string]error{}
	for _, recorded := range i.Clusters {
		c := clusterOf(i, recorded, tools)
		ready, err := readyNodes(ctx, c)
		if err != nil {
			failures[c.Name] = err
		}
		for _, n := range c.Nodes {
			running, err := sandbox.Daemons(n.Holder)
			if err != nil {
				return nil, nil, err
			}
			s := NodeStatus{Cluster: c.Name, Node: n, Kubernetes: "Unknown"}
			for _, name := range c.DaemonNames(n) {
				s.Expected++
				if _, ok := running[name]; ok {
					s.Running++
				} else {
					s.Missing = append(s.Missing, name)
				}
			}
			if word, ok := ready[n.Name]; ok {
				s.Kubernetes = word
			}
			nodes = append(nodes, s)
		}
	}
	return nodes, failures, nil
}

func readyNodes(ctx context.Context, c *cluster.Cluster) (map[string]string, error) {
	if err := c.ServerReady(ctx); err != nil {
		return nil, err
	}
	out, err := c.Kubectl(ctx, nil, "get", "nodes", "--request-timeout=10s", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
	if err != nil {
		return nil, err
	}
	return parseReady(out)
}

func parseReady(out string) (map[string]string, error) {
	words := map[string]string{"True": "Ready", "False": "NotReady", "Unknown": "Unknown", "": "NotReady"}
	ready := map[string]string{}
	for _, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		name, status, _ := strings.Cut(line, " ")
		word, ok := words[status]
		if !ok {
			return nil, fmt.Errorf("reading nodes: condition Ready of node %s is %q", name, status)
		}
		ready[name] = word
	}
	return ready, nil
}
