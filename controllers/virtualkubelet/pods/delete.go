// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// deleteOrphan deletes the shadow pod of a local pod that no longer exists. It removes the podState once the shadow pod
// is gone.
func (c *Controller) deleteOrphan(ctx context.Context, key cache.ObjectName) error {
	// A concurrent reconcile may have set the state again after LocalEvents dropped it.
	c.states.dropLocal(key)
	t := c.Namespaces.State(key.Namespace).Namespace
	if t == nil {
		c.states.drop(key)
		return nil
	}
	if !t.Synced() || !c.Reachable() {
		return nil
	}
	if shadow := c.shadow(t, key); shadow != nil {
		return c.deleteShadow(ctx, key, shadow, -1)
	}
	c.states.drop(key)
	return nil
}

// ReasonLeftBehind of an event on a pod means that the pod was removed while the provider was unreachable, because its
// namespace was unoffloaded. The remote pod is deleted once the provider is reachable.
const ReasonLeftBehind = "LeftBehind"

// remove deletes the shadow pod of a local pod that is being deleted, and then removes the local pod. While the
// provider is unreachable, the local pod remains, unless its namespace was unoffloaded.
func (c *Controller) remove(ctx context.Context, key cache.ObjectName, pod *corev1.Pod, state remotens.State) error {
	t := state.Namespace
	if t == nil {
		if state.Offloaded && translate.Ran(&pod.Status) {
			return nil
		}
		return c.deleteLocal(ctx, pod)
	}
	switch reachable := c.Reachable(); {
	case !reachable && state.Leaving():
		// The pod was not evicted in time after its namespace was unoffloaded. The remote pod is deleted later, with the
		// remote namespace or by Leftovers.
		return c.leaveBehind(ctx, key, pod, t)
	case !reachable, !t.Synced():
		return nil
	case state.Leaving():
		// No event enqueues the pod if the remote namespace is deleted before the pod ends.
		c.queue.AddAfter(key, leavingCheck)
	}
	remotePod := t.RemotePod(pod)
	if shadow := c.shadow(t, key); shadow != nil && translate.OriginUID(shadow) == pod.UID {
		if translate.Terminal(shadow.Status.Phase) && !translate.Terminal(pod.Status.Phase) {
			// The event of this write enqueues the local pod again, and that reconcile deletes the shadow pod.
			err := c.publish(ctx, pod, c.statusOf(pod, shadow, remotePod))
			if err == nil || !remote.Refused(err) {
				return err
			}
			utilruntime.HandleErrorWithContext(
				ctx,
				err,
				"Writing the final status of a pod was refused, removing the pod without it",
				"shadowPod",
				klog.KObj(shadow),
			)
		}
		if err := c.deleteShadow(ctx, key, shadow, gracePeriod(pod)); err != nil {
			return err
		}
		return c.refreshLastTokens(ctx, key, pod, shadow, t)
	}
	if remotePod != nil {
		return nil
	}
	return c.deleteLocal(ctx, pod)
}

// leaveBehind removes a local pod whose remote pod may still run, and records an event about it once.
func (c *Controller) leaveBehind(
	ctx context.Context,
	key cache.ObjectName,
	pod *corev1.Pod,
	t *remotens.Namespace,
) error {
	if c.states.read(key).local.removed != pod.UID {
		klog.FromContext(ctx).Info("Removing a pod while the provider is unreachable", "remoteNamespace", t.Remote)
		c.Recorder.Event(
			pod,
			corev1.EventTypeWarning,
			ReasonLeftBehind,
			fmt.Sprintf(
				"The pod is removed because its namespace was unoffloaded from %s, which is unreachable. "+
					"Its remote pod in namespace %s is deleted when %s is reachable again.",
				c.Provider, t.Remote, c.Provider,
			),
		)
	}
	return c.deleteLocal(ctx, pod)
}

func gracePeriod(pod *corev1.Pod) int64 {
	if pod.DeletionGracePeriodSeconds == nil {
		return -1
	}
	return *pod.DeletionGracePeriodSeconds
}

