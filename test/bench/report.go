// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"liqo.io/federation/test/bench/figures"
	"liqo.io/federation/test/harness"
)

// createBudget, deleteBudget and cpuBudget are multiples of the value without offloading. requestsBudget is the number
// of requests per created pod, and peerBudget is the time to peer in seconds.
const (
	createBudget   = 3.0
	deleteBudget   = 3.0
	cpuBudget      = 3.0
	requestsBudget = 15.0
	peerBudget     = 5.0
	// Memory in MB: peak of a virtual kubelet with up to 1000 pods and with more, an API server
	// without objects, and an API server with more than 1000 ShadowPods.
	kubeletBudget       = 60.0
	manyKubeletBudget   = 250.0
	idleAPIServerBudget = 150.0
	manyAPIServerBudget = 450.0
)

// row is one line of the table of pods.
type row struct{ measure, pods, vanilla, offloaded, ratio, budget string }

func (b *bench) report(ctx context.Context, out io.Writer, r results) error {
	requests, err := b.audited(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out,
		"\n%s\nMedians of %d runs, in parentheses from the least to the most. Both clusters idle use %.2f cores, which "+
			"the CPU of a pod is without.\n\n",
		figures.Machine(), b.options.runs, cores(b.idle))
	rows := []row{{"measure", "pods", "vanilla", "offloaded", "ratio", "budget"},
		{"---", "---:", "---", "---", "---:", "---"}}
	for _, size := range b.options.pods {
		rows = append(rows, sizeRows(size, r.samples, requests)...)
	}
	if b.peered > 0 {
		rows = append(rows, row{"peer → virtual node Ready", "–", "–", fmt.Sprintf("%.2f s", b.peered.Seconds()), "–",
			figures.AtMost(b.peered.Seconds(), peerBudget, " s")})
	}
	for _, m := range r.memory {
		rows = append(rows, memoryRows(m)...)
	}
	rows = append(rows, footprintRows(r.samples, r.memory)...)
	rows = append(rows, r.further...)
	for _, r := range rows {
		figures.Line(out, r.measure, r.pods, r.vanilla, r.offloaded, r.ratio, r.budget)
	}
	if b.options.breakdown {
		size := b.options.pods[len(b.options.pods)-1]
		printPrograms(out, "create", size, r.samples, func(s sample) usage { return s.creating })
		printPrograms(out, "delete", size, r.samples, func(s sample) usage { return s.deleting })
		printBreakdown(out, "create", size, r.samples, requests, creation)
		printBreakdown(out, "delete", size, r.samples, requests, deletion)
	}
	return nil
}

func sizeRows(size int, samples []sample, requests []harness.Request) []row {
	pods := fmt.Sprint(size)
	measure := func(where placement, of func(sample) float64) (values figures.Series) {
		for _, s := range samples {
			if s.size == size && s.where == where {
				values = append(values, of(s))
			}
		}
		return values
	}
	compare := func(name, unit string, budget float64, of func(sample) float64) []row {
		plain, both, virtual := measure(onLocal, of), measure(inBoth, of), measure(onVirtual, of)
		ratio := virtual.Median() / plain.Median()
		return []row{
			{name, pods, plain.Format(unit), virtual.Format(unit), fmt.Sprintf("%.2f×", ratio), figures.AtMost(ratio, budget, "×")},
			{"the same without the product, as many pods in each cluster", pods, plain.Format(unit), both.Format(unit), fmt.Sprintf("%.2f×", both.Median()/plain.Median()), "–"},
		}
	}
	count := func(cluster string, during func(sample) window) func(sample) float64 {
		return func(s sample) float64 {
			n := 0
			for _, r := range requests {
				if (cluster == "" || r.Cluster == cluster) && during(s).holds(r.Received) {
					n++
				}
			}
			return float64(n) / float64(size)
		}
	}
	rows := slices.Concat(
		compare("create → all Ready on the consumer", " s", createBudget,
			func(s sample) float64 { return s.created.Seconds() }),
		compare("delete → deleted on both clusters", " s", deleteBudget,
			func(s sample) float64 { return s.deleted.Seconds() }),
		compare("CPU of all processes per pod", " ms", cpuBudget, func(s sample) float64 {
			return float64(s.cpu) / float64(time.Millisecond) / float64(size)
		}),
	)
	for _, cluster := range []string{"rome", "milan"} {
		plain, virtual := measure(onLocal, count(cluster, creation)), measure(onVirtual, count(cluster, creation))
		rows = append(rows, row{"requests per created pod at the API server of " + cluster, pods, plain.Format(""),
			virtual.Format(""), "–", "–"})
	}
	plain, virtual := measure(onLocal, count("", creation)), measure(onVirtual, count("", creation))
	rows = append(rows, row{"requests per created pod at both API servers", pods, plain.Format(""), virtual.Format(""),
		fmt.Sprintf("%.2f×", virtual.Median()/plain.Median()), figures.AtMost(virtual.Median(), requestsBudget, "")})
	plain, virtual = measure(onLocal, count("", deletion)), measure(onVirtual, count("", deletion))
	return append(rows, row{"requests per deleted pod at both API servers", pods, plain.Format(""), virtual.Format(""),
		fmt.Sprintf("%.2f×", virtual.Median()/plain.Median()), "–"})
}

