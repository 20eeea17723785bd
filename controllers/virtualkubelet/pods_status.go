// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"liqo.io/federation/controllers/virtualkubelet/reflect"
)

// annotationComputedFrom carries, on the pods handed to the pod controller, the
// resourceVersion of the local pod that the status was computed from. It is
// never stored.
const annotationComputedFrom = "federation.liqo.io/computed-from"

// publish hands a status to the pod controller, unless the pod has it.
func (p *Pods) publish(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) {
	if reflect.SameStatus(&pod.Status, &status) {
		return
	}
	klog.FromContext(ctx).V(4).Info("Pod has a new status", "phase", status.Phase, "reason", status.Reason)
	p.notify(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   pod.Namespace,
			Name:        pod.Name,
			UID:         pod.UID,
			Annotations: map[string]string{annotationComputedFrom: pod.ResourceVersion},
		},
		Status: status,
	})
}

// write patches the status of a pod to what was published. One that was
// computed from an older pod than the cache has, or from one that the last
// patch has outdated, is dropped: its pod will be looked at again.
func (p *Pods) write(ctx context.Context, published *corev1.Pod) error {
	key := cache.MetaObjectToName(published)
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
	if pod.UID != published.UID || pod.ResourceVersion != published.Annotations[annotationComputedFrom] {
		p.queue.Add(key)
		return nil
	}
	patch, err := statusPatch(pod, &published.Status)
	if err != nil {
		return fmt.Errorf("comparing the status of pod %s: %w", key, err)
	}
	written, err := p.local.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("patching the status of pod %s: %w", key, err)
	}
	// A patch that changed nothing is followed by no event.
	if written.ResourceVersion != pod.ResourceVersion {
		p.written.Store(key, pod.ResourceVersion)
	}
	p.metrics.statusWrites.Inc()
	if isReady(published) && !isReady(pod) {
		if since, ok := p.readyAt.Load(key); ok {
			p.metrics.readySeconds.Observe(p.clock.Since(since.(time.Time)).Seconds())
		}
	}
	return nil
}

// statusPatch is the smallest patch that leads to a status. It names the UID,
// so that it never meets another pod of the same name.
func statusPatch(pod *corev1.Pod, status *corev1.PodStatus) ([]byte, error) {
	before, err := json.Marshal(corev1.Pod{Status: pod.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Status: *status})
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
}
