// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/test/harness"
)

// podWatch counts the pods of a namespace by a watch, which it resumes if the API server ends it.
type podWatch struct {
	namespace string
	stop      func()
	changed   chan struct{}

	mutex      sync.Mutex
	all, ready int
}

// watchPods watches the pods of a namespace. Unless seen is nil, it is called with each created or
// changed pod.
func watchPods(ctx context.Context, c *harness.Cluster, namespace string, seen func(*corev1.Pod)) (*podWatch, error) {
	ctx, cancel := context.WithCancel(ctx)
	informer := informers.NewSharedInformerFactoryWithOptions(c.Kube, 0,
		informers.WithNamespace(namespace)).Core().V1().Pods().Informer()
	w := &podWatch{namespace: namespace, stop: cancel, changed: make(chan struct{}, 1)}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { w.take(nil, object, seen) },
		UpdateFunc: func(old, object any) { w.take(old, object, seen) },
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			w.take(object, nil, seen)
		},
	}
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

// take updates the numbers of pods for the change of a pod from old to changed, where nil is a missing pod. It counts
// incrementally, because counting uses the processors that the benchmark measures.
func (w *podWatch) take(old, changed any, seen func(*corev1.Pod)) {
	pod, isPod := changed.(*corev1.Pod)
	if isPod && seen != nil {
		seen(pod)
	}
	w.mutex.Lock()
	if before, ok := old.(*corev1.Pod); ok {
		w.count(before, -1)
	}
	if isPod {
		w.count(pod, 1)
	}
	w.mutex.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *podWatch) count(pod *corev1.Pod, by int) {
	w.all += by
	if isReady(pod) {
		w.ready += by
	}
}

// until waits until the numbers of all pods and of Ready pods meet a condition, and returns the time. It fails if the
// numbers do not change for the duration patience.
func (w *podWatch) until(ctx context.Context, what string, wanted func(all, ready int) bool) (time.Time, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var lastAll, lastReady int
	for {
		w.mutex.Lock()
		all, ready := w.all, w.ready
		w.mutex.Unlock()
		if wanted(all, ready) {
			return time.Now(), nil
		}
		if all != lastAll || ready != lastReady {
			lastAll, lastReady = all, ready
			timer.Reset(patience)
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-timer.C:
			return time.Time{}, fmt.Errorf("waited for %s, and nothing changed for %s; there are %d pods, %d Ready", what,
				patience, all, ready)
		}
	}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
