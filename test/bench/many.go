// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// manyStep is the number of pods that are added or deleted at a time.
const manyStep = 1000

// measureMany creates as many pods on the virtual node as the option many requests, measures the
// memory of the product's processes, and deletes the pods. It measures nothing if the option is 0.
func (b *bench) measureMany(ctx context.Context) ([]row, error) {
	many := b.options.many
	if many == 0 {
		return nil, nil
	}
	local, err := watchPods(ctx, b.rome, offloaded, nil)
	if err != nil {
		return nil, err
	}
	defer local.stop()
	remote, err := watchPods(ctx, b.milan, b.remote, nil)
	if err != nil {
		return nil, err
	}
	defer remote.stop()
	if err := b.quiet(ctx); err != nil {
		return nil, err
	}
	client := b.rome.Kube.AppsV1().Deployments(offloaded)
	filled := time.Now()
	if _, err := client.Create(ctx, deployment(0, onVirtual), metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	for _, size := range stepsTo(many) {
		if err := b.scale(ctx, size, local, remote); err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "%5d pods are Ready after %s\n", size, time.Since(filled).Round(time.Second))
	}
	took := time.Since(filled)
	if err := b.quiet(ctx); err != nil {
		return nil, err
	}
	processes, err := b.ownProcesses(ctx)
	if err != nil {
		return nil, err
	}
	for left := many; left > 0; {
		left = max(0, left-manyStep)
		if err := b.scale(ctx, left, local, remote); err != nil {
			return nil, err
		}
	}
	if err := client.Delete(ctx, deployment(0, onVirtual).Name, metav1.DeleteOptions{}); err != nil {
		return nil, err
	}
	rows := []row{{fmt.Sprintf("create %d at a time → all Ready on the consumer", manyStep), fmt.Sprint(many), "–",
		fmt.Sprintf("%.0f s", took.Seconds()), "–", "–"}}
	return append(rows, memoryRows(memory{many, processes})...), nil
}

// stepsTo returns the number of existing pods after each step that creates manyStep pods, up to last.
func stepsTo(last int) []int {
	var steps []int
	for size := 0; size < last; {
		size = min(last, size+manyStep)
		steps = append(steps, size)
	}
	return steps
}

// scale sets the replicas of the Deployment, and waits until both clusters have exactly this number
// of pods, all Ready.
func (b *bench) scale(ctx context.Context, size int, local, remote *podWatch) error {
	name := deployment(size, onVirtual).Name
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, size)
	if _, err := b.rome.Kube.AppsV1().Deployments(offloaded).Patch(ctx, name, types.MergePatchType, patch,
		metav1.PatchOptions{}, "scale"); err != nil {
		return err
	}
	for _, side := range []*podWatch{local, remote} {
		if _, err := side.until(ctx, fmt.Sprintf("%d Ready pods in %s", size, side.namespace),
			func(all, ready int) bool { return all == size && ready == size }); err != nil {
			return err
		}
	}
	return nil
}
