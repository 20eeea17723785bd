// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
)

// owns has a world's cluster have a node with addresses and pods.
func (w *world) owns(name string, addresses []string, pods ...string) {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: pods}}
	if strings.HasPrefix(name, "liqo-") {
		node.Labels = map[string]string{v1alpha1.LabelType: v1alpha1.TypeVirtualNode}
	}
	for _, address := range addresses {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	w.do(w.kube.CoreV1().Nodes().Create(w.ctx(), node, createOptions))
}

func (w *world) reserved() []string {
	w.t.Helper()
	for _, pool := range got(w, w.federation.FederationV1alpha1().AddressPools().List).Items {
		if pool.Name == v1alpha1.DefaultAddressPool {
			return pool.Spec.Reserved
		}
	}
	return nil
}

func TestWhatThisClusterHasByItselfIsReserved(t *testing.T) {
	settings := settingsOf("10.0.0.0/16")
	settings.NodeCIDRs = []string{"192.168.1.0/24"}
	rome, _ := peers(t, settings, settingsOf("10.0.0.0/16"))
	services := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12", "fd00:96::/112"}}}
	rome.do(rome.kube.NetworkingV1().ServiceCIDRs().Create(rome.ctx(), services, createOptions))
	servers := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.168.1.1"}}, {Addresses: []string{"192.168.7.53"}}},
	}
	rome.do(rome.kube.DiscoveryV1().EndpointSlices(servers.Namespace).Create(rome.ctx(), servers, createOptions))
	rome.owns("named", []string{"192.168.1.1"}, "10.0.1.0/24")
	rome.owns("elsewhere", []string{"172.18.0.9", "fd00::9", "127.0.0.1", "no address"}, "10.200.1.0/24")
	rome.owns("its-pods-are-no-range", []string{"10.200.1.7"})
	rome.owns("liqo-milan", []string{"10.99.0.1", "172.31.0.1"})
	rome.pass()
	want := []string{"10.0.0.0/16", "192.168.1.0/24", "10.96.0.0/12", "10.200.1.0/24", "172.18.0.9/32", "192.168.7.53/32", "fd00:96::/112", "fd00::9/128"}
	if diff := cmp.Diff(want, rome.reserved()); diff != "" {
		t.Errorf("reserved (-want +got):\n%s", diff)
	}
	rome.do(nil, rome.kube.CoreV1().Nodes().Delete(rome.ctx(), "elsewhere", metav1.DeleteOptions{}))
	rome.pass()
	want = []string{"10.0.0.0/16", "192.168.1.0/24", "10.96.0.0/12", "10.200.1.7/32", "192.168.7.53/32", "fd00:96::/112"}
	if diff := cmp.Diff(want, rome.reserved()); diff != "" {
		t.Errorf("reserved without the node (-want +got):\n%s", diff)
	}
}

func TestNodesThatNobodyNamedDoNotFillAPool(t *testing.T) {
	rome, _ := peers(t, settingsOf("10.0.0.0/16"), settingsOf("10.0.0.0/16"))
	rome.pass()
	for i := range validation.MaxReservedCIDRs + 3 {
		rome.owns(fmt.Sprintf("node-%d", i), []string{fmt.Sprintf("172.18.%d.%d", i/250, i%250)})
	}
	rome.pass()
	if ranges := rome.reserved(); len(ranges) != validation.MaxReservedCIDRs {
		t.Errorf("%d ranges are reserved", len(ranges))
	}
	told := ""
	for len(rome.events.Events) > 0 {
		if event := <-rome.events.Events; strings.Contains(event, ReasonTooManyRanges) {
			told += event
		}
	}
	if !strings.Contains(told, "4 more ranges and addresses") || !strings.Contains(told, "network.nodeCIDRs") {
		t.Errorf("told: %q", told)
	}
}

func TestWhatMattersOfAnAPIServerIsItsAddress(t *testing.T) {
	before := &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.168.7.53"}}}}
	for _, test := range []struct {
		name string
		do   func(*discoveryv1.EndpointSlice)
		same bool
	}{
		{"it is written anew", func(s *discoveryv1.EndpointSlice) { s.Generation++ }, true},
		{"it is ready", func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = new(bool) }, true},
		{"it is elsewhere", func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "192.168.7.54" }, false},
		{"there is another one", func(s *discoveryv1.EndpointSlice) {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"192.168.7.54"}})
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			after := before.DeepCopy()
			test.do(after)
			if got := sameServers(before, after); got != test.same {
				t.Errorf("it is the same: %v", got)
			}
		})
	}
}
