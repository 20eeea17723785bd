// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// warn records a warning that the provider emitted about a remote pod or a shadow pod on the local pod. The recorder
// limits the warnings per pod (25, then one per five minutes), and Config.Warnings the warnings of all pods.
func (c *Controller) warn(key cache.ObjectName, event *corev1.Event) {
	pod, err := c.Lister.Pods(key.Namespace).Get(key.Name)
	if err != nil || !translate.AboutPod(event) || !c.about(key, pod, event) {
		return
	}
	if reason, message, ok := translate.Warning(event, c.Provider); ok && c.Warnings.TryAccept() {
		c.Recorder.Event(pod, corev1.EventTypeWarning, reason, message)
	}
}

// about reports whether an event is about the remote pod or the shadow pod of a local pod, and not about an earlier one
// of the same name. While the remote pod is not cached, about does not compare the UID in an event about a pod; it
// returns true if the cached shadow pod names the UID of the local pod.
func (c *Controller) about(key cache.ObjectName, pod *corev1.Pod, event *corev1.Event) bool {
	t := c.Namespaces.State(key.Namespace).Namespace
	if t == nil {
		return false
	}
	shadow := c.shadow(t, key)
	if event.InvolvedObject.Kind == translate.KindShadowPod {
		return shadow != nil && shadow.UID == event.InvolvedObject.UID && translate.OriginUID(shadow) == pod.UID
	}
	if remote := t.Pod(key.Name); remote != nil {
		return remote.UID == event.InvolvedObject.UID && remote.OriginUID == pod.UID
	}
	return shadow != nil && translate.OriginUID(shadow) == pod.UID
}
