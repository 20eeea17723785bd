// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

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
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// forget removes the shadow pod of a local pod that is gone.
func (p *Pods) forget(ctx context.Context, key cache.ObjectName) error {
	// An answer for it may have come after its end.
	p.states.dropLocal(key)
	t := p.twins.extent(key.Namespace).twin
	if t == nil {
		p.states.drop(key)
		return nil
	}
	if !t.synced() || !p.reachable() {
		return nil
	}
	if shadow := p.shadow(t, key); shadow != nil {
		return p.deleteShadow(ctx, key, shadow, -1)
	}
	p.states.drop(key)
	return nil
}

// ReasonLeftBehind says that a pod was removed here while the provider could not
// be asked to end it: it does so by itself when it is back.
const ReasonLeftBehind = "LeftBehind"

// remove takes a pod that is being deleted off the provider, and then off this
// cluster. While the provider cannot be asked, the pod stays, as long as its
// twin is wanted there.
func (p *Pods) remove(ctx context.Context, key cache.ObjectName, pod *corev1.Pod, extent extent) error {
	t := extent.twin
	if t == nil {
		if extent.wanted && translate.Ran(&pod.Status) {
			return nil
		}
		return p.deleteLocal(ctx, pod)
	}
	switch reachable := p.reachable(); {
	case !reachable && extent.goes():
		// The namespace was let go with a pod in it, so its time to come home is
		// over. Whatever is left there goes with the twin, or as what nobody here
		// has, as soon as it can; no pod has this UID any more.
		return p.leaveBehind(ctx, key, pod, t)
	case !reachable, !t.synced():
		return nil
	case extent.goes():
		// It may go away before it has ended the pod, which is no event.
		p.queue.AddAfter(key, checkInterval)
	}
	there := t.copyOf(pod)
	if shadow := p.shadow(t, key); shadow != nil && translate.OriginUID(shadow) == pod.UID {
		if translate.Terminal(shadow.Status.Phase) && !translate.Terminal(pod.Status.Phase) {
			// The shadow pod is let go once this is written; what comes of it leads here
			// again.
			err := p.publish(ctx, pod, p.statusOf(pod, shadow, there))
			if err == nil || !remote.Refused(err) {
				return err
			}
			utilruntime.HandleErrorWithContext(ctx, err, "The end of the pod cannot be told, and it is removed without", "shadowPod", klog.KObj(shadow))
		}
		if err := p.deleteShadow(ctx, key, shadow, gracePeriod(pod)); err != nil {
			return err
		}
		return p.keepLastTokens(ctx, key, pod, shadow, t)
	}
	if there != nil {
		return nil
	}
	return p.deleteLocal(ctx, pod)
}

// leaveBehind removes a pod of which nobody knows what the provider has left.
func (p *Pods) leaveBehind(ctx context.Context, key cache.ObjectName, pod *corev1.Pod, t *twin) error {
	if p.states.read(key).local.removed != pod.UID {
		klog.FromContext(ctx).Info("Removing a pod without an answer of the provider", "remoteNamespace", t.remote)
		p.recorder.Event(pod, corev1.EventTypeWarning, ReasonLeftBehind,
			fmt.Sprintf("%s does not answer, and the namespace was unoffloaded from it: the pod is removed here. What runs of it in namespace %s there ends when %s is back", p.provider, t.remote, p.provider))
	}
	return p.deleteLocal(ctx, pod)
}

func gracePeriod(pod *corev1.Pod) int64 {
	if pod.DeletionGracePeriodSeconds == nil {
		return -1
	}
	return *pod.DeletionGracePeriodSeconds
}

// deleteShadow asks for a deletion once, and again only for a shorter grace
// period. None says that its end is known here, or of interest to nobody: a
// shadow pod that has ended is kept there until then.
func (p *Pods) deleteShadow(ctx context.Context, key cache.ObjectName, shadow *v1alpha1.ShadowPod, grace int64) error {
	if translate.Terminal(shadow.Status.Phase) {
		grace = 0
	} else if grace == 0 {
		grace = 1
	}
	if asked := p.states.read(key).shadow.deleted; asked != nil && asked.uid == shadow.UID && (grace < 0 || asked.grace >= 0 && asked.grace <= grace) {
		return p.awaitUnseen(ctx, key, shadow)
	}
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(shadow.UID))}
	if grace >= 0 {
		options.GracePeriodSeconds = &grace
	}
	err := p.remote.Federation.FederationV1alpha1().ShadowPods(shadow.Namespace).Delete(ctx, shadow.Name, options)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// It is gone, or another one has its name: the cache will say which.
		p.states.change(key, func(s *podState) { s.shadow.created = nil })
	case err != nil:
		return fmt.Errorf("deleting the shadow pod on %s: %w", p.provider, err)
	}
	p.states.change(key, func(s *podState) { s.shadow.deleted = &deletion{uid: shadow.UID, grace: grace} })
	klog.FromContext(ctx).V(2).Info("Deleted shadow pod", "shadowPod", klog.KObj(shadow))
	if p.unseen(key, shadow) {
		p.queue.AddAfter(key, lookAgain)
	}
	return nil
}

// unseen tells whether a shadow pod is known from the answer to its creation
// alone.
func (p *Pods) unseen(key cache.ObjectName, shadow *v1alpha1.ShadowPod) bool {
	return p.creationOf(key, shadow) != nil
}

// overdue tells whether that has been so for too long.
func (p *Pods) overdue(key cache.ObjectName, shadow *v1alpha1.ShadowPod) bool {
	created := p.creationOf(key, shadow)
	return created != nil && p.clock.Since(created.at) >= unseenPatience
}

func (p *Pods) creationOf(key cache.ObjectName, shadow *v1alpha1.ShadowPod) *creation {
	created := p.states.read(key).shadow.created
	if created == nil || created.UID != shadow.UID {
		return nil
	}
	return created
}

// awaitUnseen asks whether a shadow pod is gone that was never seen: one that
// comes and goes while the watch is broken leaves no event.
func (p *Pods) awaitUnseen(ctx context.Context, key cache.ObjectName, shadow *v1alpha1.ShadowPod) error {
	if !p.unseen(key, shadow) {
		return nil
	}
	live, err := p.remote.Federation.FederationV1alpha1().ShadowPods(shadow.Namespace).Get(ctx, shadow.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && live.UID != shadow.UID:
		p.states.change(key, func(s *podState) {
			if s.shadow.created != nil && s.shadow.created.UID == shadow.UID {
				s.shadow.created = nil
			}
		})
		p.queue.Add(key)
	case err != nil:
		return fmt.Errorf("looking for the shadow pod on %s: %w", p.provider, err)
	default:
		p.queue.AddAfter(key, lookAgain)
	}
	return nil
}

// deleteLocal removes a pod of which the provider has nothing left, once.
// Whoever holds it back with a finalizer wants to know how it ended.
func (p *Pods) deleteLocal(ctx context.Context, pod *corev1.Pod) error {
	key := cache.MetaObjectToName(pod)
	if p.states.read(key).local.removed == pod.UID {
		return nil
	}
	if len(pod.Finalizers) > 0 && !translate.Terminal(pod.Status.Phase) {
		return p.publish(ctx, pod, translate.Deleted(pod, p.now()))
	}
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	err := p.local.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("removing the pod: %w", err)
	}
	p.states.change(key, func(s *podState) { s.local.removed = pod.UID })
	return nil
}
