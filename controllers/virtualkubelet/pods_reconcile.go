// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// Reasons of pods that the provider does not take, beside
// ReasonProviderRefused.
const (
	// ReasonGrantExceeded says that the provider has granted too little for the
	// pod beside those that are there.
	ReasonGrantExceeded = "GrantExceeded"
	// ReasonProviderConflict says that the provider has a shadow pod of that
	// name that is not this pod's; it is left alone.
	ReasonProviderConflict = "ProviderConflict"
)

// reconcile brings one pod and its shadow pod in line, whatever has happened
// to either of them.
func (p *Pods) reconcile(ctx context.Context, key cache.ObjectName) error {
	pod, err := p.lister.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return p.forget(ctx, key)
	}
	if err != nil {
		return err
	}
	extent := p.twins.extent(key.Namespace)
	if pod.DeletionTimestamp != nil {
		return p.remove(ctx, key, pod, extent)
	}
	if fetched, err := p.fetch(ctx, key, pod, extent.twin); fetched || err != nil {
		return err
	}
	switch {
	case translate.Terminal(pod.Status.Phase):
		// One that waited may have been failed here.
		p.states.unblockAll(key)
		return nil
	case !extent.wanted:
		p.states.unblockAll(key)
		return p.publish(ctx, pod, p.unwantedStatus(key, pod, extent.message+notForDaemonSets(pod)))
	case !extent.ready:
		p.states.change(key, func(s *podState) { s.local.unoffloadedAt = time.Time{} })
		return p.await(ctx, key, pod, extent)
	case !extent.twin.synced(), !p.reachable():
		// It is looked at again when the twin is known, and the provider back.
		return nil
	}

	p.states.change(key, func(s *podState) {
		s.local.unoffloadedAt = time.Time{}
		if s.local.boundAt.IsZero() {
			s.local.boundAt = p.clock.Now()
		}
	})
	shadow, there := p.shadow(extent.twin, key), extent.twin.copyOf(pod)
	switch {
	case shadow == nil:
		return p.create(ctx, key, pod, extent.twin)
	case translate.OriginUID(shadow) != pod.UID:
		// Its pod is gone and had the same name; the deletion is an event.
		return p.deleteShadow(ctx, key, shadow, -1)
	case shadow.DeletionTimestamp != nil:
		return nil
	}
	if p.overdue(key, shadow) {
		if err := p.awaitUnseen(ctx, key, shadow); err != nil {
			return err
		}
	}
	refused, updateErr := p.update(ctx, pod, shadow)
	// How the pod does is told also while a change of it does not get through.
	status := p.statusOf(pod, shadow, there)
	translate.RefuseContainers(&status, refused.containers, refused.message)
	if refused.resize != nil {
		p.deferResize(pod, &status, refused.resize)
	}
	return errors.Join(updateErr, p.publish(ctx, pod, status), p.keepTokens(ctx, key, pod, shadow, extent.twin), p.giveUp(ctx, key, pod, there))
}

// statusOf is the status of a pod by what the provider has of it, with the
// addresses that are reached from here.
func (p *Pods) statusOf(pod *corev1.Pod, shadow *v1alpha1.ShadowPod, there *translate.RemotePod) corev1.PodStatus {
	if p.network != nil {
		shadow, there = p.network.here(shadow, there)
	}
	return translate.PodStatus(pod, shadow, there, p.nodeIP, p.now())
}

// unwantedStatus is that of a pod whose namespace does not extend to the provider.
// One that ran is ready no more, but has not failed for a while: who brings the
// namespace home evicts it, so that its owner makes another one, and none stays
// behind as failed.
func (p *Pods) unwantedStatus(key cache.ObjectName, pod *corev1.Pod, message string) corev1.PodStatus {
	var since time.Time
	p.states.change(key, func(s *podState) {
		if s.local.unoffloadedAt.IsZero() {
			s.local.unoffloadedAt = p.clock.Now()
		}
		since = s.local.unoffloadedAt
	})
	wait := homePatience - p.clock.Since(since)
	if wait > 0 {
		p.queue.AddAfter(key, wait)
	}
	return translate.NotOffloaded(pod, message, wait > 0, p.now())
}

// await tells a pod that its namespace is not there yet, if that takes long.
// One that ran keeps its last status.
func (p *Pods) await(ctx context.Context, key cache.ObjectName, pod *corev1.Pod, extent extent) error {
	if translate.Ran(&pod.Status) {
		return nil
	}
	if age := p.clock.Since(pod.CreationTimestamp.Time); age < twinGrace {
		p.queue.AddAfter(key, twinGrace-age)
		return nil
	}
	return p.publish(ctx, pod, translate.Refused(pod, v1alpha1.ReasonOffloadingBackOff, extent.message))
}

