// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"fmt"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// lifecycle is the pod controller's view of Pods. Its calls never fail: they
// say that a pod has to be looked at, and errors of the provider are retried
// where they happen. The pod controller would give up after some tries, and
// fail pods that never restart.
type lifecycle struct{ pods *Pods }

var (
	_ node.PodLifecycleHandler = lifecycle{}
	_ node.PodNotifier         = lifecycle{}
)

// CreatePod looks at a pod that is new here.
func (l lifecycle) CreatePod(_ context.Context, pod *corev1.Pod) error {
	l.pods.queue.Add(cache.MetaObjectToName(pod))
	return nil
}

// UpdatePod looks at a pod that has changed here.
func (l lifecycle) UpdatePod(_ context.Context, pod *corev1.Pod) error {
	l.pods.queue.Add(cache.MetaObjectToName(pod))
	return nil
}

// DeletePod looks at a pod that is going, or gone, here.
func (l lifecycle) DeletePod(_ context.Context, pod *corev1.Pod) error {
	l.pods.queue.Add(cache.MetaObjectToName(pod))
	return nil
}

// GetPod names a pod that the provider has.
func (l lifecycle) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	key := cache.NewObjectName(namespace, name)
	if t := l.pods.twins.extent(namespace).twin; t != nil && l.pods.shadow(t, key) != nil {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, nil
	}
	return nil, errdefs.NotFound(fmt.Sprintf("%s has no pod %s", l.pods.provider, key))
}

// GetPodStatus is the status of a pod as it is known here.
func (l lifecycle) GetPodStatus(_ context.Context, namespace, name string) (*corev1.PodStatus, error) {
	pod, err := l.pods.lister.Pods(namespace).Get(name)
	if err != nil {
		return nil, errdefs.AsNotFound(err)
	}
	return pod.Status.DeepCopy(), nil
}

// GetPods names the pods that the provider has, so that those without a local
// pod are looked at.
func (l lifecycle) GetPods(context.Context) ([]*corev1.Pod, error) {
	var result []*corev1.Pod
	for _, e := range l.pods.twins.all() {
		if e.twin == nil {
			continue
		}
		for _, name := range e.twin.shadows.GetStore().ListKeys() {
			if parsed, err := cache.ParseObjectName(name); err == nil {
				result = append(result, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.twin.local, Name: parsed.Name}})
			}
		}
	}
	return result, nil
}

// NotifyPods takes the function that statuses are handed to.
func (l lifecycle) NotifyPods(_ context.Context, notify func(*corev1.Pod)) { l.pods.notify = notify }

// podsGetter is the API that the pod controller writes to: statuses become
// small patches, and removing a pod is left to Pods, which knows whether the
// provider has anything left of it.
type podsGetter struct{ pods *Pods }

// Pods of a namespace.
func (g podsGetter) Pods(namespace string) v1.PodInterface {
	return podWriter{PodInterface: g.pods.local.CoreV1().Pods(namespace), pods: g.pods, namespace: namespace}
}

type podWriter struct {
	v1.PodInterface
	pods      *Pods
	namespace string
}

// UpdateStatus patches what differs.
func (w podWriter) UpdateStatus(ctx context.Context, pod *corev1.Pod, _ metav1.UpdateOptions) (*corev1.Pod, error) {
	return pod, w.pods.write(ctx, pod)
}

// Delete looks at the pod.
func (w podWriter) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	w.pods.queue.Add(cache.NewObjectName(w.namespace, name))
	return nil
}

// warnings is a recorder that passes on what went wrong: that a pod was
// created or deleted is no news to anyone.
type warnings struct{ record.EventRecorder }

// Event records a warning.
func (w warnings) Event(object runtime.Object, kind, reason, message string) {
	if kind != corev1.EventTypeNormal {
		w.EventRecorder.Event(object, kind, reason, message)
	}
}

// Eventf records a warning.
func (w warnings) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	if kind != corev1.EventTypeNormal {
		w.EventRecorder.Eventf(object, kind, reason, format, args...)
	}
}

// AnnotatedEventf records a warning.
func (w warnings) AnnotatedEventf(object runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	if kind != corev1.EventTypeNormal {
		w.EventRecorder.AnnotatedEventf(object, annotations, kind, reason, format, args...)
	}
}
