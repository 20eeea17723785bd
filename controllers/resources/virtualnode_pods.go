// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// nodePods watches the pods of virtual nodes, and of no other node. Of each
// pod it keeps what tells whether it is there and whether it has finished.
type nodePods struct {
	client  kubernetes.Interface
	changed func(node string)

	mu    sync.Mutex
	nodes map[string]*podWatch
}

type podWatch struct {
	informers kubeinformers.SharedInformerFactory
	stop      context.CancelFunc
}

func newNodePods(client kubernetes.Interface, changed func(node string)) *nodePods {
	return &nodePods{client: client, changed: changed, nodes: map[string]*podWatch{}}
}

// pods lists the pods of a node, and tells whether the list is complete.
// The first call begins to watch; changed is called when there is news.
func (n *nodePods) pods(ctx context.Context, node string) ([]*corev1.Pod, bool, error) {
	watch, err := n.watch(ctx, node)
	if err != nil {
		return nil, false, err
	}
	pods := watch.informers.Core().V1().Pods()
	if !pods.Informer().HasSynced() {
		return nil, false, nil
	}
	list, err := pods.Lister().List(labels.Everything())
	return list, true, err
}

func (n *nodePods) watch(ctx context.Context, node string) (*podWatch, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if watch, ok := n.nodes[node]; ok {
		return watch, nil
	}
	ctx, stop := context.WithCancel(ctx)
	watch := &podWatch{
		stop: stop,
		informers: kubeinformers.NewSharedInformerFactoryWithOptions(n.client, 0,
			kubeinformers.WithTransform(trimPod),
			kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) {
				options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
			})),
	}
	news := func(any) { n.changed(node) }
	if _, err := watch.informers.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: news, UpdateFunc: func(_, object any) { news(object) }, DeleteFunc: news,
	}); err != nil {
		stop()
		return nil, err
	}
	n.nodes[node] = watch
	watch.informers.StartWithContext(ctx)
	return watch, nil
}

// forget ends watching a node that is gone.
func (n *nodePods) forget(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if watch, ok := n.nodes[node]; ok {
		watch.stop()
		delete(n.nodes, node)
	}
}

func trimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			ResourceVersion: pod.ResourceVersion, DeletionTimestamp: pod.DeletionTimestamp,
		},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}, nil
}
