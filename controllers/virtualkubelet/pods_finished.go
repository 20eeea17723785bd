// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

const (
	// tidiedAtOnce is how many finished shadow pods are deleted when the provider
	// keeps too many of them: a tenth of what every consumer may keep.
	tidiedAtOnce = 100
	// tidyTimeout is how long those are waited for before others are deleted.
	tidyTimeout = 30 * time.Second
)

// fetch tells a pod how it ended that somebody on the provider deletes, and then
// lets its shadow pod go, which is kept for that. It tells whether there is such
// an end.
func (p *Pods) fetch(ctx context.Context, key cache.ObjectName, pod *corev1.Pod, t *twin) (bool, error) {
	if t == nil {
		return false, nil
	}
	shadow := p.shadow(t, key)
	switch {
	case shadow == nil, shadow.DeletionTimestamp == nil, !translate.Terminal(shadow.Status.Phase), translate.OriginUID(shadow) != pod.UID:
		return false, nil
	case !translate.Terminal(pod.Status.Phase):
		err := p.publish(ctx, pod, p.statusOf(pod, shadow, t.copyOf(pod)))
		if remote.Refused(err) {
			// Without an end it would run again.
			err = errors.Join(err, p.publish(ctx, pod, translate.Deleted(pod, p.now())))
		}
		return true, err
	case !p.reachable():
		return true, nil
	}
	return true, p.deleteShadow(ctx, key, shadow, 0)
}

// finished is a shadow pod that has ended, and whose local pod says how.
type finished struct {
	key    cache.ObjectName
	shadow *v1alpha1.ShadowPod
	ended  time.Time
}

// tidy deletes those finished shadow pods that ended the longest ago: how they
// ended is home, so nothing is lost but what they logged. It tells whether there
// will be fewer in a moment. Those that are going are waited for before others
// are deleted.
func (p *Pods) tidy(ctx context.Context) bool {
	if !p.tidying.TryLock() {
		return true
	}
	defer p.tidying.Unlock()
	all, going := p.finished()
	// One that somebody keeps there does not keep the others.
	if going && p.clock.Since(p.tidied) < tidyTimeout {
		return true
	}
	p.tidied = p.clock.Now()
	slices.SortFunc(all, func(a, b finished) int {
		return cmp.Or(a.ended.Compare(b.ended), cmp.Compare(a.key.String(), b.key.String()))
	})
	all = all[:min(len(all), tidiedAtOnce)]
	for _, one := range all {
		if err := p.deleteShadow(ctx, one.key, one.shadow, -1); err != nil {
			klog.FromContext(ctx).Error(err, "A finished shadow pod stays", "shadowPod", klog.KObj(one.shadow))
			return false
		}
	}
	if len(all) > 0 {
		klog.FromContext(ctx).Info("Deleted finished shadow pods, since the provider keeps too many", "count", len(all))
	}
	return len(all) > 0
}

// finished are the shadow pods of this node that have ended, and whose local
// pods have too. It tells whether some of them are about to go.
func (p *Pods) finished() (all []finished, going bool) {
	for namespace, e := range p.twins.all() {
		if e.twin == nil {
			continue
		}
		for _, obj := range e.twin.shadows.GetStore().List() {
			shadow, ok := obj.(*v1alpha1.ShadowPod)
			if !ok || shadow.Status.Phase == "" {
				continue
			}
			key := cache.NewObjectName(namespace, shadow.Name)
			if asked := p.states.read(key).shadow.deleted; shadow.DeletionTimestamp != nil || asked != nil && asked.uid == shadow.UID {
				going = true
				continue
			}
			pod, err := p.lister.Pods(namespace).Get(shadow.Name)
			if err == nil && pod.UID == translate.OriginUID(shadow) && translate.Terminal(pod.Status.Phase) {
				all = append(all, finished{key, shadow, endOf(pod)})
			}
		}
	}
	return all, going
}

// endOf is when the last container of a pod ended; one that never ran ended
// when it was made.
func endOf(pod *corev1.Pod) time.Time {
	end := pod.CreationTimestamp.Time
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if ended := status.State.Terminated; ended != nil && ended.FinishedAt.After(end) {
			end = ended.FinishedAt.Time
		}
	}
	return end
}
