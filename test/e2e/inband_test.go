// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// peersInBand has rome borrow from milan by nothing but the gateways' UDP port:
// whatever else rome's nodes send does not get through to milan's.
func peersInBand(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			withoutNetwork(t)
		}
	})
	for _, c := range []*harness.Cluster{rome, milan} {
		setsValues(t, c, tunnelValues(t, c)...)
	}
	var theirs []string
	for _, node := range realNodes(t, rome) {
		theirs = append(theirs, nodeAddress(node))
	}
	from := "ip saddr { " + strings.Join(theirs, ", ") + " }"
	for _, node := range realNodes(t, milan) {
		defer filtered(t, node.Name, "chain in { type filter hook prerouting priority -300 ; "+from+" udp dport 51820 accept ; "+from+" drop ; }")()
	}
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
	podsReady(t, rome, harness.Namespace, "app.kubernetes.io/name="+v1alpha1.GatewayName, min(2, len(realNodes(t, rome))))
	endsActiveGateway(t, rome)
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
