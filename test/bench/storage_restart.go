// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podRestart has the times at which a pod was first observed as terminating, and at which its
// replacement was first observed and was first observed as Ready.
type podRestart struct{ terminating, replaced, ready time.Time }

func (r podRestart) stop() time.Duration { return r.replaced.Sub(r.terminating) }

func (r podRestart) start() time.Duration { return r.ready.Sub(r.replaced) }

// outage returns the time from the deletion of the pod until its replacement is Ready.
func (r podRestart) outage() time.Duration { return r.ready.Sub(r.terminating) }

// restartLog records one restart of the pod of the moved StatefulSet.
type restartLog struct {
	mutex sync.Mutex
	first types.UID
	at    podRestart
	done  chan struct{}
}

// watchRestart records the next restart of the pod of the moved StatefulSet. stop ends the watch.
func (b *bench) watchRestart(ctx context.Context) (log *restartLog, stop func(), err error) {
	log = &restartLog{done: make(chan struct{})}
	w, err := watchPods(ctx, b.rome, storing, log.seen)
	if err != nil {
		return nil, nil, err
	}
	return log, w.stop, nil
}

func (l *restartLog) seen(pod *corev1.Pod) {
	if pod.Name != movingPod {
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.first == "" {
		l.first = pod.UID
	}
	replaced := pod.UID != l.first
	now := time.Now()
	first(&l.at.terminating, now, pod.DeletionTimestamp != nil)
	first(&l.at.replaced, now, replaced)
	if replaced && isReady(pod) && l.at.ready.IsZero() {
		l.at.ready = now
		close(l.done)
	}
}

// wait returns the times of the restart when the replacement is Ready.
func (l *restartLog) wait(ctx context.Context) (podRestart, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-l.done:
		l.mutex.Lock()
		defer l.mutex.Unlock()
		return l.at, nil
	case <-ctx.Done():
		return podRestart{}, fmt.Errorf("waiting until pod %s has started again: %w", movingPod, ctx.Err())
	}
}

// restartPod deletes the pod of the moved StatefulSet, and returns the times of its restart.
func (b *bench) restartPod(ctx context.Context) (podRestart, error) {
	log, stop, err := b.watchRestart(ctx)
	if err != nil {
		return podRestart{}, err
	}
	defer stop()
	if err := b.quiet(ctx); err != nil {
		return podRestart{}, err
	}
	if err := b.rome.Kube.CoreV1().Pods(storing).Delete(ctx, movingPod, metav1.DeleteOptions{}); err != nil {
		return podRestart{}, err
	}
	restarted, err := log.wait(ctx)
	if err == nil {
		fmt.Fprintf(os.Stderr, "pod restarted without a move: stopped in %s, started in %s\n",
			restarted.stop().Round(time.Millisecond), restarted.start().Round(time.Millisecond))
	}
	return restarted, err
}
