// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

const (
	// triedAtOnce is how many waiting pods are tried when room becomes free. Each
	// that fits has as many others tried, so that room is used up however many
	// wait, and one small pod that ends does not have thousands of them asked for.
	triedAtOnce = 4
	// tryPause is how long others that become free wait after that: where none of
	// those that wait fits, pods that come and go cost few requests.
	tryPause = 100 * time.Millisecond
)

// waiting is a set of pods that wait for room.
type waiting struct {
	mu   sync.Mutex
	pods sets.Set[cache.ObjectName]
	// tried is when some were tried last, or will be.
	tried time.Time
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

// turn tells in how long some are to be tried, since there may be room for them
// now; false where that is about to happen anyway.
func (w *waiting) turn(now time.Time) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pods) == 0 || w.tried.After(now) {
		return 0, false
	}
	next := w.tried.Add(tryPause)
	if next.Before(now) {
		next = now
	}
	w.tried = next
	return next.Sub(now), true
}

// roomFreed tries some of the pods again that wait for it. The others, and those
// of other virtual nodes, try by themselves in a while.
func (p *Pods) roomFreed(by *waiting) {
	if after, ok := by.turn(p.clock.Now()); ok {
		p.tryAgain(by, after)
	}
}

func (p *Pods) tryAgain(by *waiting, after time.Duration) {
	for _, key := range by.some(triedAtOnce) {
		p.queue.AddAfter(key, after)
	}
}

// fit has others tried after one that waited was taken: there may be room for
// them, too.
func (p *Pods) fit(key cache.ObjectName) {
	for _, by := range []*waiting{&p.waiting, &p.crowded} {
		if by.remove(key) {
			p.tryAgain(by, 0)
		}
	}
}

// unwait forgets a pod that is not to be taken any more.
func (p *Pods) unwait(key cache.ObjectName) {
	p.waiting.remove(key)
	p.crowded.remove(key)
}
