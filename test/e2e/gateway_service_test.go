// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// byAService has milan call rome's gateway by a NodePort of its Service, which
// nobody has said where it is, and nobody call milan. The Service follows the
// active gateway, and pods reach each other before and after.
func (f fabric) byAService(t *testing.T) {
	const patience = "--timeout=3m"
	defer func() {
		for _, c := range []*harness.Cluster{rome, milan} {
			helmUpgrade(t, c, "--reuse-values", "--wait", patience, "--set="+calledAtItsNodes(t, c), "--set=network.gateway.service.enabled=false")
		}
	}()
	helmUpgrade(t, milan, "--reuse-values", "--wait", patience, "--set-json=network.endpoints=[]")
	helmUpgrade(t, rome, "--reuse-values", "--wait", patience, "--set-json=network.endpoints=[]",
		"--set=network.gateway.service.enabled=true", "--set=network.gateway.service.type=NodePort")
	service := must(rome.Kube.CoreV1().Services(harness.Namespace).Get(t.Context(), v1alpha1.GatewayName, metav1.GetOptions{}))(t)
	port := fmt.Sprintf(":%d", service.Spec.Ports[0].NodePort)
	byThePort := func(endpoint string) bool { return strings.HasSuffix(endpoint, port) }

	f.agreesAnew(t)
	eventually(t, soon, "milan to call rome at the port"+port, func(ctx context.Context) (bool, string, error) {
		te, err := milan.Federation.FederationV1alpha1().TunnelEndpoints(harness.Namespace).Get(ctx, rome.Name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		told := len(te.Spec.Endpoints) > 0 && !slices.ContainsFunc(te.Spec.Endpoints, func(e string) bool { return !byThePort(e) })
		return told && byThePort(te.Status.Endpoint), show(te), nil
	})
	te := must(rome.Federation.FederationV1alpha1().TunnelEndpoints(harness.Namespace).Get(t.Context(), milan.Name, metav1.GetOptions{}))(t)
	if len(te.Spec.Endpoints) > 0 {
		t.Errorf("rome calls milan at %v", te.Spec.Endpoints)
	}
	pods := map[*harness.Cluster]caller{rome: onEachNode(t, rome)[0], milan: onEachNode(t, milan)[0]}
	talk := func() {
		t.Helper()
		for _, c := range []*harness.Cluster{rome, milan} {
			other := otherThan(c)
			pods[c].says(t, f.seenFrom(t, other, pods[c].pod.Status.PodIP), "get", "http://"+f.seenFrom(t, c, pods[other].pod.Status.PodIP)+":8080/client")
		}
	}
	leadsToTheActiveGateway(t)
	talk()
	endsActiveGateway(t, rome)
	leadsToTheActiveGateway(t)
	talk()
	for _, c := range []*harness.Cluster{rome, milan} {
		networkingIs(t, c, v1alpha1.PeeringEstablished)
	}
}

// agreesAnew ends the tunnel and has both clusters agree upon another one, so
// that no gateway knows where the other one was heard last.
func (f fabric) agreesAnew(t *testing.T) {
	t.Helper()
	wants := func(ctx context.Context, mode string) error {
		return rome.Kubectl(ctx, "patch", "foreigncluster", milan.Name, "--type=merge", "-p", `{"spec":{"networking":`+mode+`}}`).Err
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := wants(ctx, "null"); err != nil {
			t.Error(err)
		}
	})
	if err := wants(t.Context(), `"None"`); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*harness.Cluster{rome, milan} {
		eventually(t, soon, "the tunnel of "+c.Name+" to be gone", func(ctx context.Context) (bool, string, error) {
			_, err := c.Federation.FederationV1alpha1().TunnelEndpoints(harness.Namespace).Get(ctx, otherThan(c).Name, metav1.GetOptions{})
			return gone(err)
		})
		for _, node := range realNodes(t, c) {
			eventually(t, soon, "the tunnel of "+c.Name+" to be taken down on "+node.Name, func(ctx context.Context) (bool, string, error) {
				routes, err := playground.Exec(ctx, node.Name, "sh", "-c", "[ ! -e /run/netns/liqo-netns ] || ip -n liqo-netns route show")
				return err == nil && !strings.Contains(routes, "dev liqo.wg"), routes, err
			})
		}
	}
	// What a node remembers of the tunnel before, for two minutes, would have its
	// answers come from the gateway's own port.
	for _, c := range []*harness.Cluster{rome, milan} {
		for _, node := range realNodes(t, c) {
			if _, err := playground.Exec(t.Context(), node.Name, "sh", "-c", "conntrack -D -p udp --orig-port-dst 51820 || [ $? = 1 ]"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := wants(t.Context(), "null"); err != nil {
		t.Fatal(err)
	}
	maps.Copy(f.sees, agreed(t).sees)
}

// leadsToTheActiveGateway waits until the Service of rome's gateway leads to the
// active one alone.
func leadsToTheActiveGateway(t *testing.T) {
	t.Helper()
	eventually(t, soon, "the Service to lead to the active gateway", func(ctx context.Context) (bool, string, error) {
		slice, err := rome.Kube.DiscoveryV1().EndpointSlices(harness.Namespace).Get(ctx, v1alpha1.GatewayName, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		active, err := activeGateway(ctx, rome)
		if err != nil {
			return false, "", err
		}
		return len(slice.Endpoints) == 1 && ptr.Deref(slice.Endpoints[0].NodeName, "") == active, fmt.Sprintf("%s, %s is active", show(slice.Endpoints), active), nil
	})
}
