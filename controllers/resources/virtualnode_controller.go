// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/pods"
	"liqo.io/federation/controllers/queue"
)

// VirtualNodes is the controller that has virtual kubelets run, and writes down
// whose tokens they may have.
type VirtualNodes struct {
	nodes *queue.Controller[cache.ObjectName]
	// accounts holds namespaces.
	accounts *queue.Controller[string]
}

// Run works until the context ends.
func (v *VirtualNodes) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { v.nodes.Run(ctx) })
	running.Go(func() { v.accounts.Run(ctx) })
	running.Wait()
}

// NewVirtualNodes makes the controller.
func NewVirtualNodes(config *Config) (*VirtualNodes, error) {
	informers := config.FederationInformers.Federation().V1alpha1()
	nodes := config.KubeInformers.Core().V1().Nodes()
	serviceAccounts := config.ManagedInformers.Core().V1().ServiceAccounts()
	bindings := config.ManagedInformers.Rbac().V1().ClusterRoleBindings()
	deployments := config.ManagedInformers.Apps().V1().Deployments()

	r := config.virtualNodes()
	controller := queue.New("virtualnode", 2, r.reconcile)
	ofNode := func(name string) []cache.ObjectName {
		all, err := informers.VirtualNodes().Lister().List(labels.Everything())
		if err != nil {
			return nil
		}
		for _, virtual := range all {
			if virtual.Spec.NodeName == name {
				return []cache.ObjectName{{Namespace: virtual.Namespace, Name: virtual.Name}}
			}
		}
		return nil
	}
	inNamespace := func(namespace, but string) []cache.ObjectName {
		all, err := informers.VirtualNodes().Lister().VirtualNodes(namespace).List(labels.Everything())
		if err != nil {
			return nil
		}
		var keys []cache.ObjectName
		for _, virtual := range all {
			if virtual.Name != but {
				keys = append(keys, cache.ObjectName{Namespace: virtual.Namespace, Name: virtual.Name})
			}
		}
		return keys
	}
	var accounts *queue.Controller[string]
	watches := config.Pods
	watches.Listen(func(node string, _ *corev1.Pod) {
		for _, key := range ofNode(node) {
			controller.AddAfter(key, settle)
		}
	})
	uses := newAccountUses(config.Clock, watches.Synced, func(namespace string) { accounts.Add(namespace) })
	if config.VirtualKubelet.HomeServer != "" {
		watches.Count(podspec.NeedsTokens, uses.count)
	}
	r.pods, r.forgetPods = watches.List, func(node string) {
		watches.Forget(node)
		uses.forget(node)
	}
	accounts = queue.New("virtual-node-accounts", 1, config.accounts(uses).reconcile)
	ofBinding := func(object any) []cache.ObjectName {
		binding, ok := object.(*rbacv1.ClusterRoleBinding)
		if !ok || len(binding.Subjects) != 1 {
			return nil
		}
		all, err := informers.VirtualNodes().Lister().VirtualNodes(binding.Subjects[0].Namespace).List(labels.Everything())
		if err != nil {
			return nil
		}
		for _, virtual := range all {
			if bindingName(virtual) == binding.Name {
				return []cache.ObjectName{{Namespace: virtual.Namespace, Name: virtual.Name}}
			}
		}
		return nil
	}
	namespaces := config.KubeInformers.Core().V1().Namespaces()
	return &VirtualNodes{controller, accounts}, watch(
		watched{namespaces.Informer(), accounts.Handle(func(object any) []string {
			if namespace, ok := object.(*corev1.Namespace); ok {
				return []string{namespace.Name}
			}
			return nil
		})},
		watched{informers.VirtualNodes().Informer(), onAccess(func() {
			// Listing a cache fails only with a selector that cannot be read.
			all, _ := namespaces.Lister().List(labels.Everything())
			for _, namespace := range all {
				accounts.Add(namespace.Name)
			}
		})},
		// The oldest of a cluster decides for its siblings.
		watched{informers.VirtualNodes().Informer(), controller.Handle(func(object any) []cache.ObjectName {
			keys := queue.ObjectKeys(object)
			for _, key := range keys {
				keys = append(keys, inNamespace(key.Namespace, key.Name)...)
			}
			return keys
		})},
		watched{informers.ResourceOffers().Informer(), controller.Handle(func(object any) []cache.ObjectName {
			if offer, ok := object.(*v1alpha1.ResourceOffer); ok && naming.IsPeerNamespace(offer.Namespace) {
				return inNamespace(offer.Namespace, "")
			}
			return nil
		})},
		watched{informers.ForeignClusters().Informer(), cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(old, now any) {
				before, ok1 := old.(*v1alpha1.ForeignCluster)
				after, ok2 := now.(*v1alpha1.ForeignCluster)
				if ok1 && ok2 && (before.Status.Networking != after.Status.Networking || before.Spec.Networking != after.Spec.Networking || before.Spec.Cordoned != after.Spec.Cordoned) {
					for _, key := range inNamespace(naming.PeerNamespace(after.Name), "") {
						controller.Add(key)
					}
				}
			},
		}},
		watched{config.tunnels().Informer(), controller.Handle(func(object any) []cache.ObjectName {
			if tunnel, ok := object.(*v1alpha1.TunnelEndpoint); ok {
				return inNamespace(naming.PeerNamespace(tunnel.Name), "")
			}
			return nil
		})},
		watched{serviceAccounts.Informer(), controller.Handle(owned)},
		watched{bindings.Informer(), controller.Handle(ofBinding)},
		watched{deployments.Informer(), controller.Handle(owned)},
		watched{nodes.Informer(), controller.Handle(func(object any) []cache.ObjectName {
			if node, ok := object.(*corev1.Node); ok && node.Labels[v1alpha1.LabelType] == v1alpha1.TypeVirtualNode {
				return ofNode(node.Name)
			}
			return nil
		})},
	)
}

