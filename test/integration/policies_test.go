// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/test/integration/framework"
)

// Options of dry runs, by verb.
var (
	dryCreate = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	dryUpdate = metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}
	dryPatch  = metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	dryDelete = metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
)

const (
	// policyTimeout is the maximal time until new policies are in force. kube-apiserver compiles
	// them within half a minute.
	policyTimeout = time.Minute
	// attemptTimeout is the maximal time of an attempt after the policies are in force.
	attemptTimeout = 5 * time.Second
)

// attempt is a request in a dry run. refusal is a part of the message with which an admission
// policy of the chart refuses it. Empty means that the request is admitted.
type attempt struct {
	name    string
	refusal string
	try     func(context.Context) error
}

// expect repeats each attempt until it is admitted or refused as expected. It fails if an attempt is
// missing that the table cuts names.
func expect(t *testing.T, attempts []attempt) {
	t.Helper()
	for _, c := range cuts {
		if c.test == t.Name() && !slices.ContainsFunc(attempts, func(a attempt) bool {
			return a.name == c.attempt && a.refusal != ""
		}) {
			t.Errorf("no refused attempt is called %q", c.attempt)
		}
	}
	inForce := time.Now().Add(policyTimeout)
	for _, a := range attempts {
		t.Run(a.name, func(t *testing.T) {
			var err error
			waitErr := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, max(time.Until(inForce), attemptTimeout),
				true, func(ctx context.Context) (bool, error) {
					err = a.try(ctx)
					if a.refusal == "" {
						return err == nil, nil
					}
					return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") &&
						strings.Contains(err.Error(), a.refusal), nil
				})
			if waitErr != nil {
				t.Errorf("got %v, want a refusal with %q", err, a.refusal)
			}
		})
	}
}

// installPolicies applies the admission policies and the roles of the chart.
func installPolicies(t *testing.T, env *framework.Environment) {
	t.Helper()
	env.Kubectl(t, env.Chart(t, "policies-peers.yaml", "policies-controllers.yaml", "policies-storage.yaml",
		"accounts.yaml",
		"rbac-controller-manager.yaml", "rbac-storage-provider.yaml", "rbac-identity-signer.yaml", "rbac-tenant.yaml",
		"rbac-remote-namespace.yaml", "rbac-virtual-kubelet.yaml"),
		"apply", "-f", "-")
}

// makeNamespaceOf creates a namespace with a role in the product and a default ServiceAccount, and
// returns its name. It is not deleted, because no controller would finalize it. If an earlier run
// left a namespace of this name, a number is appended.
func makeNamespaceOf(t *testing.T, env *framework.Environment, name, role, cluster string) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{v1alpha1.LabelRole: role, v1alpha1.LabelForeignCluster: cluster},
	}}
	for run := 2; ; run++ {
		_, err := env.Kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
		if err == nil {
			break
		}
		if !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		namespace.Name = fmt.Sprintf("%s-%d", name, run)
	}
	env.ServiceAccount(t, namespace.Name, "default")
	return namespace.Name
}

// bindEverywhere binds a subject to a ClusterRole in the whole cluster until the test ends.
func bindEverywhere(t *testing.T, env *framework.Environment, name, role string, subject rbacv1.Subject) {
	t.Helper()
	bindings := env.Kube.RbacV1().ClusterRoleBindings()
	must(t)(bindings.Create(t.Context(), clusterBindingOf(name, role, subject), metav1.CreateOptions{}))
	undo(t, func(ctx context.Context) error { return bindings.Delete(ctx, name, metav1.DeleteOptions{}) })
}

// undo calls a function when the test ends, and fails the test if the function does.
func undo(t *testing.T, undo func(context.Context) error) {
	t.Cleanup(func() {
		if err := undo(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

func kubeOf(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// onNode creates a pod with tolerations that is bound to a node.
func onNode(t *testing.T, env *framework.Environment, namespace, name, node string,
	tolerations ...corev1.Toleration) string {
	t.Helper()
	one := pod(nil)
	one.Name, one.Spec.NodeName, one.Spec.Tolerations = name, node, tolerations
	must(t)(env.Kube.CoreV1().Pods(namespace).Create(t.Context(), one, metav1.CreateOptions{}))
	return name
}

func tenantOf(cluster string) string { return naming.TenantNamespace(cluster) }

func peerOf(cluster string) string { return naming.PeerNamespace(cluster) }

func account(namespace, name string) string {
	return fmt.Sprintf("system:serviceaccount:%s:%s", namespace, name)
}
