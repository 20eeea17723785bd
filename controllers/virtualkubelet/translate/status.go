// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// ReasonRecreating of the condition Ready of a pod means that the remote pod ended or is gone, and is created again.
const ReasonRecreating = "Recreating"

// reasonReadinessGatesNotReady of the condition Ready of a pod means that a readiness gate of the local pod is not
// True. Check the controller of the readiness gate.
const reasonReadinessGatesNotReady = "ReadinessGatesNotReady"

// reasonRunsOnProvider of the condition offloading.liqo.io/Offloaded of a pod means that the provider runs the pod. The
// message contains the UID of the remote pod.
const reasonRunsOnProvider = "RunsOnProvider"

// RemotePod is a remote pod as it is cached, without its specification.
type RemotePod struct {
	metav1.ObjectMeta
	// OriginUID is the UID of the local pod; empty if the remote pod names none.
	OriginUID types.UID
	Status    corev1.PodStatus
}

// PodStatus returns the status of a local pod from its shadow pod and its remote pod; both may be nil. The status of a
// finished pod does not change, restart counters never decrease, and the provider's texts are bounded. The result
// shares no memory with the arguments.
func PodStatus(
	local *corev1.Pod,
	shadow *v1alpha1.ShadowPod,
	remote *RemotePod,
	nodeIP string,
	now metav1.Time,
) corev1.PodStatus {
	status := *local.Status.DeepCopy()
	switch {
	case Terminal(status.Phase):
	case shadow != nil && Terminal(shadow.Status.Phase):
		finish(&status, local, shadow, remote, now)
	case remote == nil || !isReported(&remote.Status):
		applyMissing(&status, shadow, remote, now)
	case Terminal(remote.Status.Phase):
		// The status of the shadow pod will state whether the pod has finished or is created again. Until then, a pod that
		// always restarts is not ready.
		if local.Spec.RestartPolicy == corev1.RestartPolicyAlways {
			notReady(&status, ReasonRecreating, "the remote pod has ended", now)
		}
	default:
		history := historyOf(&status)
		history.observe(remote.UID, &status)
		apply(&status, local, &remote.Status, history, now)
		history.store(&status, now)
		status.HostIP = nodeIP
		status.HostIPs = []corev1.HostIP{{IP: nodeIP}}
		if remote.Status.Phase == corev1.PodRunning {
			status.Phase = corev1.PodRunning
		}
	}
	if shadow != nil && !Terminal(status.Phase) {
		if refused := meta.FindStatusCondition(
			shadow.Status.Conditions,
			v1alpha1.ConditionPodResized,
		); refused != nil &&
			refused.Status == metav1.ConditionFalse {
			DeferResize(&status, local, corev1.PodReasonInfeasible, refused.Message, now)
		}
	}
	return status
}

// finish copies the phase of a finished shadow pod and the last status of its remote pod to the status of the local
// pod.
func finish(
	status *corev1.PodStatus,
	local *corev1.Pod,
	shadow *v1alpha1.ShadowPod,
	remote *RemotePod,
	now metav1.Time,
) {
	last := shadow.Status.Pod
	if last == nil && remote != nil {
		last = &remote.Status
	}
	if last != nil {
		history := historyOf(status)
		if remote != nil {
			history.observe(remote.UID, status)
		}
		apply(status, local, last, history, now)
		setDisrupted(status, local, last.Conditions, now)
	}
	status.Phase = shadow.Status.Phase
	if ready := condition(status, corev1.PodReady); ready == nil || ready.Status == corev1.ConditionTrue {
		why := "PodFailed"
		if status.Phase == corev1.PodSucceeded {
			why = "PodCompleted"
		}
		notReady(status, why, "", now)
	}
}

