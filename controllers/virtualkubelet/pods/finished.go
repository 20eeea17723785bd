// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

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
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

const (
	// tidiedAtOnce is the maximum number of finished shadow pods that are deleted when the provider has too many of this
	// consumer. It is a tenth of the lowest limit that a provider applies.
	tidiedAtOnce = 100
	// tidyTimeout is the time for which pending deletions of finished shadow pods prevent further deletions.
	tidyTimeout = 30 * time.Second
)

// fetchEnd handles a shadow pod that has ended and is being deleted on the provider, while the local pod is not being
// deleted. The provider keeps that shadow pod until the consumer has its final status. fetchEnd writes the status to
// the local pod and then deletes the shadow pod. It reports whether the pod has such a shadow pod.
func (c *Controller) fetchEnd(
	ctx context.Context,
	key cache.ObjectName,
	pod *corev1.Pod,
	t *remotens.Namespace,
) (bool, error) {
	if t == nil {
		return false, nil
	}
	shadow := c.shadow(t, key)
	switch {
	case shadow == nil,
		shadow.DeletionTimestamp == nil,
		!translate.Terminal(shadow.Status.Phase),
		translate.OriginUID(shadow) != pod.UID:
		return false, nil
	case !translate.Terminal(pod.Status.Phase):
		err := c.publish(ctx, pod, c.statusOf(pod, shadow, t.RemotePod(pod)))
		if remote.Refused(err) {
			// Without a final status of the local pod, its shadow pod would be created again.
			err = errors.Join(err, c.publish(ctx, pod, translate.Deleted(pod, c.now())))
		}
		return true, err
	case !c.Reachable():
		return true, nil
	}
	return true, c.deleteShadow(ctx, key, shadow, 0)
}

// finished is a shadow pod that has ended and whose local pod has the final status.
type finished struct {
	key    cache.ObjectName
	shadow *v1alpha1.ShadowPod
	ended  time.Time
}

// tidy deletes the oldest finished shadow pods, at most tidiedAtOnce, and reports whether deletions are pending. Only
// logs are lost, since the local pods have the final status. While earlier deletions are pending, it requests no
// further ones until tidyTimeout has passed.
func (c *Controller) tidy(ctx context.Context) bool {
	if !c.tidying.TryLock() {
		return true
	}
	defer c.tidying.Unlock()
	all, going := c.finished()
	// After tidyTimeout, a shadow pod that a finalizer keeps does not prevent further deletions.
	if going && c.Clock.Since(c.tidied) < tidyTimeout {
		return true
	}
	c.tidied = c.Clock.Now()
	slices.SortFunc(all, func(a, b finished) int {
		return cmp.Or(a.ended.Compare(b.ended), cmp.Compare(a.key.String(), b.key.String()))
	})
	all = all[:min(len(all), tidiedAtOnce)]
	for _, one := range all {
		if err := c.deleteShadow(ctx, one.key, one.shadow, -1); err != nil {
			klog.FromContext(ctx).Error(
				err, "Deleting a finished shadow pod failed", "shadowPod", klog.KObj(one.shadow),
			)
			return false
		}
	}
	if len(all) > 0 {
		klog.FromContext(ctx).Info("Deleted finished shadow pods, since the provider keeps too many", "count", len(all))
	}
	return len(all) > 0
}

// finished returns the shadow pods of this node that have ended and whose local pods have the final status. going is
// true if any finished shadow pod is being deleted; all omits these.
func (c *Controller) finished() (all []finished, going bool) {
	for namespace, e := range c.Namespaces.All() {
		if e.Namespace == nil {
			continue
		}
		for _, obj := range e.Namespace.Shadows.GetStore().List() {
			shadow, ok := obj.(*v1alpha1.ShadowPod)
			if !ok || shadow.Status.Phase == "" {
				continue
			}
			key := cache.NewObjectName(namespace, shadow.Name)
			deleted := c.states.read(key).shadow.deleted
			if shadow.DeletionTimestamp != nil || deleted != nil && deleted.uid == shadow.UID {
				going = true
				continue
			}
			pod, err := c.Lister.Pods(namespace).Get(shadow.Name)
			if err == nil && pod.UID == translate.OriginUID(shadow) && translate.Terminal(pod.Status.Phase) {
				all = append(all, finished{key, shadow, endOf(pod)})
			}
		}
	}
	return all, going
}

// endOf returns the time at which the last container of a pod ended, or the pod's creation time if no container ran.
func endOf(pod *corev1.Pod) time.Time {
	end := pod.CreationTimestamp.Time
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if ended := status.State.Terminated; ended != nil && ended.FinishedAt.After(end) {
			end = ended.FinishedAt.Time
		}
	}
	return end
}
