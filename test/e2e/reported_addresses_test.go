// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// liar is an offloaded pod of Service web, whose status on milan the test writes: the kubelet of its node is stopped.
type liar struct {
	offload
	// reports is the number of reports so far.
	reports int
}

// startsLying runs the pod. At the end of the test the kubelet runs again.
func startsLying(t *testing.T) *liar {
	t.Helper()
	l := &liar{offload: offloaded(t, remoteOnly)}
	serviceOf(t, l.offload, "web", map[string]string{"app": "web"}, corev1.ClusterIPNone)
	webPodOn(t, l.offload, "web", corev1.NodeSelectorOpExists)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), soon)
		defer cancel()
		if err := playground.Up(ctx, []string{milan.Name}); err != nil {
			t.Error(err)
		}
	})
	endsOn(t, podReady(t, milan, l.remote, "web").Spec.NodeName, "kubelet", 1)
	return l
}

// reportsAddress writes an address to the status of the pod on milan, waits until rome has the new status, and returns
// the address of the pod on rome. It fails the test if the Service on rome has another address than the pod.
func (l *liar) reportsAddress(t *testing.T, address string) string {
	t.Helper()
	l.reports++
	message := fmt.Sprintf("report %d", l.reports)
	kubectl(t, milan, "patch", "pod", "web", "-n", l.remote, "--subresource=status", "--type=merge", "-p",
		fmt.Sprintf(`{"status":{"message":%q,"podIP":%q,"podIPs":[{"ip":%q}]}}`, message, address, address))
	pod := podThat(t, rome, l.namespace, "web", "have the status with "+message,
		func(p *corev1.Pod) bool { return p.Status.Message == message })
	want := []string{}
	if pod.Status.PodIP != "" {
		want = append(want, pod.Status.PodIP)
	}
	eventually(t, soon, fmt.Sprintf("the Service to have the endpoints %v", want),
		func(ctx context.Context) (bool, string, error) {
			list, err := rome.Kube.DiscoveryV1().EndpointSlices(l.namespace).List(ctx,
				metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
			if err != nil {
				return false, "", err
			}
			found := []string{}
			for i := range list.Items {
				for j := range list.Items[i].Endpoints {
					found = append(found, list.Items[i].Endpoints[j].Addresses...)
				}
			}
			return slices.Equal(found, want), show(list.Items), nil
		})
	return pod.Status.PodIP
}

// proxied sends a request to port 8080 of a pod through the API server of rome.
func proxied(t *testing.T, namespace, pod string) harness.Result {
	t.Helper()
	return rome.Kubectl(t.Context(), "get", "--raw", "/api/v1/namespaces/"+namespace+"/pods/http:"+pod+":8080/proxy/")
}

// addressesOfRome returns addresses that no pod of another cluster has: of a pod, of a node and of the API server. The
// API server of rome reaches the pod at port 8080.
func addressesOfRome(t *testing.T) map[string]string {
	t.Helper()
	api := must(rome.Kube.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}))(t)
	pod := onEachNode(t, rome)[0].pod
	if result := proxied(t, pod.Namespace, pod.Name); result.Err != nil {
		t.Fatalf("the API server of rome does not reach a pod of rome: %s", result.Stderr)
	}
	return map[string]string{
		"a pod":          pod.Status.PodIP,
		"a node":         nodeAddress(realNodes(t, rome)[0]),
		"the API server": api.Spec.ClusterIP,
	}
}

// withEachTrust runs a check while rome trusts milan as a tenant and as an owner of both clusters.
func withEachTrust(t *testing.T, check func(t *testing.T, trust v1alpha1.PeeringTrust)) {
	t.Helper()
	trusts := func(ctx context.Context, trust string) error {
		return rome.Kubectl(ctx, "patch", "foreigncluster", "milan", "--type=merge", "-p", `{"spec":{"trust":`+trust+`}}`).Err
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), soon)
		defer cancel()
		if err := trusts(ctx, "null"); err != nil {
			t.Error(err)
		}
	})
	for _, trust := range []v1alpha1.PeeringTrust{v1alpha1.TrustTenant, v1alpha1.TrustSameOwner} {
		t.Run(string(trust), func(t *testing.T) {
			if err := trusts(t.Context(), `"`+string(trust)+`"`); err != nil {
				t.Fatal(err)
			}
			check(t, trust)
		})
	}
}

// providersReportNoLocalAddresses reports addresses of rome as the address of an offloaded pod, which rome does not
// accept with any networking: they would direct requests for a Service of rome to other pods, nodes or the API server.
func providersReportNoLocalAddresses(t *testing.T) {
	lies := addressesOfRome(t)
	l := startsLying(t)
	t.Cleanup(func() { setsNetworking(t, "null") })
	withEachTrust(t, func(t *testing.T, _ v1alpha1.PeeringTrust) {
		for networking, other := range map[string]string{"None": "", "Flat": "198.18.0.7"} {
			setsNetworking(t, `"`+networking+`"`)
			eventually(t, soon, "the address 198.18.0.7 to be accepted or not", func(context.Context) (bool, string, error) {
				got := l.reportsAddress(t, "198.18.0.7")
				return got == other, got, nil
			})
			for of, lie := range lies {
				// The pod keeps its last accepted address.
				if got := l.reportsAddress(t, lie); got != other {
					t.Errorf("with networking %s and the address of %s of rome, an offloaded pod has %q", networking, of, got)
				}
				if networking != "None" {
					continue
				}
				if result := proxied(t, l.namespace, "web"); result.Err == nil {
					t.Errorf("a pod without an address answers through the API server: %s", result.Stdout)
				}
			}
		}
	})
}

// providersReportAddressesOfTheirTunnel reports addresses of rome as the address of an offloaded pod. Rome accepts none
// but those in the ranges that the clusters agreed on, and translates them to addresses of milan.
func (f fabric) providersReportAddressesOfTheirTunnel(t *testing.T) {
	lies := addressesOfRome(t)
	l := startsLying(t)
	honest := podReady(t, milan, l.remote, "web").Status.PodIP
	withEachTrust(t, func(t *testing.T, _ v1alpha1.PeeringTrust) {
		if got, want := l.reportsAddress(t, honest), f.seenFrom(t, rome, honest); got != want {
			t.Errorf("the offloaded pod with the address %s has %s on rome, want %s", honest, got, want)
		}
		for of, lie := range lies {
			if got := l.reportsAddress(t, lie); got == lie {
				t.Errorf("an offloaded pod has the address %s of %s of rome", got, of)
			}
		}
	})
}