// setDisrupted copies the condition DisruptionTarget, which for example an eviction sets, from the conditions of a
// remote pod to the status of a local pod that ended, for the pod failure policy of a Job. It is not for a pod whose
// remote pod is created again, because the condition would remain.
func setDisrupted(status *corev1.PodStatus, local *corev1.Pod, from []corev1.PodCondition, now metav1.Time) {
	i := slices.IndexFunc(from, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
	if i >= 0 {
		setCondition(status, disruption(local, from[i].Reason, from[i].Message), now)
	}
}

// Disrupted returns the status of a local pod with the condition DisruptionTarget, whose reason is why. It is written
// before the pod is deleted because of a failure of the provider.
func Disrupted(local *corev1.Pod, why, message string, now metav1.Time) corev1.PodStatus {
	status := *local.Status.DeepCopy()
	setCondition(&status, disruption(local, why, message), now)
	return status
}

func disruption(local *corev1.Pod, why, message string) corev1.PodCondition {
	return corev1.PodCondition{
		Type:               corev1.DisruptionTarget,
		Status:             corev1.ConditionTrue,
		Reason:             reason(why),
		Message:            text(message),
		ObservedGeneration: local.Generation,
	}
}

// isReported reports whether a kubelet of the provider has written the status.
func isReported(status *corev1.PodStatus) bool {
	return status.StartTime != nil || len(status.ContainerStatuses) > 0 ||
		status.Phase != corev1.PodPending && status.Phase != ""
}

// Terminal reports whether a phase is Succeeded or Failed.
func Terminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// Ran reports whether a container of the pod was ever started.
func Ran(status *corev1.PodStatus) bool {
	started := func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
	}
	return status.Phase == corev1.PodRunning ||
		slices.ContainsFunc(status.ContainerStatuses, started) || slices.ContainsFunc(
		status.InitContainerStatuses, started,
	)
}

// NotOffloaded returns the status of a pod whose namespace is not offloaded to the provider. A pod that never ran
// waits. A pod that ran is not ready while evictable is true, which means that it may still be evicted, and has failed
// otherwise.
func NotOffloaded(local *corev1.Pod, message string, evictable bool, now metav1.Time) corev1.PodStatus {
	switch {
	case !Ran(&local.Status):
		return Refused(local, v1alpha1.ReasonOffloadingBackOff, message)
	case !evictable:
		return Failed(local, v1alpha1.ReasonOffloadingAborted, message, now)
	}
	status := Refused(local, v1alpha1.ReasonOffloadingAborted, message)
	if !Terminal(status.Phase) {
		notReady(&status, status.Reason, status.Message, now)
	}
	return status
}

// Refused returns the status of a pod that cannot start on the provider, with the reason and the message. The status of
// a finished pod does not change.
func Refused(local *corev1.Pod, why, message string) corev1.PodStatus {
	status := *local.Status.DeepCopy()
	if !Terminal(status.Phase) {
		status.Reason, status.Message = reason(why), text(message)
	}
	return status
}

// Failed returns the status of a pod that failed because it can no longer run, with the reason and the message.
func Failed(local *corev1.Pod, why, message string, now metav1.Time) corev1.PodStatus {
	status := Refused(local, why, message)
	if !Terminal(status.Phase) {
		status.Phase = corev1.PodFailed
		notReady(&status, reason(why), text(message), now)
	}
	return status
}

// applyMissing updates the status of a pod whose remote pod does not exist, or is not run by a kubelet yet.
func applyMissing(status *corev1.PodStatus, shadow *v1alpha1.ShadowPod, remote *RemotePod, now metav1.Time) {
	if shadow != nil {
		// A reason from before the shadow pod was created no longer applies.
		status.Reason, status.Message = "", ""
		refused := meta.FindStatusCondition(shadow.Status.Conditions, v1alpha1.ConditionPodCreated)
		if refused != nil && refused.Status == metav1.ConditionFalse {
			status.Reason, status.Message = reason(refused.Reason), text(refused.Message)
		}
	}
	if Ran(status) {
		setRecreating(status, now)
	}
	dropResizing(status, nil)
	if remote == nil {
		return
	}
	for _, c := range remote.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			notReady(status, reason(c.Reason), text(c.Message), now)
		}
	}
}

