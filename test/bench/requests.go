// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"liqo.io/federation/test/harness"
)

// countRequests returns the number of requests for resources in the metrics of a kube-apiserver. It
// omits watches.
func countRequests(metrics string) (int64, error) {
	var sum int64
	for line := range strings.Lines(metrics) {
		labels, ok := strings.CutPrefix(line, "apiserver_request_total{")
		if !ok || strings.Contains(labels, `verb="WATCH"`) || strings.Contains(labels, `resource=""`) {
			continue
		}
		_, value, ok := strings.Cut(strings.TrimSpace(labels), "} ")
		if !ok {
			return 0, fmt.Errorf("line %q holds no value", line)
		}
		count, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("line %q: %w", line, err)
		}
		sum += int64(count)
	}
	return sum, nil
}

// audited returns the requests in the audit logs of both clusters.
func (b *bench) audited(ctx context.Context) ([]harness.Request, error) {
	var all []harness.Request
	for _, cluster := range []*harness.Cluster{b.rome, b.milan} {
		requests, err := cluster.Requests(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, requests...)
	}
	return all, nil
}
