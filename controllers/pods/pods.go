// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pods watches the pods of some nodes or of some namespaces, and of no
// others.
package pods

import (
	"context"
	"slices"
	"sync"

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

// Watches are watches of pods, each of one node or of one namespace. Of each
// pod they keep what tells who it is, where it is, by which addresses, whether it
// has finished and whether it mounts tokens that may leave the cluster.
type Watches struct {
	client    kubernetes.Interface
	narrow    func(of string) []kubeinformers.SharedInformerOption
	listeners []func(of string, pod *corev1.Pod)
	counts    func(pod *corev1.Pod) bool
	counted   func(of string, pod *corev1.Pod, by int)

	mu  sync.Mutex
	all map[string]watch
}

type watch struct {
	informers kubeinformers.SharedInformerFactory
	stop      context.CancelFunc
}

// OfNodes makes watches of the pods of nodes.
func OfNodes(client kubernetes.Interface) *Watches {
	return &Watches{client: client, all: map[string]watch{}, narrow: func(node string) []kubeinformers.SharedInformerOption {
		return []kubeinformers.SharedInformerOption{only(fields.OneTermEqualSelector("spec.nodeName", node))}
	}}
}

// OfNamespaces makes watches of the pods of namespaces that have a node.
func OfNamespaces(client kubernetes.Interface) *Watches {
	return &Watches{client: client, all: map[string]watch{}, narrow: func(namespace string) []kubeinformers.SharedInformerOption {
		return []kubeinformers.SharedInformerOption{kubeinformers.WithNamespace(namespace), only(fields.OneTermNotEqualSelector("spec.nodeName", ""))}
	}}
}

func only(selector fields.Selector) kubeinformers.SharedInformerOption {
	return kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) { options.FieldSelector = selector.String() })
}

// Listen has a function called with a node or namespace and a pod of it that
// came, went, was given a node or other addresses, ended or is to end. Several may
// listen. They are given before anything is watched.
func (w *Watches) Listen(heard func(of string, pod *corev1.Pod)) {
	w.listeners = append(w.listeners, heard)
}

// Count has a function called with 1 for each pod that begins to count, and
// with -1 for each that does so no more or is gone, in order. It is given before
// anything is watched.
func (w *Watches) Count(counts func(pod *corev1.Pod) bool, counted func(of string, pod *corev1.Pod, by int)) {
	w.counts, w.counted = counts, counted
}

// Synced tells whether all pods of a node or namespace are known.
func (w *Watches) Synced(of string) bool {
	w.mu.Lock()
	watch, ok := w.all[of]
	w.mu.Unlock()
	return ok && watch.informers.Core().V1().Pods().Informer().HasSynced()
}

// List lists the pods of a node or namespace, and tells whether that is
// complete. The first call begins to watch, until the context ends.
func (w *Watches) List(ctx context.Context, of string) (pods []*corev1.Pod, complete bool, err error) {
	if err := w.begin(ctx, of); err != nil {
		return nil, false, err
	}
	pods, complete = w.Seen(of)
	return pods, complete, nil
}

// Seen is List for what is watched already; of anything else nothing is known.
func (w *Watches) Seen(of string) (pods []*corev1.Pod, complete bool) {
	w.mu.Lock()
	watch, ok := w.all[of]
	w.mu.Unlock()
	if !ok || !watch.informers.Core().V1().Pods().Informer().HasSynced() {
		return nil, false
	}
	// Listing a cache fails only with a selector that cannot be read.
	pods, err := watch.informers.Core().V1().Pods().Lister().List(labels.Everything())
	return pods, err == nil
}

// Get is a pod of a node or namespace that is watched already; nil if it has no
// such pod, or none is known.
func (w *Watches) Get(of, namespace, name string) *corev1.Pod {
	w.mu.Lock()
	watch, ok := w.all[of]
	w.mu.Unlock()
	if !ok {
		return nil
	}
	// A lister of an informer has no error but that there is none.
	pod, _ := watch.informers.Core().V1().Pods().Lister().Pods(namespace).Get(name)
	return pod
}

func (w *Watches) begin(ctx context.Context, of string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.all[of]; ok {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	options := append(w.narrow(of), kubeinformers.WithTransform(trim))
	begun := watch{stop: stop, informers: kubeinformers.NewSharedInformerFactoryWithOptions(w.client, 0, options...)}
	if _, err := begun.informers.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(pod any) {
			w.tell(of, pod)
			w.count(of, pod, 1)
		},
		UpdateFunc: func(old, current any) {
			before, now := old.(*corev1.Pod), current.(*corev1.Pod)
			// With another UID, the events in between were missed.
			if w.counts != nil && (before.UID != now.UID || w.counts(before) != w.counts(now)) {
				w.count(of, before, -1)
				w.count(of, now, 1)
			}
			if differ(before, now) {
				w.tell(of, now)
			}
		},
		DeleteFunc: func(pod any) {
			w.tell(of, pod)
			w.count(of, pod, -1)
		},
	}); err != nil {
		stop()
		return err
	}
	w.all[of] = begun
	begun.informers.StartWithContext(ctx)
	return nil
}

func (w *Watches) tell(of string, object any) {
	if pod := podOf(object); pod != nil {
		for _, heard := range w.listeners {
			heard(of, pod)
		}
	}
}

func (w *Watches) count(of string, object any, by int) {
	if pod := podOf(object); pod != nil && w.counts != nil && w.counts(pod) {
		w.counted(of, pod, by)
	}
}

// podOf is the pod of an event, also of a deletion that was missed.
func podOf(object any) *corev1.Pod {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	pod, _ := object.(*corev1.Pod)
	return pod
}

// Forget ends watching the pods of a node or namespace.
func (w *Watches) Forget(of string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if watch, ok := w.all[of]; ok {
		watch.stop()
		delete(w.all, of)
	}
}

func differ(old, current *corev1.Pod) bool {
	return old.UID != current.UID || old.Spec.NodeName != current.Spec.NodeName || old.Status.Phase != current.Status.Phase ||
		old.DeletionTimestamp.IsZero() != current.DeletionTimestamp.IsZero() || !slices.Equal(old.Status.PodIPs, current.Status.PodIPs)
}

func trim(object any) (any, error) {
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
		trimmed.Spec.Volumes = token
	}
	return trimmed, nil
}

// token stands for the volumes of all pods that mount a token.
var token = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
	Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}},
}}}}
