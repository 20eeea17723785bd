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

// forget deletes the shadow pod of a local pod that is gone.
func (c *Controller) forget(ctx context.Context, key cache.ObjectName) error {
	// A refusal may have come after its end.
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

// ReasonLeftBehind means that a pod was removed while the provider could not be reached: the
// remote pod ends when it is back.
const ReasonLeftBehind = "LeftBehind"

// remove deletes a pod that is being deleted from the provider first, and then from this cluster.
// While the provider cannot be reached, the pod stays as long as its remote namespace is in use.
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
		// The namespace was unoffloaded with a pod in it, whose time to be evicted is over. The
		// remote pod is deleted with the remote namespace, or as a leftover, as soon as possible;
		// no pod has this UID any more.
		return c.leaveBehind(ctx, key, pod, t)
	case !reachable, !t.Synced():
		return nil
	case state.Leaving():
		// The namespace may be deleted before the pod has ended, which is no event.
		c.queue.AddAfter(key, leavingCheck)
	}
	there := t.RemotePod(pod)
	if shadow := c.shadow(t, key); shadow != nil && translate.OriginUID(shadow) == pod.UID {
		if translate.Terminal(shadow.Status.Phase) && !translate.Terminal(pod.Status.Phase) {
			// The shadow pod is deleted once this is written; the resulting event leads here
			// again.
			err := c.publish(ctx, pod, c.statusOf(pod, shadow, there))
			if err == nil || !remote.Refused(err) {
				return err
			}
			utilruntime.HandleErrorWithContext(
				ctx,
				err,
				"The end of the pod cannot be told, and it is removed without",
				"shadowPod",
				klog.KObj(shadow),
			)
		}
		if err := c.deleteShadow(ctx, key, shadow, gracePeriod(pod)); err != nil {
			return err
		}
		return c.refreshLastTokens(ctx, key, pod, shadow, t)
	}
	if there != nil {
		return nil
	}
	return c.deleteLocal(ctx, pod)
}

// leaveBehind removes a pod whose remote pod may still run.
func (c *Controller) leaveBehind(
	ctx context.Context,
	key cache.ObjectName,
	pod *corev1.Pod,
	t *remotens.Namespace,
) error {
	if c.states.read(key).local.removed != pod.UID {
		klog.FromContext(ctx).Info("Removing a pod without an answer of the provider", "remoteNamespace", t.Remote)
		c.Recorder.Event(
			pod,
			corev1.EventTypeWarning,
			ReasonLeftBehind,
			fmt.Sprintf(
				"%s does not answer, and the namespace was unoffloaded from it: the pod is removed here. What runs of it in namespace %s there ends when %s is back",
				c.Provider,
				t.Remote,
				c.Provider,
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

// deleteShadow requests a deletion once, and again only for a shorter grace period. A grace period
// of zero means that the end of the pod is known here, or not needed: until then the provider
// keeps a shadow pod that has ended.
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
	if asked := c.states.read(
		key,
	).shadow.deleted; asked != nil && asked.uid == shadow.UID &&
		(grace < 0 || asked.grace >= 0 && asked.grace <= grace) {
		return c.checkUnobserved(ctx, key, shadow)
	}
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(shadow.UID))}
	if grace >= 0 {
		options.GracePeriodSeconds = &grace
	}
	err := c.Remote.Federation.FederationV1alpha1().ShadowPods(shadow.Namespace).Delete(ctx, shadow.Name, options)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// It is gone, or another one has its name: the cache will have it.
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

// unobserved reports whether a shadow pod is known only from the response to its creation.
func (c *Controller) unobserved(key cache.ObjectName, shadow *v1alpha1.ShadowPod) bool {
	return c.creationOf(key, shadow) != nil
}

// overdue reports whether that has been so for longer than unobservedGrace.
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

// checkUnobserved reads a shadow pod live that was never observed: one that is created and deleted
// while the watch is broken causes no event.
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
		return fmt.Errorf("looking for the shadow pod on %s: %w", c.Provider, err)
	default:
		c.queue.AddAfter(key, unobservedCheck)
	}
	return nil
}

// deleteLocal removes a pod of which nothing is left on the provider, once. If a finalizer keeps
// it, its last status is written.
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
