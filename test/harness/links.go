// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Link has the bytes that a network interface received and sent since its creation.
type Link struct{ Received, Sent int64 }

// Links returns the network interfaces of a node or the router by name.
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

// parseLinks parses /proc/net/dev, see proc_pid_net(5): two header lines, then a line of 16 numbers
// for each interface, the first eight of which are those of received packets.
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
