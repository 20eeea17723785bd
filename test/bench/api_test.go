// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSchemasOfCustomResourcesHaveNoReferences(t *testing.T) {
	got, err := structuralSchema([]byte(`{"components":{"schemas":{
		"io.liqo.v1alpha1.ResourceRequest":{"type":"object","properties":{
			"kind":{"type":"string"},
			"metadata":{"default":{},"allOf":[{"$ref":"#/components/schemas/meta"}]},
			"spec":{"default":{},"description":"what is asked for","allOf":[{"$ref":"#/components/schemas/spec"}]}},
			"x-kubernetes-group-version-kind":[{"kind":"ResourceRequest"}]},
		"meta":{"type":"object","properties":{"ownerReferences":{"type":"array",
			"items":{"$ref":"#/components/schemas/meta"}}}},
		"spec":{"type":"object","properties":{"resources":{"type":"object",
			"additionalProperties":{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}}}}
	}}}`), "ResourceRequest")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"type": "object", "properties": map[string]any{
		"kind":     map[string]any{"type": "string"},
		"metadata": map[string]any{"type": "object"},
		"spec": map[string]any{"type": "object", "description": "what is asked for", "properties": map[string]any{
			"resources": map[string]any{"type": "object", "additionalProperties": map[string]any{"x-kubernetes-int-or-string": true}},
		}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
	if _, err := structuralSchema([]byte(`{}`), "ResourceRequest"); err == nil {
		t.Error("a document without the kind gave no error")
	}
}

func TestRequestsAreDividedAmongTheClients(t *testing.T) {
	var sent [2][10]atomic.Int32
	var requests []request
	for which := range sent {
		requests = append(requests, func(_ context.Context, i int) error {
			sent[which][i].Add(1)
			return nil
		})
	}
	latencies, err := send(t.Context(), len(sent[0]), 3, requests...)
	if err != nil || len(latencies) != len(sent) {
		t.Fatalf("latencies of %d requests and error %v", len(latencies), err)
	}
	for which := range sent {
		if len(latencies[which]) != len(sent[which]) {
			t.Errorf("request %d has %d latencies", which, len(latencies[which]))
		}
		for i := range sent[which] {
			if n := sent[which][i].Load(); n != 1 {
				t.Errorf("request %d was sent %d times as the %d-th", which, n, i)
			}
		}
	}
}

func TestAPIReportComparesLikeWithLike(t *testing.T) {
	sample := func(operation string, clients int, own bool, milliseconds int) apiSample {
		s := apiSample{operation: operation, clients: clients, resource: customResource}
		if own {
			s.resource = ourResource
		}
		for range 100 {
			s.latencies = append(s.latencies, time.Duration(milliseconds)*time.Millisecond)
		}
		return s
	}
	var samples []apiSample
	for _, operation := range []string{"get", "list", "create", "update"} {
		for _, clients := range []int{1, 16} {
			samples = append(samples, sample(operation, clients, false, 4), sample(operation, clients, true, 10))
		}
	}
	var out strings.Builder
	reportAPI(&out, 1, samples)
	for _, want := range []string{
		"| GET by name, one client, p99 | 4.00 ms (4.00–4.00) | 10.0 ms (10.0–10.0) | +6.0 ms | ≤ 5 ms ✗ |",
		"| create, 16 clients | 4000/s (4000–4000) | 1600/s (1600–1600) | 0.40× | ≥ 0.7× ✗ |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}
