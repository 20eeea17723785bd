// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
)

// Pods watches the pods of single nodes, or of single namespaces. Cached pods have only the fields that trimPod keeps.
type Pods struct {
	set
	ofNodes   bool
	listeners []func(of string, pod *corev1.Pod)
	counter   PodCounter
}

// PodCounter counts the pods of each watched node or namespace.
type PodCounter interface {
	// Counts reports whether a pod is to be counted.
	Counts(pod *corev1.Pod) bool
	// Count adds by to the number of counted pods of a node or namespace. by is 1 when Counts becomes true for a pod, and
	// -1 when it becomes false or the pod is deleted. Calls have the order of the events.
	Count(of string, pod *corev1.Pod, by int)
}

// PodsOfNodes returns a Pods that watches pods by their node.
func PodsOfNodes(client kubernetes.Interface) *Pods {
	return &Pods{set: newSet(client), ofNodes: true}
}

// PodsOfNamespaces returns a Pods that watches pods by their namespace, except pods that are not bound to a node.
func PodsOfNamespaces(client kubernetes.Interface) *Pods {
	return &Pods{set: newSet(client)}
}

// Listen adds a function that is called when a pod is created or deleted, or when its node, addresses, phase or
// deletionTimestamp changes. of is the watched node or namespace. Listen must be called before any watch starts.
func (p *Pods) Listen(changed func(of string, pod *corev1.Pod)) {
	p.listeners = append(p.listeners, changed)
}

// Count sets the counter. It must be called before any watch starts.
func (p *Pods) Count(counter PodCounter) { p.counter = counter }

// Synced reports whether all pods of a node or namespace are cached. It is false if the node or namespace is not
// watched.
func (p *Pods) Synced(of string) bool { return p.find(of).synced() }

// List returns the cached pods of a node or namespace, and whether all are cached. The first call for it starts its
// watch, which ends with ctx.
func (p *Pods) List(ctx context.Context, of string) (pods []*corev1.Pod, complete bool, err error) {
	if _, _, err := p.begin(ctx, of, podContent{p}); err != nil {
		return nil, false, err
	}
	pods, complete = p.Seen(of)
	return pods, complete, nil
}

// Seen is List without starting a watch: if the node or namespace is not watched, it returns no pods and false.
func (p *Pods) Seen(of string) (pods []*corev1.Pod, complete bool) {
	watch := p.find(of)
	if !watch.synced() {
		return nil, false
	}
	// List of a cache fails only for an invalid selector.
	pods, err := watch.factory.Core().V1().Pods().Lister().List(labels.Everything())
	return pods, err == nil
}

// Get returns a cached pod of a node or namespace; nil if it is not cached, or if the node or namespace is not watched.
func (p *Pods) Get(of, namespace, name string) *corev1.Pod {
	watch := p.find(of)
	if watch == nil {
		return nil
	}
	// Get of a cache fails only with NotFound.
	pod, _ := watch.factory.Core().V1().Pods().Lister().Pods(namespace).Get(name)
	return pod
}

// podContent implements content for Pods.
type podContent struct {
	*Pods
}

func (c podContent) options(of string) []kubeinformers.SharedInformerOption {
	trimmed := kubeinformers.WithTransform(trimPod)
	if c.ofNodes {
		return []kubeinformers.SharedInformerOption{trimmed, selected(fields.OneTermEqualSelector("spec.nodeName", of))}
	}
	return []kubeinformers.SharedInformerOption{
		trimmed, kubeinformers.WithNamespace(of), selected(fields.OneTermNotEqualSelector("spec.nodeName", "")),
	}
}

func selected(selector fields.Selector) kubeinformers.SharedInformerOption {
	return kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.FieldSelector = selector.String()
	})
}

func (podContent) informers(factory kubeinformers.SharedInformerFactory) []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{factory.Core().V1().Pods().Informer()}
}

func (c podContent) handler(of string) cache.ResourceEventHandler {
	return podChanges{pods: c.Pods, of: of}
}

// podChanges handles the events of the pods of one node or namespace.
type podChanges struct {
	pods *Pods
	of   string
}

// OnAdd implements cache.ResourceEventHandler.
func (c podChanges) OnAdd(object any, _ bool) {
	c.notify(object)
	c.count(object, 1)
}

// OnUpdate implements cache.ResourceEventHandler.
func (c podChanges) OnUpdate(old, current any) {
	before, now := old.(*corev1.Pod), current.(*corev1.Pod)
	// If the UIDs differ, the pod was deleted and created again, and the watch missed these events.
	if counter := c.pods.counter; counter != nil &&
		(before.UID != now.UID || counter.Counts(before) != counter.Counts(now)) {
		c.count(before, -1)
		c.count(now, 1)
	}
	if podChanged(before, now) {
		c.notify(now)
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (c podChanges) OnDelete(object any) {
	c.notify(object)
	c.count(object, -1)
}

func (c podChanges) notify(object any) {
	if pod := podOf(object); pod != nil {
		for _, listener := range c.pods.listeners {
			listener(c.of, pod)
		}
	}
}

func (c podChanges) count(object any, by int) {
	if pod := podOf(object); pod != nil && c.pods.counter != nil && c.pods.counter.Counts(pod) {
		c.pods.counter.Count(c.of, pod, by)
	}
}

// podOf returns the pod of an event, or the last known state of a pod whose deletion the watch missed.
func podOf(object any) *corev1.Pod {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	pod, _ := object.(*corev1.Pod)
	return pod
}

func podChanged(old, current *corev1.Pod) bool {
	return old.UID != current.UID || old.Spec.NodeName != current.Spec.NodeName ||
		old.Status.Phase != current.Status.Phase ||
		old.DeletionTimestamp.IsZero() != current.DeletionTimestamp.IsZero() ||
		!slices.Equal(old.Status.PodIPs, current.Status.PodIPs)
}

// trimPod is a cache transform. Of a pod it keeps namespace, name, UID, resourceVersion, creation and deletion time,
// owners, node, ServiceAccount, addresses, phase, and the annotations corev1.MirrorPodAnnotationKey and
// v1alpha1.AnnotationAPIAccess. It replaces the volumes of a pod that mounts a token by tokenVolumes.
func trimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	trimmed := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
			OwnerReferences: pod.OwnerReferences,
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName, ServiceAccountName: pod.Spec.ServiceAccountName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, PodIPs: pod.Status.PodIPs},
	}
	for _, key := range []string{corev1.MirrorPodAnnotationKey, v1alpha1.AnnotationAPIAccess} {
		if value, ok := pod.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&trimmed.ObjectMeta, key, value)
		}
	}
	if podspec.MountsToken(pod) {
		trimmed.Spec.Volumes = tokenVolumes
	}
	return trimmed, nil
}

// tokenVolumes replaces the volumes of every cached pod that mounts a token, so that podspec.MountsToken returns true.
var tokenVolumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
	Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}},
}}}}
