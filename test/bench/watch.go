// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/test/harness"
)

// podWatch follows the pods of a namespace, also when the API server closes a
// watch that could not keep up.
type podWatch struct {
	namespace string
	stop      func()
	pods      cache.Store
	changed   chan struct{}
}

func watchPods(ctx context.Context, c *harness.Cluster, namespace string) (*podWatch, error) {
	ctx, cancel := context.WithCancel(ctx)
	informer := informers.NewSharedInformerFactoryWithOptions(c.Kube, 0, informers.WithNamespace(namespace)).Core().V1().Pods().Informer()
	w := &podWatch{namespace: namespace, stop: cancel, pods: informer.GetStore(), changed: make(chan struct{}, 1)}
	changed := func(any) {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, pod any) { changed(pod) }, DeleteFunc: changed}
	if _, err := informer.AddEventHandler(handler); err != nil {
		cancel()
		return nil, err
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		cancel()
		return nil, fmt.Errorf("the pods of %s on %s cannot be listed: %w", namespace, c.Name, ctx.Err())
	}
	return w, nil
}

// until returns when the numbers of all and of Ready pods are as wanted.
func (w *podWatch) until(ctx context.Context, what string, wanted func(all, ready int) bool) (time.Time, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		all, ready := w.count()
		if wanted(all, ready) {
			return time.Now(), nil
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-timer.C:
			return time.Time{}, fmt.Errorf("waited %s for %s; there are %d pods, %d Ready", patience, what, all, ready)
		}
	}
}

func (w *podWatch) count() (all, ready int) {
	for _, object := range w.pods.List() {
		all++
		for _, c := range object.(*corev1.Pod).Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	return all, ready
}