// setRecreating updates the status of a pod that ran and whose remote pod was deleted and will be created again.
func setRecreating(status *corev1.PodStatus, now metav1.Time) {
	const message = "the provider creates the remote pod again"
	for _, containers := range [][]corev1.ContainerStatus{
		status.ContainerStatuses, status.InitContainerStatuses, status.EphemeralContainerStatuses,
	} {
		for i := range containers {
			if c := &containers[i]; c.State.Running != nil {
				c.State = corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: ReasonRecreating, Message: message},
				}
				c.Ready, c.Started = false, new(bool)
			}
		}
	}
	notReady(status, ReasonRecreating, message, now)
}

// apply copies the parts of a remote pod's status that have a meaning for the local pod.
func apply(
	status *corev1.PodStatus, local *corev1.Pod, reported *corev1.PodStatus, history *restartHistory,
	now metav1.Time,
) {
	from := reported.DeepCopy()
	status.ObservedGeneration = local.Generation
	status.Reason, status.Message = reason(from.Reason), text(from.Message)
	if from.StartTime != nil {
		status.StartTime = from.StartTime
	}
	if ips := addresses(from); len(ips) > 0 {
		status.PodIP, status.PodIPs = ips[0].IP, ips
	}
	boundedPodAmounts(status, local, from)
	again := func(container *corev1.Container, exitCode int32) bool {
		return mayRestart(&local.Spec, container, exitCode)
	}
	never := func(*corev1.Container, int32) bool { return false }
	status.InitContainerStatuses = containers(
		local.Spec.InitContainers,
		again,
		status.InitContainerStatuses,
		from.InitContainerStatuses,
		history,
	)
	status.ContainerStatuses = containers(
		local.Spec.Containers,
		again,
		status.ContainerStatuses,
		from.ContainerStatuses,
		history,
	)
	status.EphemeralContainerStatuses = containers(ephemeral(local.Spec.EphemeralContainers), never,
		status.EphemeralContainerStatuses, from.EphemeralContainerStatuses, history)
	conditions(status, local, from.Conditions, now)
}

// containers returns the statuses of the local pod's containers. A container that ended and may not restart keeps its
// status, because the API server refuses a status in which it runs again.
func containers(
	specs []corev1.Container,
	restarts func(*corev1.Container, int32) bool,
	old, from []corev1.ContainerStatus,
	history *restartHistory,
) []corev1.ContainerStatus {
	result := make([]corev1.ContainerStatus, 0, len(specs))
	for i := range specs {
		before, after := find(old, specs[i].Name), find(from, specs[i].Name)
		ended := before != nil && before.State.Terminated != nil && !restarts(
			&specs[i], before.State.Terminated.ExitCode,
		)
		switch {
		case after == nil && before == nil:
		case after == nil, ended && after.State.Terminated == nil:
			result = append(result, *before)
		default:
			after.RestartCount = history.restarts(after, before)
			sanitise(after, &specs[i], before)
			result = append(result, *after)
		}
	}
	if len(result) == 0 {
		return nil
	}
	return result
}

func find(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	if i := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == name }); i >= 0 {
		return &statuses[i]
	}
	return nil
}

// remoteConditions are the conditions of the local pod that the provider's kubelet determines. PodScheduled is not
// among them: the local scheduler sets it.
var remoteConditions = []corev1.PodConditionType{
	corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
}

// resizing are the conditions that the provider's kubelet sets only while a pod is resized.
var resizing = []corev1.PodConditionType{corev1.PodResizePending, corev1.PodResizeInProgress}

// dropResizing removes from a status each condition in resizing that from, the conditions of the remote pod, does not
// contain.
func dropResizing(status *corev1.PodStatus, from []corev1.PodCondition) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool {
		reported := slices.ContainsFunc(from, func(f corev1.PodCondition) bool { return f.Type == c.Type })
		return slices.Contains(resizing, c.Type) && !reported
	})
}

