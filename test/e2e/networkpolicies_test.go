// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/test/harness"
)

// enforcesNetworkPolicies starts the policy engine on all nodes of a cluster, and stops it when the test ends. It
// returns when the engine applies the existing NetworkPolicies; it applies later ones within seconds.
func enforcesNetworkPolicies(t *testing.T, c *harness.Cluster) {
	t.Helper()
	t.Cleanup(func() {
		collect(t)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*soon)
		defer cancel()
		if err := playground.Up(ctx, []string{c.Name}, "--network-policies=false"); err != nil {
			t.Error(err)
		}
	})
	if err := playground.Up(t.Context(), []string{c.Name}, "--network-policies"); err != nil {
		t.Fatal(err)
	}
}

// isAnswered waits until the output of a request of the pod to url contains answer. This includes the error of a
// response with another status than 200.
func (c caller) isAnswered(t *testing.T, url, answer string) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("%s to answer %s with %q", url, c, answer),
		func(ctx context.Context) (bool, string, error) {
			result := c.cluster.Kubectl(ctx, "exec", "-n", c.pod.Namespace, c.pod.Name, "--", tester, "get", url)
			output := result.Stdout + result.Stderr
			return strings.Contains(output, answer), fmt.Sprintf("%q, %v", output, result.Err), nil
		})
}

// isRefused waits until requests of the pod to url are refused: they are rejected, or not answered.
func (c caller) isRefused(t *testing.T, url string) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("requests of %s to %s to be refused", c, url),
		func(ctx context.Context) (bool, string, error) {
			result := c.cluster.Kubectl(ctx, "exec", "-n", c.pod.Namespace, c.pod.Name, "--", tester, "get", url)
			// Other errors, for example of kubectl, do not show that packets were refused.
			refused := strings.Contains(result.Stderr, "connection refused") ||
				strings.Contains(result.Stderr, "Client.Timeout exceeded") || strings.Contains(result.Stderr, "i/o timeout")
			return strings.Contains(result.Stderr, "federation-tester: Get ") && refused,
				fmt.Sprintf("%q, %v", result.Stdout, result.Err), nil
		})
}

// roleLabel is the label by which the NetworkPolicies of tests select pods.
const roleLabel = "role"

// inRole runs a pod with a role on each node of a cluster.
func inRole(t *testing.T, c *harness.Cluster, namespace, role string) []caller {
	t.Helper()
	return labelledOnEachNode(t, c, namespace, role+"-on-", map[string]string{roleLabel: role})
}

// admitsRole creates a NetworkPolicy that admits packets to pods of one role from pods of another role only.
func admitsRole(t *testing.T, c *harness.Cluster, namespace, to, from string) {
	t.Helper()
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: to + "-from-" + from},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{roleLabel: to}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
				{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{roleLabel: from}}},
			}}},
		},
	}
	must(c.Kube.NetworkingV1().NetworkPolicies(namespace).Create(t.Context(), policy, metav1.CreateOptions{}))(t)
}

// refusesPackets checks that a NetworkPolicy of milan refuses packets of one pod and admits those of another, on one
// node and between nodes, and only while it exists.
func refusesPackets(t *testing.T) {
	enforcesNetworkPolicies(t, milan)
	namespace := namespaceOn(t, milan)
	servers := inRole(t, milan, namespace, "server")
	admitted, refused := inRole(t, milan, namespace, "admitted"), inRole(t, milan, namespace, "refused")
	each := func(from []caller, check func(from, to caller)) {
		t.Helper()
		for _, f := range from {
			for _, to := range servers {
				check(f, to)
			}
		}
	}
	url := func(to caller) string { return "http://" + to.pod.Status.PodIP + ":8080/" }
	isAnswered := func(from, to caller) {
		t.Helper()
		from.prints(t, "hello from "+to.pod.Name, "get", url(to))
	}
	isRefused := func(from, to caller) {
		t.Helper()
		from.isRefused(t, url(to))
	}

	each(admitted, isAnswered)
	each(refused, isAnswered)
	admitsRole(t, milan, namespace, "server", "admitted")
	each(refused, isRefused)
	each(admitted, isAnswered)
	// They are still refused after the others were answered.
	each(refused, isRefused)
	kubectl(t, milan, "delete", "networkpolicies", "--all", "-n", namespace)
	each(refused, isAnswered)
}
