// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// warn tells a pod what the provider warns of about its copy there, or about
// its shadow pod, as that a change of it is refused. The recorder counts what
// is said again, and lets through 25 warnings a pod at once and one every five
// minutes after that; what all pods together may cost is bounded here.
func (p *Pods) warn(key cache.ObjectName, event *corev1.Event) {
	pod, err := p.lister.Pods(key.Namespace).Get(key.Name)
	if err != nil || !translate.AboutPod(event) || !p.about(key, pod, event) {
		return
	}
	if reason, message, ok := translate.Warning(event, p.provider); ok && p.warnings.TryAccept() {
		p.recorder.Event(pod, corev1.EventTypeWarning, reason, message)
	}
}

// about tells whether an event is about the copy of a pod or its shadow pod,
// and not about one that had its name before. The copy may not have been seen
// yet.
func (p *Pods) about(key cache.ObjectName, pod *corev1.Pod, event *corev1.Event) bool {
	t := p.twins.extent(key.Namespace).twin
	if t == nil {
		return false
	}
	shadow := p.shadow(t, key)
	if event.InvolvedObject.Kind == translate.KindShadowPod {
		return shadow != nil && shadow.UID == event.InvolvedObject.UID && translate.OriginUID(shadow) == pod.UID
	}
	if remote := t.pod(key.Name); remote != nil {
		return remote.UID == event.InvolvedObject.UID && remote.OriginUID == pod.UID
	}
	return shadow != nil && translate.OriginUID(shadow) == pod.UID
}
