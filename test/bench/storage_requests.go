// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/test/bench/figures"
	"liqo.io/federation/test/harness"
)

// claimPods is the number of pods that are created at a time.
const claimPods = 10

// claimKind describes a StatefulSet whose pods each mount a claim of a class. An empty class means
// no claims.
type claimKind struct {
	name, namespace, class string
	remote                 bool
}

// claimWindows has the periods in which requests are counted for the creation and for the deletion
// of pods.
type claimWindows struct {
	kind               string
	creation, deletion window
}

// measureClaimRequests counts the API requests for pods with and without claims, on the consumer's own node and on the
// virtual node.
func (b *bench) measureClaimRequests(ctx context.Context) ([]storageRow, error) {
	kinds := []claimKind{
		{"without a claim, local", vanilla, "", false},
		{"without a claim, offloaded", storing, "", true},
		{"with a claim, local", vanilla, waitingClass, false},
		{"with a claim, offloaded", storing, virtualClass, true},
	}
	var windows []claimWindows
	for run := range b.options.runs {
		for _, kind := range kinds {
			w, err := b.claimRequests(ctx, kind)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", kind.name, err)
			}
			fmt.Fprintf(os.Stderr, "%d pods %s, run %d: created in %s, deleted in %s\n", claimPods, kind.name, run+1,
				w.creation.to.Sub(w.creation.from).Round(time.Millisecond),
				w.deletion.to.Sub(w.deletion.from).Round(time.Millisecond))
			windows = append(windows, w)
		}
	}
	requests, err := b.audited(ctx)
	if err != nil {
		return nil, err
	}
	if b.options.breakdown {
		var samples []sample
		for _, w := range windows {
			switch w.kind {
			case kinds[2].name:
				samples = append(samples, sample{size: claimPods, where: onLocal, creation: w.creation})
			case kinds[3].name:
				samples = append(samples, sample{size: claimPods, where: onVirtual, creation: w.creation})
			}
		}
		printBreakdown(os.Stdout, "create, with a claim each,", claimPods, samples, requests, creation)
	}
	return claimRows(kinds, windows, requests), nil
}

func claimRows(kinds []claimKind, windows []claimWindows, requests []harness.Request) []storageRow {
	count := func(kind string, during func(claimWindows) window) (values figures.Series) {
		for _, w := range windows {
			if w.kind != kind {
				continue
			}
			n := 0
			for _, r := range requests {
				// Renewals of Leases depend on the time, and not on the pods.
				if r.Resource != "leases" && during(w).holds(r.Received) {
					n++
				}
			}
			values = append(values, float64(n)/claimPods)
		}
		return values
	}
	var rows []storageRow
	for i := 0; i < len(kinds); i += 2 {
		what := []string{"a pod without a claim", "a pod with a claim"}[i/2]
		for _, line := range []struct {
			name   string
			during func(claimWindows) window
		}{
			{"created", func(w claimWindows) window { return w.creation }},
			{"deleted with its claim", func(w claimWindows) window { return w.deletion }},
		} {
			plain, federation := count(kinds[i].name, line.during), count(kinds[i+1].name, line.during)
			rows = append(rows, storageRow{
				what + ", " + line.name + ": requests at both API servers", plain.Format(""), federation.Format(""),
				fmt.Sprintf("%.2f×", federation.Median()/plain.Median()), "–",
			})
		}
	}
	return rows
}

// claimRequests creates a StatefulSet and later deletes it with its claims. Each period ends when
// the pods are Ready or deleted and both clusters are quiet.
func (b *bench) claimRequests(ctx context.Context, kind claimKind) (claimWindows, error) {
	w := claimWindows{kind: kind.name}
	pods, err := watchPods(ctx, b.rome, kind.namespace, nil)
	if err != nil {
		return w, err
	}
	defer pods.stop()
	if err := b.quiet(ctx); err != nil {
		return w, err
	}
	const name = "claims"
	sets, claims := b.rome.Kube.AppsV1().StatefulSets(kind.namespace),
		b.rome.Kube.CoreV1().PersistentVolumeClaims(kind.namespace)
	w.creation.from = time.Now()
	if _, err := sets.Create(ctx, statefulSet(name, claimPods, kind.class, where(kind.remote)),
		metav1.CreateOptions{}); err != nil {
		return w, err
	}
	if _, err := pods.until(ctx, fmt.Sprintf("%d Ready pods", claimPods),
		func(_, ready int) bool { return ready == claimPods }); err != nil {
		return w, err
	}
	if err := b.quiet(ctx); err != nil {
		return w, err
	}
	w.creation.to = time.Now()
	w.deletion.from = w.creation.to
	if err := sets.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return w, err
	}
	if _, err := pods.until(ctx, "no pods", func(all, _ int) bool { return all == 0 }); err != nil {
		return w, err
	}
	for i := range claimPods {
		err := claims.Delete(ctx, fmt.Sprintf("data-%s-%d", name, i), metav1.DeleteOptions{})
		if unless(apierrors.IsNotFound, err) != nil {
			return w, err
		}
	}
	err = harness.Eventually(ctx, patience, "the claims to be gone", func(ctx context.Context) (bool, string, error) {
		left, err := claims.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		return len(left.Items) == 0, fmt.Sprintf("%d claims", len(left.Items)), nil
	})
	if err != nil {
		return w, err
	}
	if err := b.quiet(ctx); err != nil {
		return w, err
	}
	w.deletion.to = time.Now()
	return w, nil
}
