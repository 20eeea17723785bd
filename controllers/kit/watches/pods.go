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

// Pods are watches of pods, each of one node or of one namespace. They cache the identity of
// each pod, its node, addresses and phase, and whether it mounts a token that the virtual
// kubelet may forward.
type Pods struct {
	set
	ofNodes   bool
	listeners []func(of string, pod *corev1.Pod)
	counter   PodCounter
}

// PodCounter counts pods of watched nodes or namespaces.
type PodCounter interface {
	// Counts reports whether a pod is counted.
	Counts(pod *corev1.Pod) bool
	// Count is called with 1 when a pod becomes one that is counted, and with -1 when it is deleted or
	// no longer counted. Calls have the order of the events.
	Count(of string, pod *corev1.Pod, by int)
}

// PodsOfNodes returns watches of the pods of nodes.
func PodsOfNodes(client kubernetes.Interface) *Pods {
	return &Pods{set: newSet(client), ofNodes: true}
}

// PodsOfNamespaces returns watches of the pods of namespaces that have a node.
func PodsOfNamespaces(client kubernetes.Interface) *Pods {
	return &Pods{set: newSet(client)}
}

// Listen adds a function that is called with a node or namespace and a pod of it that was created or
// deleted, or whose node, addresses, phase or deletion changed. It must be called before any watch
// is started.
func (p *Pods) Listen(changed func(of string, pod *corev1.Pod)) {
	p.listeners = append(p.listeners, changed)
}

// Count sets the counter. It must be called before any watch is started.
func (p *Pods) Count(counter PodCounter) { p.counter = counter }

// Synced reports whether all pods of a node or namespace are cached.
func (p *Pods) Synced(of string) bool { return p.find(of).synced() }

// List returns the cached pods of a node or namespace, and reports whether all are cached. The first
// call starts the watch, which ends with the context.
func (p *Pods) List(ctx context.Context, of string) (pods []*corev1.Pod, complete bool, err error) {
	if _, _, err := p.begin(ctx, of, podContent{p}); err != nil {
		return nil, false, err
	}
	pods, complete = p.Seen(of)
	return pods, complete, nil
}

// Seen is List without starting a watch: for a node or namespace that is not watched it returns no pods.
func (p *Pods) Seen(of string) (pods []*corev1.Pod, complete bool) {
	watch := p.find(of)
	if !watch.synced() {
		return nil, false
	}
	// Listing a cache fails only with an invalid selector.
	pods, err := watch.factory.Core().V1().Pods().Lister().List(labels.Everything())
	return pods, err == nil
}

// Get returns a pod of a node or namespace that is watched; nil if none is cached.
func (p *Pods) Get(of, namespace, name string) *corev1.Pod {
	watch := p.find(of)
	if watch == nil {
		return nil
	}
	// A cache fails only with NotFound.
	pod, _ := watch.factory.Core().V1().Pods().Lister().Pods(namespace).Get(name)
	return pod
}

// podContent has the options, informers and handler of Pods.
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

// podChanges handles the changes of the pods of a node or namespace.
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
	// With another UID, the events in between were missed.
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

// podOf returns the pod of an event, or of a missed deletion.
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

// trimPod returns the fields of a pod that are cached.
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

// tokenVolumes replaces the volumes of all pods that mount a token.
var tokenVolumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
	Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}},
}}}}
