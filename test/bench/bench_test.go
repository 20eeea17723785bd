// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"liqo.io/federation/test/harness"
)

func TestRequestsAreCountedWithoutWatches(t *testing.T) {
	got, err := countRequests(`# HELP apiserver_request_total [STABLE] Counter
apiserver_request_total{code="201",component="apiserver",group="",resource="pods",verb="POST"} 12
apiserver_request_total{code="200",component="apiserver",group="",resource="pods",verb="WATCH"} 100
apiserver_request_total{code="200",component="apiserver",group="",resource="",verb="GET"} 1000
apiserver_request_total{code="200",component="apiserver",group="apps",resource="deployments",verb="PUT"} 1e+03
apiserver_request_duration_seconds_count{resource="pods",verb="POST"} 7
`)
	if err != nil || got != 1012 {
		t.Errorf("got %d and error %v, want 1012", got, err)
	}
	if _, err := countRequests("apiserver_request_total{resource=\"pods\"} many\n"); err == nil {
		t.Error("a damaged line gave no error")
	}
}

func TestRequestsBelongToTheirCreation(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	samples := []sample{
		{size: 2, where: onLocal, created: time.Second, deleted: time.Second, cpu: 10 * time.Millisecond, creation: window{at(10), at(20)}, deletion: window{at(20), at(30)}},
		{size: 2, where: onVirtual, created: 2 * time.Second, deleted: 4 * time.Second, cpu: 20 * time.Millisecond, creation: window{at(30), at(40)}, deletion: window{at(40), at(50)}},
		{size: 2, where: inBoth, created: 3 * time.Second, deleted: 3 * time.Second, cpu: 15 * time.Millisecond, creation: window{at(50), at(60)}, deletion: window{at(60), at(70)}},
	}
	requests := []harness.Request{
		{Cluster: "rome", Received: at(9)}, {Cluster: "rome", Received: at(10)}, {Cluster: "rome", Received: at(19)},
		{Cluster: "rome", Received: at(31)}, {Cluster: "milan", Received: at(32)}, {Cluster: "milan", Received: at(33)}, {Cluster: "milan", Received: at(40)}, {Cluster: "rome", Received: at(29)}, {Cluster: "milan", Received: at(51)},
	}
	want := []row{
		{"create → all Ready on the consumer", "2", "1.00 s (1.00–1.00)", "2.00 s (2.00–2.00)", "2.00×", "≤ 3× ✓"},
		{"the same without the product, as many pods in each cluster", "2", "1.00 s (1.00–1.00)", "3.00 s (3.00–3.00)", "3.00×", "–"},
		{"delete → deleted on both clusters", "2", "1.00 s (1.00–1.00)", "4.00 s (4.00–4.00)", "4.00×", "≤ 3× ✗"},
		{"the same without the product, as many pods in each cluster", "2", "1.00 s (1.00–1.00)", "3.00 s (3.00–3.00)", "3.00×", "–"},
		{"CPU of all processes per pod", "2", "5.00 ms (5.00–5.00)", "10.0 ms (10.0–10.0)", "2.00×", "≤ 3× ✓"},
		{"the same without the product, as many pods in each cluster", "2", "5.00 ms (5.00–5.00)", "7.50 ms (7.50–7.50)", "1.50×", "–"},
		{"requests per created pod at the API server of rome", "2", "1.00 (1.00–1.00)", "0.50 (0.50–0.50)", "–", "–"},
		{"requests per created pod at the API server of milan", "2", "0.00 (0.00–0.00)", "1.00 (1.00–1.00)", "–", "–"},
		{"requests per created pod at both API servers", "2", "1.00 (1.00–1.00)", "1.50 (1.50–1.50)", "1.50×", "≤ 15 ✓"},
		{"requests per deleted pod at both API servers", "2", "0.50 (0.50–0.50)", "0.50 (0.50–0.50)", "1.00×", "–"},
	}
	if diff := cmp.Diff(want, sizeRows(2, samples, requests), cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, args := range [][]string{{"--pods", ""}, {"--pods", "10,x"}, {"--pods", "0"}, {"--runs", "0"}, {"--many", "-1"},
		{"--only", "nodes"}, {"--storage", "volumes"}, {"--colour"}} {
		if o, err := parse(args); err == nil {
			t.Errorf("%v gave %+v and no error", args, o)
		}
	}
}

func TestUsageExcludesIdleUsage(t *testing.T) {
	before := usage{"rome etcd": time.Second}
	after := usage{"rome etcd": 4 * time.Second, "milan federation-virtual-kubelet": time.Second}
	got := after.since(before, map[string]float64{"rome etcd": 0.25}, 4*time.Second)
	want := usage{"rome etcd": 2 * time.Second, "milan federation-virtual-kubelet": time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	if got.sum() != 3*time.Second {
		t.Errorf("the sum is %s, want 3s", got.sum())
	}
}
