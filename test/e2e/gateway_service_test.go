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

// reachesGatewayByItsService exposes rome's gateway with a NodePort Service while neither cluster
// has configured endpoints. The tunnel must use the Service, and the Service must follow the active
// gateway.
func (f fabric) reachesGatewayByItsService(t *testing.T) {
	const timeout = "--timeout=3m"
	defer func() {
		for _, c := range []*harness.Cluster{rome, milan} {
			helmUpgrade(t, c, "--reuse-values", "--wait", timeout, "--set="+nodeEndpoints(t, c),
				"--set=network.gateway.service.enabled=false")
		}
	}()
	helmUpgrade(t, milan, "--reuse-values", "--wait", timeout, "--set-json=network.endpoints=[]")
	helmUpgrade(t, rome, "--reuse-values", "--wait", timeout, "--set-json=network.endpoints=[]",
		"--set=network.gateway.service.enabled=true", "--set=network.gateway.service.type=NodePort")
	service := must(rome.Kube.CoreV1().Services(harness.Namespace).Get(t.Context(), v1alpha1.GatewayName,
		metav1.GetOptions{}))(t)
	port := fmt.Sprintf(":%d", service.Spec.Ports[0].NodePort)
	hasPort := func(endpoint string) bool { return strings.HasSuffix(endpoint, port) }

	f.recreatesTunnel(t)
	eventually(t, soon, "milan to use rome's port "+port, func(ctx context.Context) (bool, string, error) {
		te, err := milan.Federation.FederationV1alpha1().TunnelEndpoints(harness.Namespace).Get(ctx, rome.Name,
			metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		listed := len(te.Spec.Endpoints) > 0 &&
			!slices.ContainsFunc(te.Spec.Endpoints, func(e string) bool { return !hasPort(e) })
		return listed && hasPort(te.Status.Endpoint), show(te), nil
	})
	te := must(rome.Federation.FederationV1alpha1().TunnelEndpoints(harness.Namespace).Get(t.Context(), milan.Name,
		metav1.GetOptions{}))(t)
	if len(te.Spec.Endpoints) > 0 {
		t.Errorf("rome has the endpoints %v of milan", te.Spec.Endpoints)
	}
	pods := map[*harness.Cluster]caller{rome: onEachNode(t, rome)[0], milan: onEachNode(t, milan)[0]}
	exchangeRequests := func() {
		t.Helper()
		for _, c := range []*harness.Cluster{rome, milan} {
			other := otherThan(c)
			pods[c].prints(t, f.seenFrom(t, other, pods[c].pod.Status.PodIP), "get",
				"http://"+f.seenFrom(t, c, pods[other].pod.Status.PodIP)+":8080/client")
		}
	}
	serviceHasActiveGateway(t)
	exchangeRequests()
	endsActiveGateway(t, rome)
	serviceHasActiveGateway(t)
	exchangeRequests()
	for _, c := range []*harness.Cluster{rome, milan} {
		networkingIs(t, c, v1alpha1.PeeringEstablished)
	}
}

// recreatesTunnel deletes the tunnel, and waits until it is established again. The new
// TunnelEndpoints do not have the endpoints that the gateways observed before.
func (f fabric) recreatesTunnel(t *testing.T) {
	t.Helper()
	setMode := func(ctx context.Context, mode string) error {
		return rome.Kubectl(ctx, "patch", "foreigncluster", milan.Name, "--type=merge", "-p",
			`{"spec":{"networking":`+mode+`}}`).Err
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := setMode(ctx, "null"); err != nil {
			t.Error(err)
		}
	})
	if err := setMode(t.Context(), `"None"`); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*harness.Cluster{rome, milan} {
		eventually(t, soon, "the tunnel of "+c.Name+" to be gone", func(ctx context.Context) (bool, string, error) {
			_, err := c.Federation.FederationV1alpha1().TunnelEndpoints(harness.Namespace).Get(ctx, otherThan(c).Name,
				metav1.GetOptions{})
			return gone(err)
		})
		for _, node := range realNodes(t, c) {
			eventually(t, soon, "the tunnel of "+c.Name+" to be taken down on "+node.Name,
				func(ctx context.Context) (bool, string, error) {
					routes, err := playground.Exec(ctx, node.Name, "sh", "-c",
						"[ ! -e /run/netns/liqo-netns ] || ip -n liqo-netns route show")
					return err == nil && !strings.Contains(routes, "dev liqo.wg"), routes, err
				})
		}
	}
	// Connection tracking entries of the old tunnel last for two minutes. They would translate the
	// replies of the new one.
	for _, c := range []*harness.Cluster{rome, milan} {
		for _, node := range realNodes(t, c) {
			if _, err := playground.Exec(t.Context(), node.Name, "sh", "-c",
				"conntrack -D -p udp --orig-port-dst 51820 || [ $? = 1 ]"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := setMode(t.Context(), "null"); err != nil {
		t.Fatal(err)
	}
	maps.Copy(f.sees, agreed(t).sees)
}

// serviceHasActiveGateway waits until the active gateway is the only endpoint of the Service of
// rome's gateway.
func serviceHasActiveGateway(t *testing.T) {
	t.Helper()
	eventually(t, soon, "the Service to lead to the active gateway", func(ctx context.Context) (bool, string, error) {
		slice, err := rome.Kube.DiscoveryV1().EndpointSlices(harness.Namespace).Get(ctx, v1alpha1.GatewayName,
			metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		active, err := activeGateway(ctx, rome)
		if err != nil {
			return false, "", err
		}
		return len(slice.Endpoints) == 1 && ptr.Deref(slice.Endpoints[0].NodeName, "") == active,
			fmt.Sprintf("%s, %s is active", show(slice.Endpoints), active), nil
	})
}
