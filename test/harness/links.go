// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Link has the numbers of bytes that a network interface has received and sent since its creation.
type Link struct{ Received, Sent int64 }

// Links returns the network interfaces of a node, or of the playground's router, by name.
func (p *Playground) Links(ctx context.Context, node string) (map[string]Link, error) {
	output, err := p.Exec(ctx, node, "cat", "/proc/net/dev")
	if err != nil {
		return nil, err
	}
	links, err := parseLinks(output)
	if err != nil {
		return nil, fmt.Errorf("reading network interfaces of %s: %w", node, err)
	}
	return links, nil
}

// parseLinks parses the content of /proc/net/dev, see proc_pid_net(5): two header lines, and then a
// line for each interface with 16 numbers. The first number is the received bytes, and the ninth
// the sent bytes.
func parseLinks(output string) (map[string]Link, error) {
	const fields, received, sent = 16, 0, 8
	links := map[string]Link{}
	for line := range strings.Lines(output) {
		name, counters, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		values := strings.Fields(counters)
		if len(values) != fields {
			return nil, fmt.Errorf("line %q has %d numbers, want %d", line, len(values), fields)
		}
		link := Link{}
		for field, target := range map[int]*int64{received: &link.Received, sent: &link.Sent} {
			var err error
			if *target, err = strconv.ParseInt(values[field], 10, 64); err != nil {
				return nil, fmt.Errorf("line %q: %w", line, err)
			}
		}
		links[strings.TrimSpace(name)] = link
	}
	return links, nil
}
