// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"liqo.io/federation/test/harness"
)

// podWatch counts the pods of a namespace as the events about them arrive.
type podWatch struct {
	namespace string
	stop      func()

	mutex   sync.Mutex
	ready   map[types.UID]bool
	changed chan struct{}
	failed  error
}

func watchPods(ctx context.Context, c *harness.Cluster, namespace string) (*podWatch, error) {
	ctx, cancel := context.WithCancel(ctx)
	events, err := c.Kube.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		return nil, err
	}
	w := &podWatch{namespace: namespace, stop: cancel, ready: map[types.UID]bool{}, changed: make(chan struct{}, 1)}
	go func() {
		defer events.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case event, open := <-events.ResultChan():
				if !w.see(event, open) {
					return
				}
			}
		}
	}()
	return w, nil
}

func (w *podWatch) see(event watch.Event, open bool) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	defer func() {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}()
	pod, ok := event.Object.(*corev1.Pod)
	if !ok || !open {
		w.failed = fmt.Errorf("the watch on pods in %s ended: %v", w.namespace, event.Object)
		return false
	}
	if event.Type == watch.Deleted {
		delete(w.ready, pod.UID)
		return true
	}
	ready := false
	for _, c := range pod.Status.Conditions {
		ready = ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	w.ready[pod.UID] = ready
	return true
}

// until returns when the numbers of all and of Ready pods are as wanted.
func (w *podWatch) until(ctx context.Context, what string, wanted func(all, ready int) bool) (time.Time, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		all, ready, err := w.count()
		if err != nil {
			return time.Time{}, err
		}
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

func (w *podWatch) count() (all, ready int, err error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, is := range w.ready {
		if is {
			ready++
		}
	}
	return len(w.ready), ready, w.failed
}
