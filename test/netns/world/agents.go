// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/component-base/metrics"

	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/gateway"
	"liqo.io/federation/netagent/route"
)

// stopTimeout is the maximal time until an agent has terminated.
const stopTimeout = 30 * time.Second

// Process is a running agent.
type Process struct {
	// Metrics is the registry with the metrics of the agent.
	Metrics metrics.KubeRegistry

	cancel context.CancelFunc
	done   chan error
}

func start(ctx context.Context, registry metrics.KubeRegistry, run func(context.Context) error) *Process {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &Process{Metrics: registry, cancel: cancel, done: make(chan error, 1)}
	go func() { p.done <- run(ctx) }()
	return p
}

// Stop terminates the agent and returns its error. It fails if the agent does not terminate in time.
func (p *Process) Stop() error {
	p.cancel()
	select {
	case err := <-p.done:
		p.done <- err
		return err
	case <-time.After(stopTimeout):
		return errors.New("the agent does not terminate")
	}
}

// Passes returns the number of passes that the agent has completed.
func (p *Process) Passes() (float64, error) {
	return p.count("federation_netagent_passes_total", "success")
}

// Writes returns the number of writes to the kernel by the agent.
func (p *Process) Writes() (float64, error) {
	return p.count("federation_netagent_kernel_writes_total", "")
}

// count returns the value of a counter. label is the value of the counter's only label, or empty if it has
// none.
func (p *Process) count(name, label string) (float64, error) {
	families, err := p.Metrics.Gather()
	if err != nil {
		return 0, err
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if label == "" || len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue(), nil
			}
		}
	}
	return 0, nil
}

// Options returns the options of an agent that runs on a node.
func (w *World) Options(c *Cluster, n *Node) *agent.Options {
	o := agent.NewOptions("")
	o.NodeName, o.Namespace = n.Name, Installation
	o.NamespacePath = w.Path(n.Name + "-gateway")
	return o
}

// GatewayOptions returns the options of a gateway that runs on a node.
func (w *World) GatewayOptions(c *Cluster, n *Node) *gateway.Options {
	o := gateway.NewOptions()
	o.Options = w.Options(c, n)
	return o
}

// StartGateway starts a gateway on a node.
func (w *World) StartGateway(ctx context.Context, n *Node, a *API, o *gateway.Options) (*Process, error) {
	registry := metrics.NewKubeRegistry()
	g, err := gateway.New(o, a.Kube, a.Federation, n.NS, n.Inner, registry.Register)
	if err != nil {
		return nil, fmt.Errorf("creating the gateway on %s: %w", n.Name, err)
	}
	return start(ctx, registry, g.Run), nil
}

// StartRoute starts a route agent on a node.
func (w *World) StartRoute(ctx context.Context, n *Node, a *API, o *agent.Options) (*Process, error) {
	registry := metrics.NewKubeRegistry()
	r, err := route.New(o, a.Kube, a.Federation, n.NS, registry.Register)
	if err != nil {
		return nil, fmt.Errorf("creating the route agent on %s: %w", n.Name, err)
	}
	return start(ctx, registry, r.Run), nil
}
