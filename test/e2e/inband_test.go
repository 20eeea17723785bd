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

// peersInBand peers rome with milan while milan's nodes accept no packet of rome's nodes, except at
// the UDP port of the gateways.
func peersInBand(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			withoutNetwork(t)
		}
	})
	for _, c := range []*harness.Cluster{rome, milan} {
		setsValues(t, c, tunnelValues(t, c)...)
	}
	var addresses []string
	for _, node := range realNodes(t, rome) {
		addresses = append(addresses, nodeAddress(node))
	}
	from := "ip saddr { " + strings.Join(addresses, ", ") + " }"
	for _, node := range realNodes(t, milan) {
		defer filtered(t, node.Name,
			"chain in { type filter hook prerouting priority -300 ; "+from+" udp dport 51820 accept ; "+from+" drop ; }")()
	}
	address := nodeAddress(realNodes(t, milan)[0])
	if _, err := playground.Exec(t.Context(), realNodes(t, rome)[0].Name, "timeout", "3", "bash", "-c",
		"</dev/tcp/"+address+"/6443"); err == nil {
		t.Fatal("milan's API server is reachable from rome")
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
	if result := rome.Kubectl(t.Context(), "exec", "-n", o.namespace, "web", "--", tester, "exit",
		"42"); result.Code != 42 {
		t.Errorf("a program that ends with 42: kubectl ends with %d: %s", result.Code, result.Stderr)
	}

	// When the active gateway ends, the controllers have to connect through the next one. On a cluster with one node,
	// this is the pod that replaces it: the other replica stays pending.
	if len(realNodes(t, rome)) > 1 {
		podsReady(t, rome, harness.Namespace, "app.kubernetes.io/name="+v1alpha1.GatewayName, 2)
	}
	endsActiveGateway(t, rome)
	runReadyPod(t, o.namespace, "later", podSpec("serve"))

	// Unpeering uses the tunnel as well.
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

// invitesInBand creates an invitation, accepts it, and admits rome's gateway on milan, with the
// commands of both administrators.
func invitesInBand(t *testing.T) {
	t.Helper()
	kubectl(t, milan, "delete", "peeringtoken", "for-rome", "--ignore-not-found")
	result := milan.KubectlInput(t.Context(),
		`{"apiVersion":"federation.liqo.io/v1alpha1","kind":"PeeringToken","metadata":{"name":"for-rome"},`+
			`"spec":{"mode":"InBand","consumerClusterID":"`+must(rome.ID(t.Context()))(t)+`"}}`, "create", "-f", "-")
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	invitation := invitationFor(t, milan, "for-rome")
	if peering := invitation.Status.Peering.Spec; peering.Mode != v1alpha1.PeeringInBand || peering.Gateway == nil ||
		len(peering.Gateway.Endpoints) == 0 {
		t.Fatalf("the invitation has no gateway: %+v", peering.Gateway)
	}
	body, err := json.Marshal(invitation.Status.Peering)
	if err != nil {
		t.Fatal(err)
	}
	if result = rome.KubectlInput(t.Context(), string(body), "create", "--raw", group+"foreignclusters/milan/peer", "-f",
		"-"); result.Err != nil {
		t.Fatalf("the verb peer ended with %d", result.Code)
	}
	var shown v1alpha1.Peering
	eventually(t, soon, "rome to report its gateway", func(ctx context.Context) (bool, string, error) {
		result := rome.Kubectl(ctx, "get", "--raw", group+"foreignclusters/milan/peer")
		if result.Err != nil {
			return false, "", result.Err
		}
		return json.Unmarshal([]byte(result.Stdout), &shown) == nil && shown.Status.Command != "", show(shown.Status), nil
	})
	// The command in status.command has the request body in quotes.
	_, quoted, _ := strings.Cut(shown.Status.Command, "'")
	answer, _, _ := strings.Cut(quoted, "'")
	if result = milan.KubectlInput(t.Context(), answer, "create", "--raw", group+"foreignclusters/rome/peer", "-f",
		"-"); result.Err != nil {
		t.Fatal(result.Err, result.Stderr)
	}
}