// onAccess is told when a virtual node is gone, or lets its pods talk to their
// home otherwise than before.
func onAccess(changed func()) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(old, now any) {
			before, ok1 := old.(*v1alpha1.VirtualNode)
			after, ok2 := now.(*v1alpha1.VirtualNode)
			if ok1 && ok2 && before.Spec.APIAccess != after.Spec.APIAccess {
				changed()
			}
		},
		DeleteFunc: func(any) { changed() },
	}
}

func (c *Config) virtualNodes() *virtualNodes {
	informers := c.FederationInformers.Federation().V1alpha1()
	federation := c.Federation.FederationV1alpha1()
	managed := c.ManagedInformers
	return &virtualNodes{
		clusterID: c.ClusterID, clusterName: c.ClusterName, namespace: c.Namespace, kubelet: c.VirtualKubelet, clock: c.Clock,
		get: func(namespace, name string) (*v1alpha1.VirtualNode, error) {
			return informers.VirtualNodes().Lister().VirtualNodes(namespace).Get(name)
		},
		commit: func(ctx context.Context, old, wanted *v1alpha1.VirtualNode) (bool, error) {
			return commit.Commit(ctx, federation.VirtualNodes(old.Namespace), old, wanted)
		},
		foreignCluster: informers.ForeignClusters().Lister().Get,
		networking:     c.Networking,
		tunnel:         c.tunnels().Lister().TunnelEndpoints(c.Namespace).Get,
		offer: func(namespace, name string) (*v1alpha1.ResourceOffer, error) {
			return informers.ResourceOffers().Lister().ResourceOffers(namespace).Get(name)
		},
		siblings: func(namespace string) ([]*v1alpha1.VirtualNode, error) {
			return informers.VirtualNodes().Lister().VirtualNodes(namespace).List(labels.Everything())
		},
		readable: c.VirtualKubelet.kinds(),
		served:   c.Kinds.Find,
		getAccount: func(namespace, name string) (*corev1.ServiceAccount, error) {
			return managed.Core().V1().ServiceAccounts().Lister().ServiceAccounts(namespace).Get(name)
		},
		createAccount: func(ctx context.Context, account *corev1.ServiceAccount) error {
			_, err := c.Kube.CoreV1().ServiceAccounts(account.Namespace).Create(ctx, account, metav1.CreateOptions{})
			return err
		},
		removeAccount: func(ctx context.Context, account *corev1.ServiceAccount) error {
			return c.Kube.CoreV1().ServiceAccounts(account.Namespace).Delete(ctx, account.Name, exactly(account))
		},
		getBinding: managed.Rbac().V1().ClusterRoleBindings().Lister().Get,
		bindingNow: func(ctx context.Context, name string) (*rbacv1.ClusterRoleBinding, error) {
			return c.Kube.RbacV1().ClusterRoleBindings().Get(ctx, name, metav1.GetOptions{})
		},
		createBinding: func(ctx context.Context, binding *rbacv1.ClusterRoleBinding) error {
			_, err := c.Kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
			return err
		},
		removeBinding: func(ctx context.Context, binding *rbacv1.ClusterRoleBinding) error {
			return c.Kube.RbacV1().ClusterRoleBindings().Delete(ctx, binding.Name, exactly(binding))
		},
		getDeployment: func(namespace, name string) (*appsv1.Deployment, error) {
			return managed.Apps().V1().Deployments().Lister().Deployments(namespace).Get(name)
		},
		createDeployment: func(ctx context.Context, deployment *appsv1.Deployment) error {
			_, err := c.Kube.AppsV1().Deployments(deployment.Namespace).Create(ctx, deployment, metav1.CreateOptions{})
			return err
		},
		updateDeployment: func(ctx context.Context, deployment *appsv1.Deployment) error {
			_, err := c.Kube.AppsV1().Deployments(deployment.Namespace).Update(ctx, deployment, metav1.UpdateOptions{})
			return err
		},
		removeDeployment: func(ctx context.Context, deployment *appsv1.Deployment) error {
			return c.Kube.AppsV1().Deployments(deployment.Namespace).Delete(ctx, deployment.Name, deleteForeground(deployment))
		},
		getNode: c.KubeInformers.Core().V1().Nodes().Lister().Get,
		cordonNode: func(ctx context.Context, node *corev1.Node) error {
			_, err := c.Kube.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
			return err
		},
		hold: func(ctx context.Context, node *corev1.Node, held bool) error {
			annotation, unschedulable := `"true"`, "true"
			if !held {
				annotation, unschedulable = "null", "null"
			}
			// Of the Node that was looked at: somebody may cordon it at this moment.
			patch := fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"annotations":{%q:%s}},"spec":{"unschedulable":%s}}`,
				node.ResourceVersion, v1alpha1.AnnotationCordoned, annotation, unschedulable)
			_, err := c.Kube.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		},
		removeNode: func(ctx context.Context, node *corev1.Node) error {
			return c.Kube.CoreV1().Nodes().Delete(ctx, node.Name, exactly(node))
		},
		offloaded: func(name string) bool {
			namespace, err := c.KubeInformers.Core().V1().Namespaces().Lister().Get(name)
			return err == nil && placement.Offloaded(namespace, c.Namespaces...)
		},
		evictPod: func(ctx context.Context, pod *corev1.Pod) error {
			return pods.Evict(ctx, c.Kube, pod)
		},
		removePod: func(ctx context.Context, pod *corev1.Pod) error {
			options := exactly(pod)
			options.GracePeriodSeconds = ptr.To[int64](0)
			return c.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
		},
	}
}
