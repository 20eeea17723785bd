// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// peersInBand has rome borrow from milan by nothing but the gateways' UDP port:
// no TCP connection from rome's nodes gets through to milan's.
func peersInBand(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			withoutNetwork(t)
		}
	})
	for _, c := range []*harness.Cluster{rome, milan} {
		setsValues(t, c, tunnelValues(t, c)...)
	}
	refusesTCP(t, milan, rome)
	address := nodeAddress(realNodes(t, milan)[0])
	if _, err := playground.Exec(t.Context(), realNodes(t, rome)[0].Name, "timeout", "3", "bash", "-c", "</dev/tcp/"+address+"/6443"); err == nil {
		t.Fatal("milan's API server is reached from rome all the same")
	}

	invitesInBand(t)
	result := rome.Kubectl(t.Context(), "wait", "foreigncluster/milan", "--for=condition=Ready", "--timeout=120s")
	if result.Err != nil {
		t.Fatalf("%v\n%s", result.Err, kubectl(t, rome, "get", "foreigncluster,tunnelendpoint", "-A", "-o", "yaml"))
	}
	o := serving(t)
	if log := kubectl(t, rome, "logs", "-n", o.namespace, "web"); !strings.HasPrefix(log, "serving on :8080 as web\n") {
		t.Errorf("the log is %q", log)
	}
	if result := rome.Kubectl(t.Context(), "exec", "-n", o.namespace, "web", "--", tester, "exit", "42"); result.Code != 42 {
		t.Errorf("a program that ends with 42: kubectl ends with %d: %s", result.Code, result.Stderr)
	}

	// Another gateway takes over, and the controllers find it.
	node := holderOfGateway(t, rome)
	for _, pod := range podsReady(t, rome, harness.Namespace, "app.kubernetes.io/name=liqo-gateway", 2) {
		if pod.Spec.NodeName == node {
			kubectl(t, rome, "delete", "pod", pod.Name, "-n", harness.Namespace, "--wait=false")
		}
	}
	eventually(t, soon, "another gateway to be the active one", func(ctx context.Context) (bool, string, error) {
		lease, err := rome.Kube.CoordinationV1().Leases(harness.Namespace).Get(ctx, "liqo-gateway", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return false, "", err
		}
		return *lease.Spec.HolderIdentity != node, *lease.Spec.HolderIdentity, nil
	})
	runReadyPod(t, o.namespace, "later", podSpec("serve"))

	// Unpeering goes the same way.
	kubectl(t, rome, "delete", "--raw", group+"foreignclusters/milan/peer")
	for _, c := range []*harness.Cluster{rome, milan} {
		eventually(t, soon, "the peering to be gone on "+c.Name, func(ctx context.Context) (bool, string, error) {
			list, err := c.Federation.FederationV1alpha1().TunnelEndpoints(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
			if err != nil || len(list.Items) > 0 {
				return false, show(list.Items), err
			}
			_, err = c.Federation.FederationV1alpha1().ForeignClusters().Get(ctx, otherThan(c).Name, metav1.GetOptions{})
			return gone(err)
		})
	}
	if err := rome.Kube.CoreV1().Namespaces().Delete(t.Context(), o.namespace, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	deletesTokens(t)
	withoutNetwork(t)
}

// invitesInBand does what both administrators do: milan's invites, rome's
// accepts, and milan's lets rome's gateway in.
func invitesInBand(t *testing.T) {
	t.Helper()
	kubectl(t, milan, "delete", "peeringtoken", "for-rome", "--ignore-not-found")
	result := milan.KubectlInput(t.Context(), `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"PeeringToken","metadata":{"name":"for-rome"},"spec":{"mode":"InBand"}}`, "create", "-f", "-")
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	invitation := invitationFor(t, milan, "for-rome")
	if peering := invitation.Status.Peering.Spec; peering.Mode != v1alpha1.PeeringInBand || peering.Gateway == nil || len(peering.Gateway.Endpoints) == 0 {
		t.Fatalf("the invitation does not tell of the gateway: %+v", peering.Gateway)
	}
	body, err := json.Marshal(invitation.Status.Peering)
	if err != nil {
		t.Fatal(err)
	}
	if result = rome.KubectlInput(t.Context(), string(body), "create", "--raw", group+"foreignclusters/milan/peer", "-f", "-"); result.Err != nil {
		t.Fatalf("the verb peer ended with %d", result.Code)
	}
	var shown v1alpha1.Peering
	eventually(t, soon, "rome to tell of its gateway", func(ctx context.Context) (bool, string, error) {
		result := rome.Kubectl(ctx, "get", "--raw", group+"foreignclusters/milan/peer")
		if result.Err != nil {
			return false, "", result.Err
		}
		return json.Unmarshal([]byte(result.Stdout), &shown) == nil && shown.Status.Command != "", show(shown.Status), nil
	})
	// What the command of the answer POSTs.
	_, quoted, _ := strings.Cut(shown.Status.Command, "'")
	letIn, _, _ := strings.Cut(quoted, "'")
	if result = milan.KubectlInput(t.Context(), letIn, "create", "--raw", group+"foreignclusters/rome/peer", "-f", "-"); result.Err != nil {
		t.Fatal(result.Err, result.Stderr)
	}
}

// refusesTCP has the nodes of a cluster drop every TCP connection from those of
// another one, until the test ends.
func refusesTCP(t *testing.T, at, from *harness.Cluster) {
	t.Helper()
	for _, node := range realNodes(t, at) {
		for _, other := range realNodes(t, from) {
			rule := fmt.Sprintf("INPUT -s %s -p tcp -j DROP", nodeAddress(other))
			if output, err := playground.Exec(t.Context(), node.Name, strings.Fields("iptables -I "+rule)...); err != nil {
				t.Fatalf("on %s: %v: %s", node.Name, err, output)
			}
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				if output, err := playground.Exec(ctx, node.Name, strings.Fields("iptables -D "+rule)...); err != nil {
					t.Errorf("on %s: %v: %s", node.Name, err, output)
				}
			})
		}
	}
}

// holderOfGateway is the node of the active gateway.
func holderOfGateway(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	lease := must(c.Kube.CoordinationV1().Leases(harness.Namespace).Get(t.Context(), "liqo-gateway", metav1.GetOptions{}))(t)
	if lease.Spec.HolderIdentity == nil {
		t.Fatalf("no gateway of %s is active", c.Name)
	}
	return *lease.Spec.HolderIdentity
}