// awaitHome tells a pod that waits what for. It cannot be led home later on: its
// volumes and names stay as they are made. One that ran keeps its last status.
func (p *Pods) awaitHome(ctx context.Context, pod *corev1.Pod) error {
	if translate.Ran(&pod.Status) {
		return nil
	}
	return p.publish(ctx, pod, translate.Refused(pod, v1alpha1.ReasonOffloadingBackOff, fmt.Sprintf(
		"there is no address yet by which %s reaches this cluster's API server: see the condition Networking of the ForeignCluster, and its events", p.provider)))
}

// create asks the provider for the pod. A refusal becomes the pod's status
// and is tried again: what the provider allows changes.
func (p *Pods) create(ctx context.Context, key cache.ObjectName, pod *corev1.Pod, t *twin) error {
	to := p.destination()
	if _, ok := p.homeThere(p.to.ConsumerAPI); !ok && translate.ReachesConsumerAPI(pod, to) {
		return p.awaitHome(ctx, pod)
	}
	claims, err := p.remoteClaims(ctx, pod, t.remote)
	if err != nil {
		return p.awaitClaims(ctx, pod, err)
	}
	wanted := translate.ShadowPod(pod, t.remote, to, p.patch())
	translate.UseRemoteClaims(wanted, pod, claims)
	// They are for pods that are there.
	wanted.Spec.Pod.EphemeralContainers = nil
	created, err := p.remote.Federation.FederationV1alpha1().ShadowPods(t.remote).Create(ctx, wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		created, err = p.remote.Federation.FederationV1alpha1().ShadowPods(t.remote).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && !p.owns(created) {
			message := fmt.Sprintf("namespace %s of %s has a ShadowPod of this name that does not belong to %s", t.remote, p.provider, p.nodeName)
			p.queue.AddAfter(key, conflictRetry)
			return p.refuse(ctx, pod, ReasonProviderConflict, message)
		}
	}
	if err != nil {
		return p.refused(ctx, pod, err)
	}
	// The cache may have seen it before we did; its event then came too early
	// to clear what is stored here.
	trimmed, _ := trimShadowPod(created)
	p.states.change(key, func(s *podState) {
		s.shadow.created = &creation{trimmed.(*v1alpha1.ShadowPod), p.clock.Now()}
	})
	p.queue.AddAfter(key, unseenPatience)
	if t.shadow(key.Name) != nil {
		p.states.change(key, func(s *podState) { s.shadow.created = nil })
	}
	p.accepted(key)
	p.states.change(key, func(s *podState) {
		if !s.local.offloaded && !s.local.boundAt.IsZero() {
			p.metrics.offloadSeconds.Observe(p.clock.Since(s.local.boundAt).Seconds())
		}
		s.local.offloaded = true
	})
	klog.FromContext(ctx).V(2).Info("Created shadow pod", "shadowPod", klog.KObj(created))
	// Its containers wait for them.
	return p.keepTokens(ctx, key, pod, created, t)
}

// owns tells whether a shadow pod is one of this virtual node's.
func (p *Pods) owns(shadow *v1alpha1.ShadowPod) bool {
	for name, value := range p.to.Labels() {
		if shadow.Labels[name] != value {
			return false
		}
	}
	return true
}

// refusedParts are what the provider does not take of a change: ephemeral
// containers, and why, and why it does not resize the pod.
type refusedParts struct {
	containers []corev1.EphemeralContainer
	message    string
	resize     error
}