func conditions(status *corev1.PodStatus, local *corev1.Pod, from []corev1.PodCondition, now metav1.Time) {
	dropResizing(status, from)
	for _, c := range from {
		if !slices.Contains(remoteConditions, c.Type) && !slices.Contains(resizing, c.Type) {
			continue
		}
		c.ObservedGeneration = local.Generation
		c.LastProbeTime = metav1.Time{}
		c.Reason, c.Message = reason(c.Reason), text(c.Message)
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			closeGates(&c, local)
		}
		setCondition(status, c, now)
	}
}

// closeGates sets the condition Ready to False if the condition of a readiness gate of the local pod is not True.
func closeGates(ready *corev1.PodCondition, local *corev1.Pod) {
	for _, gate := range local.Spec.ReadinessGates {
		c := condition(&local.Status, gate.ConditionType)
		if c == nil || c.Status != corev1.ConditionTrue {
			ready.Status, ready.Reason = corev1.ConditionFalse, reasonReadinessGatesNotReady
			ready.Message = "the condition of readiness gate " + string(gate.ConditionType) + " is not True"
			return
		}
	}
}

// DeferResize sets the condition PodResizePending with the reason why the provider does not resize the pod, and reports
// whether the condition changed.
func DeferResize(status *corev1.PodStatus, local *corev1.Pod, why, message string, now metav1.Time) bool {
	before := condition(&local.Status, corev1.PodResizePending)
	if before != nil && condition(status, corev1.PodResizePending) == nil {
		// With the existing condition in the status, setCondition keeps its transition time.
		status.Conditions = append(status.Conditions, *before)
	}
	setCondition(status, corev1.PodCondition{
		Type:               corev1.PodResizePending,
		Status:             corev1.ConditionTrue,
		Reason:             why,
		Message:            text(message),
		ObservedGeneration: local.Generation,
	}, now)
	return before == nil || before.Reason != why || before.Message != text(message)
}

func notReady(status *corev1.PodStatus, why, message string, now metav1.Time) {
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		setCondition(
			status,
			corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: why, Message: message},
			now,
		)
	}
}

func condition(status *corev1.PodStatus, kind corev1.PodConditionType) *corev1.PodCondition {
	if i := slices.IndexFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind }); i >= 0 {
		return &status.Conditions[i]
	}
	return nil
}

// setCondition sets a condition. Its transition time changes only with its status. Neither that time nor the observed
// generation decreases.
func setCondition(status *corev1.PodStatus, c corev1.PodCondition, now metav1.Time) {
	old := condition(status, c.Type)
	if old != nil {
		c.ObservedGeneration = max(c.ObservedGeneration, old.ObservedGeneration)
	}
	switch {
	case old != nil && old.Status == c.Status:
		c.LastTransitionTime = old.LastTransitionTime
	case c.LastTransitionTime.IsZero(), old != nil && c.LastTransitionTime.Before(&old.LastTransitionTime):
		c.LastTransitionTime = now
	}
	if old != nil {
		*old = c
		return
	}
	status.Conditions = append(status.Conditions, c)
}

// SameStatus reports whether two statuses are semantically equal.
func SameStatus(a, b *corev1.PodStatus) bool { return equality.Semantic.DeepEqual(a, b) }

// Deleted returns the final status of a pod that was deleted and whose remote pod no longer exists. The phase is
// Succeeded if all containers ended with exit code 0, and otherwise, or if no container has a status, Failed.
func Deleted(local *corev1.Pod, now metav1.Time) corev1.PodStatus {
	failed := slices.ContainsFunc(local.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Terminated == nil || s.State.Terminated.ExitCode != 0
	})
	status := *local.Status.DeepCopy()
	status.Phase = corev1.PodSucceeded
	if failed || len(local.Status.ContainerStatuses) == 0 {
		status.Phase = corev1.PodFailed
	}
	notReady(&status, "PodDeleted", "the pod was deleted", now)
	return status
}
