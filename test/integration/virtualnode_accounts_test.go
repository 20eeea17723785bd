// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/test/integration/framework"
)

// With the roles and policies of the chart, a virtual kubelet may request tokens of a
// ServiceAccount when a pod of that account is on its virtual node.
func TestVirtualKubeletMayRequestTokensOfAccountsOfItsPods(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	peer := makeNamespaceOf(t, env, peerOf("pontedera"), v1alpha1.RolePeer, "pontedera")
	manager := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: controllerManager, Namespace: framework.Namespace}
	must(t)(env.Kube.RbacV1().RoleBindings(peer).Create(t.Context(), bindingOf("federation-peer-manager", manager),
		metav1.CreateOptions{}))
	env.StartControllers(t, "accounts", controllerManager, "--controllers=virtual-node", "--leader-elect=false",
		"--virtual-kubelet-image=liqo.io/federation-virtual-kubelet:"+compatibility.Version,
		"--consumer-api-server=https://192.0.2.7:6443")

	shop := env.MakeNamespace(t)
	mark := func(patch string) {
		t.Helper()
		must(t)(env.Kube.CoreV1().Namespaces().Patch(t.Context(), shop, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{}))
	}
	mark(`{"metadata":{"labels":{"liqo.io/scheduling-enabled":"true"}}}`)
	must(t)(federationOf(t, env.Admin).FederationV1alpha1().NamespaceOffloadings(shop).Create(t.Context(),
		&v1alpha1.NamespaceOffloading{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NamespaceOffloadingName},
		}, metav1.CreateOptions{}))
	const name = "federation-virtual-kubelet-pontedera"
	kubelet := kubeOf(t, env.ServiceAccount(t, peer, name)).CoreV1().ServiceAccounts(shop)
	must(t)(env.Kube.RbacV1().RoleBindings(shop).Create(t.Context(),
		bindingOf("federation-reflection", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: peer}),
		metav1.CreateOptions{}))
	must(t)(env.Kube.CoreV1().Nodes().Create(t.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "liqo-pontedera", Labels: map[string]string{
			v1alpha1.LabelType: v1alpha1.TypeVirtualNode, v1alpha1.LabelRemoteClusterID: thatID,
		}}}, metav1.CreateOptions{}))
	must(t)(federationOf(t, env.Admin).FederationV1alpha1().VirtualNodes(peer).Create(t.Context(), &v1alpha1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: "pontedera"},
		Spec: v1alpha1.VirtualNodeSpec{ClusterID: thatID, NodeName: "liqo-pontedera", APIAccess: v1alpha1.APIAccessConsumer,
			Resources: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
				corev1.ResourcePods: resource.MustParse("10"),
			}},
	}, metav1.CreateOptions{}))

	for account, node := range map[string]string{"robot": "liqo-pontedera", "tokenless": "liqo-pontedera",
		"operator": "worker-of-pontedera"} {
		env.ServiceAccount(t, shop, account)
		one := pod(nil)
		one.Name, one.Spec.NodeName, one.Spec.ServiceAccountName = account, node, account
		one.Spec.AutomountServiceAccountToken = ptr.To(account != "tokenless")
		must(t)(env.Kube.CoreV1().Pods(shop).Create(t.Context(), one, metav1.CreateOptions{}))
	}
	accounts := func(ctx context.Context) (string, error) {
		namespace, err := env.Kube.CoreV1().Namespaces().Get(ctx, shop, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return namespace.Annotations[v1alpha1.AnnotationAccounts], nil
	}
	until(t, "the annotation has the account, and no other", func(ctx context.Context) (bool, error) {
		written, err := accounts(ctx)
		return written == naming.AccountOnNode(peer, "pontedera", "robot"), err
	})
	token := func(account string) func(context.Context) error {
		return func(ctx context.Context) error {
			bound, err := env.Kube.CoreV1().Pods(shop).Get(ctx, account, metav1.GetOptions{})
			if err != nil {
				return err
			}
			_, err = kubelet.CreateToken(ctx, account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
				BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: bound.Name,
					UID: bound.UID},
			}}, metav1.CreateOptions{})
			return err
		}
	}
	expect(t, []attempt{
		{"a token of the pod on the node", "", token("robot")},
		{"a token of the local pod", "have pods on its virtual node", token("operator")},
		{"a token of a pod on the node that mounts none", "have pods on its virtual node", token("tokenless")},
	})
	mark(`{"metadata":{"labels":{"liqo.io/scheduling-enabled":null}}}`)
	until(t, "a namespace that is not offloaded has no annotation", func(ctx context.Context) (bool, error) {
		written, err := accounts(ctx)
		return written == "", err
	})
}