// update brings what changed in a running pod to the provider. Ephemeral
// containers that it refuses for good are told apart, and those that it forbids
// are tried again, as is a size that it refuses: none keeps everything else from
// getting through, and a pod never loses containers again.
func (p *Pods) update(ctx context.Context, pod *corev1.Pod, seen *v1alpha1.ShadowPod) (refusedParts, error) {
	key := cache.MetaObjectToName(pod)
	wanted := translate.ShadowPod(pod, seen.Namespace, p.destination(), p.patch())
	if !translate.UpdateShadowPod(seen.DeepCopy(), wanted) {
		p.states.unblock(key, overQuota)
		return refusedParts{}, nil
	}
	added, err := p.send(ctx, seen, wanted)
	if err != nil && remote.Refused(err) && translate.Resizes(seen, wanted) {
		tooMuch := err
		translate.KeepResources(wanted)
		if added, err = p.send(ctx, seen, wanted); err == nil {
			if apierrors.HasStatusCause(tooMuch, v1alpha1.CauseGrantExceeded) {
				p.states.block(key, overQuota)
			}
			return refusedParts{resize: tooMuch}, fmt.Errorf("resizing the shadow pod on %s: %w", p.provider, tooMuch)
		}
	}
	switch {
	case err == nil:
		p.accepted(key)
		return refusedParts{}, nil
	case remote.Refused(err):
		message := translate.Message(fmt.Sprintf("%s refuses the change of the pod: %v", p.provider, err))
		p.recorder.Event(pod, corev1.EventTypeWarning, v1alpha1.ReasonProviderRefused, message)
		switch {
		case len(added) == 0:
		case !apierrors.IsForbidden(err):
			return refusedParts{containers: added, message: message}, nil
		default:
			// It may be allowed in a moment, as when a role is bound anew; or never, by
			// somebody's webhook.
			wanted.Spec.Pod.EphemeralContainers = nil
			_, others := p.send(ctx, seen, wanted)
			err = errors.Join(err, others)
		}
	}
	return refusedParts{}, fmt.Errorf("updating the shadow pod on %s: %w", p.provider, err)
}

// send makes a shadow pod as it is now the wanted one, if it is the one that was
// seen. It returns the ephemeral containers that are new to it.
func (p *Pods) send(ctx context.Context, seen, wanted *v1alpha1.ShadowPod) (added []corev1.EphemeralContainer, err error) {
	client := p.remote.Federation.FederationV1alpha1().ShadowPods(seen.Namespace)
	live, err := client.Get(ctx, seen.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	added = translate.MissingEphemeralContainers(live, wanted)
	if live.UID == seen.UID && translate.UpdateShadowPod(live, wanted) {
		_, err = client.Update(ctx, live, metav1.UpdateOptions{})
	}
	return added, err
}

// deferResize tells a pod that the provider does not resize it, and why. Room may
// come; what is refused otherwise is not for want of it.
func (p *Pods) deferResize(pod *corev1.Pod, status *corev1.PodStatus, err error) {
	event, why, message := v1alpha1.ReasonProviderRefused, corev1.PodReasonInfeasible, fmt.Sprintf("%s refuses to resize the pod: %v", p.provider, err)
	if apierrors.HasStatusCause(err, v1alpha1.CauseGrantExceeded) {
		event, why, message = ReasonGrantExceeded, corev1.PodReasonDeferred, fmt.Sprintf("%s has no room to resize the pod: %v", p.provider, err)
	}
	if translate.DeferResize(status, pod, why, message, p.now()) {
		p.recorder.Event(pod, corev1.EventTypeWarning, event, translate.Message(message))
	}
}

// refused makes an answer that no retry will change into the pod's status;
// the retries go on, since the provider may change its mind.
func (p *Pods) refused(ctx context.Context, pod *corev1.Pod, err error) error {
	var told error
	switch key := cache.MetaObjectToName(pod); {
	case apierrors.HasStatusCause(err, v1alpha1.CauseGrantExceeded):
		p.states.block(key, overQuota)
		told = p.refuse(ctx, pod, ReasonGrantExceeded, fmt.Sprintf("%s has no room for the pod: %v", p.provider, err))
	case apierrors.HasStatusCause(err, v1alpha1.CauseTooManyFinished) && p.tidy(ctx):
		// It is not its owner's to do anything.
		p.states.block(key, tooManyFinished)
		p.queue.AddAfter(key, lookAgain)
		return nil
	case remote.Refused(err):
		told = p.refuse(ctx, pod, v1alpha1.ReasonProviderRefused, fmt.Sprintf("%s refuses the pod: %v", p.provider, err))
	}
	return errors.Join(fmt.Errorf("creating the shadow pod on %s: %w", p.provider, err), told)
}

func (p *Pods) refuse(ctx context.Context, pod *corev1.Pod, reason, message string) error {
	status := translate.Refused(pod, reason, message)
	if pod.Status.Reason != status.Reason || pod.Status.Message != status.Message {
		p.recorder.Event(pod, corev1.EventTypeWarning, reason, status.Message)
	}
	return p.publish(ctx, pod, status)
}

// notForDaemonSets is what to tell the owner of a DaemonSet whose pods
// tolerate everything.
func notForDaemonSets(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		return "; keep the DaemonSet off virtual nodes with a node affinity: " + v1alpha1.LabelType + " NotIn [" + v1alpha1.TypeVirtualNode + "]"
	}
	return ""
}

func (p *Pods) now() metav1.Time { return metav1.NewTime(p.clock.Now()) }