// deleteShadow requests the deletion of a shadow pod once, and again if grace is shorter than in the last request.
// grace is in seconds; -1 means the pod's own. The provider keeps a shadow pod that has ended until it is deleted with
// a grace period of zero, so callers delete it only when the local pod has its final status or needs none.
func (c *Controller) deleteShadow(
	ctx context.Context,
	key cache.ObjectName,
	shadow *v1alpha1.ShadowPod,
	grace int64,
) error {
	if translate.Terminal(shadow.Status.Phase) {
		grace = 0
	} else if grace == 0 {
		grace = 1
	}
	last := c.states.read(key).shadow.deleted
	if last != nil && last.uid == shadow.UID && (grace < 0 || last.grace >= 0 && last.grace <= grace) {
		return c.checkUnobserved(ctx, key, shadow)
	}
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(shadow.UID))}
	if grace >= 0 {
		options.GracePeriodSeconds = &grace
	}
	err := c.Remote.Federation.FederationV1alpha1().ShadowPods(shadow.Namespace).Delete(ctx, shadow.Name, options)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// The shadow pod was deleted or replaced, and the cache will receive that.
		c.states.change(key, func(s *podState) { s.shadow.created = nil })
	case err != nil:
		return fmt.Errorf("deleting the shadow pod on %s: %w", c.Provider, err)
	}
	c.states.change(key, func(s *podState) { s.shadow.deleted = &deletion{uid: shadow.UID, grace: grace} })
	klog.FromContext(ctx).V(2).Info("Deleted shadow pod", "shadowPod", klog.KObj(shadow))
	if c.unobserved(key, shadow) {
		c.queue.AddAfter(key, unobservedCheck)
	}
	return nil
}

// unobserved reports whether this controller created the shadow pod and the cache has not received it yet.
func (c *Controller) unobserved(key cache.ObjectName, shadow *v1alpha1.ShadowPod) bool {
	return c.creationOf(key, shadow) != nil
}

// overdue reports whether a created shadow pod is not in the cache after unobservedGrace.
func (c *Controller) overdue(key cache.ObjectName, shadow *v1alpha1.ShadowPod) bool {
	created := c.creationOf(key, shadow)
	return created != nil && c.Clock.Since(created.at) >= unobservedGrace
}

func (c *Controller) creationOf(key cache.ObjectName, shadow *v1alpha1.ShadowPod) *creation {
	created := c.states.read(key).shadow.created
	if created == nil || created.UID != shadow.UID {
		return nil
	}
	return created
}

// checkUnobserved reads a shadow pod that is not in the cache from the provider's API server, and enqueues the pod if
// the shadow pod does not exist. A shadow pod that is created and deleted while the watch is interrupted causes no
// event.
func (c *Controller) checkUnobserved(ctx context.Context, key cache.ObjectName, shadow *v1alpha1.ShadowPod) error {
	if !c.unobserved(key, shadow) {
		return nil
	}
	live, err := c.Remote.Federation.FederationV1alpha1().
		ShadowPods(shadow.Namespace).
		Get(ctx, shadow.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && live.UID != shadow.UID:
		c.states.change(key, func(s *podState) {
			if s.shadow.created != nil && s.shadow.created.UID == shadow.UID {
				s.shadow.created = nil
			}
		})
		c.queue.Add(key)
	case err != nil:
		return fmt.Errorf("reading the shadow pod on %s: %w", c.Provider, err)
	default:
		c.queue.AddAfter(key, unobservedCheck)
	}
	return nil
}

// deleteLocal removes a local pod that is being deleted, once. If the pod has finalizers, so that it remains, a final
// status is written first.
func (c *Controller) deleteLocal(ctx context.Context, pod *corev1.Pod) error {
	key := cache.MetaObjectToName(pod)
	if c.states.read(key).local.removed == pod.UID {
		return nil
	}
	if len(pod.Finalizers) > 0 && !translate.Terminal(pod.Status.Phase) {
		return c.publish(ctx, pod, translate.Deleted(pod, c.now()))
	}
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	err := c.Local.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("removing the pod: %w", err)
	}
	c.states.change(key, func(s *podState) { s.local.removed = pod.UID })
	return nil
}
