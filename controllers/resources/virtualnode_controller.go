// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/queue"
)

// NewVirtualNodes makes the controller that has virtual kubelets run.
func NewVirtualNodes(config *Config) (*queue.Controller[cache.ObjectName], error) {
	informers := config.FederationInformers.Federation().V1alpha1()
	nodes := config.KubeInformers.Core().V1().Nodes()
	accounts := config.ManagedInformers.Core().V1().ServiceAccounts()
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
	pods := newNodePods(config.Kube, func(node string) {
		for _, key := range ofNode(node) {
			controller.AddAfter(key, settle)
		}
	})
	r.pods, r.forgetPods = pods.pods, pods.forget
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
	return controller, watch(
		watched{informers.VirtualNodes().Informer(), controller.Handle(queue.ObjectKeys)},
		watched{accounts.Informer(), controller.Handle(owned)},
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

func (c *Config) virtualNodes() *virtualNodes {
	informers := c.FederationInformers.Federation().V1alpha1()
	federation := c.Federation.FederationV1alpha1()
	managed := c.ManagedInformers
	return &virtualNodes{
		clusterID: c.ClusterID, clusterName: c.ClusterName, kubelet: c.VirtualKubelet, clock: c.Clock,
		get: func(namespace, name string) (*v1alpha1.VirtualNode, error) {
			return informers.VirtualNodes().Lister().VirtualNodes(namespace).Get(name)
		},
		commit: func(ctx context.Context, old, wanted *v1alpha1.VirtualNode) (bool, error) {
			return commit.Commit(ctx, federation.VirtualNodes(old.Namespace), old, wanted)
		},
		foreignCluster: informers.ForeignClusters().Lister().Get,
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
		removeNode: func(ctx context.Context, node *corev1.Node) error {
			return c.Kube.CoreV1().Nodes().Delete(ctx, node.Name, exactly(node))
		},
		evictPod: func(ctx context.Context, pod *corev1.Pod) error {
			return c.Kube.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
				ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, DeleteOptions: ptr.To(exactly(pod)),
			})
		},
	}
}
