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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// ReasonProviderNodeLost says that the provider has evicted the pod there and
// nobody tells that it has ended: its node is lost.
const ReasonProviderNodeLost = "ProviderNodeLost"

// lostPatience is how much longer than its grace period a pod may take to end on
// the provider before its node there counts as lost.
const lostPatience = 30 * time.Second

// longestGrace bounds what a provider says that a pod may take to end.
const longestGrace = 24 * time.Hour

// graceOf is how long the provider gives a pod to end.
func graceOf(there *translate.RemotePod) time.Duration {
	seconds := min(max(ptr.Deref(there.DeletionGracePeriodSeconds, 0), 0), int64(longestGrace/time.Second))
	return time.Duration(seconds) * time.Second
}

// giveUp deletes a pod of which the provider evicts what it runs and cannot tell
// that this has ended, as on a node that is dead or cut off. No other one can be
// made of it until that is known, or two might run; but its owner can make
// another pod, as it does for one on a node that is lost here. A pod that
// nobody makes again waits.
func (p *Pods) giveUp(ctx context.Context, key cache.ObjectName, pod *corev1.Pod, there *translate.RemotePod) error {
	if there == nil || there.DeletionTimestamp == nil || translate.Terminal(there.Status.Phase) || metav1.GetControllerOfNoCopy(pod) == nil {
		p.setEnding(key, nil)
		return nil
	}
	seen := p.states.read(key).local.ending
	if seen == nil || seen.uid != there.UID {
		seen = &ending{uid: there.UID, since: p.clock.Now()}
		p.setEnding(key, seen)
	}
	if wait := lostPatience + graceOf(there) - p.clock.Since(seen.since); wait > 0 {
		p.queue.AddAfter(key, wait)
		return nil
	}
	if seen.givenUp {
		// The cache has yet to see it.
		return nil
	}
	// The cache may be as old as the last time that the provider was heard of.
	live, err := p.remote.Core.CoreV1().Pods(there.Namespace).Get(ctx, there.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && (live.UID != there.UID || translate.Terminal(live.Status.Phase)):
		// The watch is about to tell.
		return nil
	case err != nil:
		return fmt.Errorf("asking %s whether the pod is still ending there: %w", p.provider, err)
	}
	// As who evicts by a taint says first, for a Job that does not count such pods.
	patch, err := statusPatch(pod, ptr.To(translate.Disrupted(pod, ReasonProviderNodeLost, p.provider+" has given up the pod and cannot tell that it has ended there", p.now())))
	if err != nil {
		return fmt.Errorf("comparing the status of pod %s: %w", key, err)
	}
	_, err = p.local.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("saying of the pod that it is lost on %s: %w", p.provider, err)
	}
	err = p.local.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *metav1.NewPreconditionDeleteOptions(string(pod.UID)))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("deleting the pod, which is lost on %s: %w", p.provider, err)
	}
	p.setEnding(key, &ending{uid: seen.uid, since: seen.since, givenUp: true})
	p.recorder.Event(pod, corev1.EventTypeWarning, ReasonProviderNodeLost,
		fmt.Sprintf("%s has given up the pod and cannot tell that it has ended there, as when its node is lost. It is deleted here, so that another one is made", p.provider))
	return nil
}

func (p *Pods) setEnding(key cache.ObjectName, to *ending) {
	p.states.change(key, func(s *podState) { s.local.ending = to })
}
