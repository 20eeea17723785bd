// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"liqo.io/federation/test/netns/world"
)

// passes is how many passes of an agent have succeeded.
func passes(p *world.Process) (float64, error) {
	return count(p, "liqo_netagent_passes_total", "success")
}

// writes is how often an agent has written to the kernel.
func writes(p *world.Process) (float64, error) {
	return count(p, "liqo_netagent_kernel_writes_total", "")
}

// count is the value of an agent's counter, whose only label has a value, or
// that has none.
func count(p *world.Process, name, label string) (float64, error) {
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
