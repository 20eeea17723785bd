// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// triedAtOnce is how many waiting pods are tried when room becomes free. Each
// that fits has as many others tried, so that room is used up however many wait,
// and one small pod that ends does not have thousands of them asked for.
const triedAtOnce = 4

// waiting is a set of pods that wait for room.
type waiting struct {
	mu   sync.Mutex
	pods sets.Set[cache.ObjectName]
}

func (w *waiting) add(pod cache.ObjectName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods == nil {
		w.pods = sets.New[cache.ObjectName]()
	}
	w.pods.Insert(pod)
}

// remove tells whether the pod was waiting.
func (w *waiting) remove(pod cache.ObjectName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	had := w.pods.Has(pod)
	w.pods.Delete(pod)
	return had
}

// some are at most so many pods, not always the same ones.
func (w *waiting) some(most int) (pods []cache.ObjectName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for pod := range w.pods {
		if len(pods) == most {
			break
		}
		pods = append(pods, pod)
	}
	return pods
}

// roomFreed tries some of the pods again for which there was no room. The
// others, and those of other virtual nodes, try by themselves in a while.
func (p *Pods) roomFreed() {
	for _, key := range p.waiting.some(triedAtOnce) {
		p.queue.Add(key)
	}
}
