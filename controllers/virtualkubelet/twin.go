// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/virtualkubelet/reflect"
	"liqo.io/federation/generated/clientset/versioned"
	federationinformers "liqo.io/federation/generated/informers/externalversions/federation/v1alpha1"
)

// RemoteClients are the provider's APIs, as far as a peer may use them.
type RemoteClients struct {
	Core       kubernetes.Interface
	Federation versioned.Interface
}

// twin mirrors what this node has in one twin namespace: shadow pods and the
// pods made of them.
type twin struct {
	local, remote string
	pods, shadows cache.SharedIndexInformer
	stop          context.CancelFunc
}

// twinEvents is told what happens in a twin namespace. The key is that of the
// local pod.
type twinEvents struct {
	shadow func(key cache.ObjectName)
	// pod has the pod as it is now; nil when it is gone.
	pod    func(key cache.ObjectName, pod *corev1.Pod)
	synced func(namespace string)
}

// startTwin watches a twin namespace until it is stopped or the context ends.
func startTwin(ctx context.Context, clients RemoteClients, mapping v1alpha1.NamespaceMapping, to reflect.Destination, events twinEvents) (*twin, error) {
	selector := labels.SelectorFromSet(to.Labels()).String()
	own := func(options *metav1.ListOptions) { options.LabelSelector = selector }
	t := &twin{
		local:   mapping.Name,
		remote:  mapping.RemoteName,
		pods:    corev1informers.NewFilteredPodInformer(clients.Core, mapping.RemoteName, 0, cache.Indexers{}, own),
		shadows: federationinformers.NewFilteredShadowPodInformer(clients.Federation, mapping.RemoteName, 0, cache.Indexers{}, own),
	}
	if err := t.observe(events); err != nil {
		return nil, err
	}
	ctx, t.stop = context.WithCancel(ctx)
	go t.pods.RunWithContext(ctx)
	go t.shadows.RunWithContext(ctx)
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), t.pods.HasSynced, t.shadows.HasSynced) {
			events.synced(t.local)
		}
	}()
	return t, nil
}

func (t *twin) observe(events twinEvents) error {
	if err := t.pods.SetTransform(trimRemotePod); err != nil {
		return err
	}
	if err := t.shadows.SetTransform(trimShadowPod); err != nil {
		return err
	}
	pod := func(obj any) {
		if p, ok := obj.(*corev1.Pod); ok {
			events.pod(t.key(p.Name), p)
		}
	}
	_, err := t.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    pod,
		UpdateFunc: func(_, obj any) { pod(obj) },
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				events.pod(t.key(name.Name), nil)
			}
		},
	})
	if err != nil {
		return err
	}
	shadow := func(obj any) {
		if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			events.shadow(t.key(name.Name))
		}
	}
	_, err = t.shadows.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    shadow,
		UpdateFunc: func(_, obj any) { shadow(obj) },
		DeleteFunc: shadow,
	})
	return err
}

// key is that of the local pod of a name in the twin namespace.
func (t *twin) key(name string) cache.ObjectName { return cache.NewObjectName(t.local, name) }

func (t *twin) synced() bool { return t.pods.HasSynced() && t.shadows.HasSynced() }

func (t *twin) shadow(name string) *v1alpha1.ShadowPod {
	return lookup[*v1alpha1.ShadowPod](t.shadows.GetStore(), t.remote, name)
}

func (t *twin) pod(name string) *corev1.Pod {
	return lookup[*corev1.Pod](t.pods.GetStore(), t.remote, name)
}

func lookup[T any](store cache.Store, namespace, name string) (result T) {
	// A store of an informer returns no errors.
	if obj, exists, _ := store.GetByKey(cache.NewObjectName(namespace, name).String()); exists {
		result, _ = obj.(T)
	}
	return result
}
