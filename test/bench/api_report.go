// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"liqo.io/federation/test/bench/figures"
)

// Budgets of the federation's API compared with a custom resource: additional milliseconds of
// latency, and the minimal ratio of the requests per second.
const (
	latencyBudget    = 5.0
	createRateBudget = 0.7
	getRateBudget    = 0.5
)

func reportAPI(out io.Writer, runs int, samples []apiSample) {
	fmt.Fprintf(out, "\n%s\n"+
		"The API of %s against a custom resource of the same schema, through the same kube-apiserver, as a user with a "+
		"Role; the etcd of each waits for the disk.\n"+
		"Medians of %d runs of %d objects for one client and %d for 16, in parentheses from the least to the most.\n\n",
		figures.Machine(), ourResource.GroupResource(), runs, objects, objectsOfMany)
	fmt.Fprintln(out,
		"| request | custom resource | federation API | ratio or difference | budget |\n| --- | --- | --- | ---: | --- |")
	for _, line := range []struct {
		name, operation string
		clients         int
	}{
		{"GET by name", "get", 1},
		{fmt.Sprintf("LIST of %d", objects), "list", 1},
		{"create", "create", 1},
		{"update", "update", 1},
	} {
		custom, own := both(samples, line.operation, line.clients, apiSample.p99)
		more := own.Median() - custom.Median()
		figures.Line(out, line.name+", one client, p99", custom.Format(" ms"), own.Format(" ms"),
			fmt.Sprintf("%+.1f ms", more), figures.AtMost(more, latencyBudget, " ms"))
	}
	for _, line := range []struct {
		name, operation string
		budget          float64
	}{
		{"GET by name", "get", getRateBudget},
		{"create", "create", createRateBudget},
		{"update", "update", 0},
	} {
		custom, own := both(samples, line.operation, 16, apiSample.rate)
		ratio := own.Median() / custom.Median()
		figures.Line(out, line.name+", 16 clients", custom.Format("/s"), own.Format("/s"), fmt.Sprintf("%.2f×", ratio),
			figures.AtLeast(ratio, line.budget, "×"))
	}
}

// both returns a value of each run of one operation, for the custom resource and for the
// federation's resource.
func both(samples []apiSample, operation string, clients int, of func(apiSample) float64) (custom, own figures.Series) {
	values := map[schema.GroupVersionResource]figures.Series{}
	for _, s := range samples {
		if s.operation == operation && s.clients == clients {
			values[s.resource] = append(values[s.resource], of(s))
		}
	}
	return values[customResource], values[ourResource]
}
