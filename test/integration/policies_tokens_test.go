// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/test/integration/framework"
)

// A virtual kubelet that may request tokens of all accounts in the cluster gets only tokens of the
// accounts of pods on its node.
func TestPoliciesKeepAVirtualKubeletToTheTokensOfItsPods(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	peer := makeNamespaceOf(t, env, peerOf("siena"), v1alpha1.RolePeer, "siena")
	plain, offloaded := env.MakeNamespace(t), env.MakeNamespace(t)
	bound := map[string]*authenticationv1.BoundObjectReference{}
	for _, p := range []struct{ namespace, account, node string }{
		{offloaded, "robot", "liqo-siena"}, {offloaded, "operator", "worker-of-siena"}, {offloaded, "rob", "worker-of-siena"},
		{plain, "robot", "liqo-siena"}, {metav1.NamespaceSystem, "siena-controller", "worker-of-siena"},
	} {
		env.ServiceAccount(t, p.namespace, p.account)
		one := pod(nil)
		one.Name, one.Spec.NodeName, one.Spec.ServiceAccountName = "pod-of-"+p.account, p.node, p.account
		made, err := env.Kube.CoreV1().Pods(p.namespace).Create(t.Context(), one, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		undo(t, func(ctx context.Context) error {
			return env.Kube.CoreV1().Pods(p.namespace).Delete(ctx, made.Name, *metav1.NewDeleteOptions(0))
		})
		bound[p.namespace+"/"+p.account] = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1",
			Name: made.Name, UID: made.UID}
	}
	// The namespace is labelled only here, because the webhook would place the pods that were
	// created above.
	accounts := naming.AccountOnNode(peer, "siena", "robot") + " " + naming.AccountOnNode(peer, "other", "operator") +
		" " + naming.AccountOnNode(peerOf("pistoia"), "siena", "operator")
	must(t)(env.Kube.CoreV1().Namespaces().Patch(t.Context(), offloaded, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"liqo.io/scheduling-enabled":"true"},
			"annotations":{"offloading.liqo.io/accounts":"`+accounts+`"}}}`), metav1.PatchOptions{}))
	secret, err := env.Kube.CoreV1().Secrets(offloaded).Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "anchor"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	const name = "federation-virtual-kubelet-siena"
	core := kubeOf(t, env.ServiceAccount(t, peer, name)).CoreV1()
	must(t)(env.Kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "every-token"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"},
			Verbs: []string{"create"}}},
	}, metav1.CreateOptions{}))
	undo(t, func(ctx context.Context) error {
		return env.Kube.RbacV1().ClusterRoles().Delete(ctx, "every-token", metav1.DeleteOptions{})
	})
	bindEverywhere(t, env, "every-token-"+name, "every-token",
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: peer})

	token := func(
		namespace, account string, ref *authenticationv1.BoundObjectReference, audiences ...string,
	) func(context.Context) error {
		return func(ctx context.Context) error {
			request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: ref,
				Audiences: audiences}}
			_, err := core.ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
			return err
		}
	}
	own := bound[offloaded+"/robot"]
	nameless := *own
	nameless.UID = ""
	const endless, notOffloaded, others, audiences = "bound to a pod only", "offloaded namespaces only",
		"have pods on its virtual node", "at most 4 audiences"
	expect(t, []attempt{
		{"one of a pod on its node", "", token(offloaded, "robot", own)},
		{"one for another audience than the API server", "", token(offloaded, "robot", own, strings.Repeat("x", 256))},
		{"one for too many audiences", audiences, token(offloaded, "robot", own, "a", "b", "c", "d", "e")},
		{"one for a long audience", audiences, token(offloaded, "robot", own, strings.Repeat("x", 257))},
		{"one of a local pod", others, token(offloaded, "operator", bound[offloaded+"/operator"])},
		{"one of an account with a prefix of the pod's", others, token(offloaded, "rob", bound[offloaded+"/rob"])},
		{"one of another account for its own pod", others, token(offloaded, "operator", own)},
		{"one that is bound to nothing", endless, token(offloaded, "robot", nil)},
		{"one that is bound to any pod of that name", endless, token(offloaded, "robot", &nameless)},
		{"one that is bound to a Secret", endless, token(offloaded, "robot",
			&authenticationv1.BoundObjectReference{Kind: "Secret", APIVersion: "v1", Name: secret.Name, UID: secret.UID})},
		{"one of a namespace that is not offloaded", notOffloaded, token(plain, "robot", bound[plain+"/robot"])},
		{"one of the system", notOffloaded, token(metav1.NamespaceSystem, "siena-controller", bound[metav1.NamespaceSystem+"/siena-controller"])},
		{"its own without a bound", notOffloaded, token(peer, name, nil)},
	})
	// kube-apiserver itself refuses a token that is bound to a pod of another account.
	if err := token(offloaded, "robot", bound[offloaded+"/operator"])(t.Context()); err == nil {
		t.Error("a token was bound to a pod of another account")
	}
}
