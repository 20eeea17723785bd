// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"liqo.io/federation/controllers/virtualkubelet/reflect"
)

// publish updates the status of a pod, as it was read, to a new one, unless the
// pod has it. A status that was computed from an older pod than the cache has,
// or from one that the last update has outdated, is dropped: its pod will be
// looked at again.
func (p *Pods) publish(ctx context.Context, from *corev1.Pod, status corev1.PodStatus) error {
	if reflect.SameStatus(&from.Status, &status) {
		return nil
	}
	key := cache.MetaObjectToName(from)
	if wait := p.postponed(key, &from.Status, &status); wait > 0 {
		p.queue.AddAfter(key, wait)
		return nil
	}
	pod, err := p.lister.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if last, ok := p.written.Load(key); ok && last == pod.ResourceVersion {
		return nil
	}
	if pod.UID != from.UID || pod.ResourceVersion != from.ResourceVersion {
		p.queue.Add(key)
		return nil
	}
	klog.FromContext(ctx).V(4).Info("Pod has a new status", "phase", status.Phase, "reason", status.Reason)
	written, err := p.updateStatus(ctx, pod, status)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("updating the status of pod %s: %w", key, err)
	}
	// An update that changed nothing is followed by no event.
	if written.ResourceVersion != pod.ResourceVersion {
		p.written.Store(key, pod.ResourceVersion)
	}
	p.metrics.statusWrites.Inc()
	if isReady(&corev1.Pod{Status: status}) && !isReady(pod) {
		if since, ok := p.readyAt.Load(key); ok {
			p.metrics.readySeconds.Observe(p.clock.Since(since.(time.Time)).Seconds())
		}
	}
	return nil
}

// updateStatus gives a pod a status. What names a version never meets another pod
// of the name, nor somebody else's change. A patch costs the API server more: it
// makes JSON of the pod, and a pod of that.
func (p *Pods) updateStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) (*corev1.Pod, error) {
	wanted := *pod
	wanted.Status = status
	return p.local.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, &wanted, metav1.UpdateOptions{})
}

// postponed is how long a status waits of which nothing is new but the address
// of the virtual kubelet. The next one after a restart has another address, which
// every pod of the node is told, and nobody waits for: a pod that is new then is
// not to come behind all of them.
func (p *Pods) postponed(key cache.ObjectName, before, status *corev1.PodStatus) time.Duration {
	same := *status
	same.HostIP, same.HostIPs = before.HostIP, before.HostIPs
	if before.HostIP == "" || !reflect.SameStatus(before, &same) {
		p.postponements.Delete(key)
		return 0
	}
	now := p.clock.Now()
	until, ok := p.postponements.Load(key)
	if !ok {
		until = now.Add(p.moves.ReserveN(now, 1).DelayFrom(now))
		p.postponements.Store(key, until)
	}
	return until.(time.Time).Sub(now)
}