func creation(s sample) window { return s.creation }

func deletion(s sample) window { return s.deletion }

func memoryRows(m memory) []row {
	slices.SortFunc(m.processes, func(a, b ownProcess) int {
		return cmp.Or(cmp.Compare(a.program, b.program), -cmp.Compare(a.cluster, b.cluster))
	})
	var rows []row
	for _, p := range m.processes {
		budget := "–"
		switch {
		case p.program == virtualKubelet && m.size <= 1000:
			budget = figures.AtMost(megabytes(p.peak), kubeletBudget, " MB")
		case p.program == virtualKubelet:
			budget = figures.AtMost(megabytes(p.peak), manyKubeletBudget, " MB")
		case p.program == apiServer && m.size == 0:
			budget = figures.AtMost(megabytes(p.rss), idleAPIServerBudget, " MB")
		case p.program == apiServer && p.cluster == "milan" && m.size > 1000:
			budget = figures.AtMost(megabytes(p.rss), manyAPIServerBudget, " MB")
		}
		rows = append(rows, row{
			p.program + " on " + p.cluster + ", memory (peak)", fmt.Sprint(m.size), "–",
			fmt.Sprintf("%s MB (%s MB)", figures.Number(megabytes(p.rss)), figures.Number(megabytes(p.peak))), "–", budget,
		})
	}
	return rows
}

func megabytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

func cores(idle map[string]float64) (sum float64) {
	for _, used := range idle {
		sum += used
	}
	return sum
}

// printPrograms prints the processor time of each program while pods are created or deleted.
func printPrograms(out io.Writer, what string, size int, samples []sample, of func(sample) usage) {
	used := map[placement]map[string]figures.Series{onLocal: {}, inBoth: {}, onVirtual: {}}
	for _, s := range samples {
		if s.size != size {
			continue
		}
		by := used[s.where]
		for program, took := range of(s) {
			by[program] = append(by[program], float64(took)/float64(time.Millisecond)/float64(size))
		}
	}
	plain, both, virtual := used[onLocal], used[inBoth], used[onVirtual]
	fmt.Fprintf(out,
		"\nCPU to %s one of %d pods, where it is more than 0.1 ms:\n\n| program | vanilla | in each cluster | offloaded "+
			"|\n| --- | ---: | ---: | ---: |\n", what, size)
	for _, program := range slices.SortedFunc(maps.Keys(virtual), func(a, b string) int {
		return cmp.Or(-cmp.Compare(virtual[a].Median(), virtual[b].Median()), strings.Compare(a, b))
	}) {
		if plain[program].Median() > 0.1 || virtual[program].Median() > 0.1 {
			fmt.Fprintf(out, "| %s | %.1f ms | %.1f ms | %.1f ms |\n", program, plain[program].Median(), both[program].Median(),
				virtual[program].Median())
		}
	}
}

// printBreakdown prints the number of requests of each client while pods are created or deleted,
// the most frequent first.
func printBreakdown(out io.Writer, what string, size int, samples []sample, requests []harness.Request,
	during func(sample) window) {
	type key struct{ cluster, what, user string }
	counts := map[key][2]float64{}
	for _, s := range samples {
		if s.size != size || s.where == inBoth {
			continue
		}
		column := 0
		if s.where == onVirtual {
			column = 1
		}
		for _, r := range requests {
			if during(s).holds(r.Received) {
				k := key{r.Cluster, r.Verb + " " + r.Resource, r.User}
				c := counts[k]
				c[column]++
				counts[k] = c
			}
		}
	}
	runs := 0
	for _, s := range samples {
		if s.size == size && s.where == onVirtual {
			runs++
		}
	}
	total := float64(runs * size)
	fmt.Fprintf(out,
		"\nRequests a pod to %s %d pods, where they are more than one in a hundred pods:\n\n| cluster | request | user | "+
			"vanilla | offloaded |\n| --- | --- | --- | ---: | ---: |\n", what, size)
	for _, k := range slices.SortedFunc(maps.Keys(counts), func(a, b key) int {
		return cmp.Or(-cmp.Compare(counts[a][1], counts[b][1]), -cmp.Compare(counts[a][0], counts[b][0]),
			strings.Compare(a.what+a.user, b.what+b.user))
	}) {
		c := counts[k]
		if c[0]/total > 0.01 || c[1]/total > 0.01 {
			fmt.Fprintf(out, "| %s | %s | %s | %.2f | %.2f |\n", k.cluster, k.what, k.user, c[0]/total, c[1]/total)
		}
	}
}
