// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
)

// serviceOf returns the Service as the chart creates it.
func serviceOf(kind corev1.ServiceType, policy corev1.ServiceExternalTrafficPolicy,
	ingress ...corev1.LoadBalancerIngress) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: v1alpha1.GatewayName},
		Spec: corev1.ServiceSpec{
			Type: kind, ExternalTrafficPolicy: policy, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "wireguard", Protocol: corev1.ProtocolUDP, Port: 4500,
				TargetPort: intstr.FromInt32(51820), NodePort: 30820}},
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: ingress}},
	}
}

// nodeWith returns a node that is ready, with addresses such as "E 192.0.2.1" (external) and
// "I 10.0.0.1" (internal).
func nodeWith(name string, addresses ...string) corev1.Node {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, text := range addresses {
		kind, address, _ := strings.Cut(text, " ")
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{
			Type:    map[string]corev1.NodeAddressType{"E": corev1.NodeExternalIP, "I": corev1.NodeInternalIP}[kind],
			Address: address,
		})
	}
	return node
}

func podOn(node string) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: "federation-gateway-" + node},
		Spec: corev1.PodSpec{NodeName: node}}
}

func leaseOf(node string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: v1alpha1.GatewayName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &node},
	}
}

func TestEndpointsOfTheGatewayAreThoseOfItsService(t *testing.T) {
	const local, anywhere = corev1.ServiceExternalTrafficPolicyLocal, corev1.ServiceExternalTrafficPolicyCluster
	inside := []corev1.Node{nodeWith("c", "I 10.0.0.3"), nodeWith("a", "I 10.0.0.1"), nodeWith("b", "I 10.0.0.2")}
	for name, test := range map[string]struct {
		service *corev1.Service
		nodes   []corev1.Node
		pods    []corev1.Pod
		want    []string
	}{
		"a load balancer without an address": {service: serviceOf(corev1.ServiceTypeLoadBalancer, local), nodes: inside},
		"load balancers, in one order": {
			service: serviceOf(corev1.ServiceTypeLoadBalancer, local, corev1.LoadBalancerIngress{Hostname: "lb.example.org"},
				corev1.LoadBalancerIngress{IP: "192.0.2.1"}),
			want: []string{"192.0.2.1:4500", "lb.example.org:4500"},
		},
		"a load balancer of IPv6": {
			service: serviceOf(corev1.ServiceTypeLoadBalancer, local, corev1.LoadBalancerIngress{IP: "2001:DB8:0::1"}),
			want:    []string{"[2001:db8::1]:4500"},
		},
		"addresses that no peer accepts": {
			service: serviceOf(corev1.ServiceTypeLoadBalancer, local, corev1.LoadBalancerIngress{IP: "127.0.0.1"},
				corev1.LoadBalancerIngress{Hostname: "localhost"}, corev1.LoadBalancerIngress{}),
		},
		"all nodes, those with a gateway first": {
			service: serviceOf(corev1.ServiceTypeNodePort, anywhere), nodes: inside, pods: []corev1.Pod{podOn("c")},
			want: []string{"10.0.0.3:30820", "10.0.0.1:30820", "10.0.0.2:30820"},
		},
		"only nodes with a gateway, with the policy Local": {
			service: serviceOf(corev1.ServiceTypeNodePort, local), nodes: inside, pods: []corev1.Pod{podOn("c"), podOn("b")},
			want: []string{"10.0.0.2:30820", "10.0.0.3:30820"},
		},
		"no gateway": {service: serviceOf(corev1.ServiceTypeNodePort, local), nodes: inside},
		"a finished pod, and one without a node": {
			service: serviceOf(corev1.ServiceTypeNodePort, local), nodes: inside,
			pods: []corev1.Pod{func() corev1.Pod { p := podOn("a"); p.Status.Phase = corev1.PodFailed; return p }(), podOn("")},
		},
		"external addresses, if there are any": {
			service: serviceOf(corev1.ServiceTypeNodePort, anywhere),
			nodes:   append(inside, nodeWith("d", "I 10.0.0.4", "E 192.0.2.4")), want: []string{"192.0.2.4:30820"},
		},
		"the family of the Service": {
			service: serviceOf(corev1.ServiceTypeNodePort, anywhere),
			nodes:   []corev1.Node{nodeWith("a", "I fd00::1", "E 2001:db8::1", "I 10.0.0.1")}, want: []string{"10.0.0.1:30820"},
		},
		"nodes that are not ready, are being deleted, or are virtual": {
			service: serviceOf(corev1.ServiceTypeNodePort, anywhere),
			nodes: []corev1.Node{
				func() corev1.Node {
					n := nodeWith("a", "I 10.0.0.1")
					n.Status.Conditions[0].Status = corev1.ConditionUnknown
					return n
				}(),
				func() corev1.Node {
					n := nodeWith("b", "I 10.0.0.2")
					n.DeletionTimestamp = ptr.To(metav1.Now())
					return n
				}(),
				func() corev1.Node {
					n := nodeWith("v", "I 10.0.0.9")
					n.Labels = map[string]string{v1alpha1.LabelType: v1alpha1.TypeVirtualNode}
					return n
				}(),
			},
		},
		"a Service that is not reached from outside": {service: serviceOf(corev1.ServiceTypeClusterIP, ""), nodes: inside, pods: []corev1.Pod{podOn("a")}},
		"a Service without UDP": {
			service: func() *corev1.Service {
				s := serviceOf(corev1.ServiceTypeNodePort, anywhere)
				s.Spec.Ports[0].Protocol = corev1.ProtocolTCP
				return s
			}(), nodes: inside,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, endpointsOf(test.service, test.nodes, test.pods)); diff != "" {
				t.Errorf("endpoints (-want +got):\n%s", diff)
			}
		})
	}
}

// The order of nodes, pods and addresses changes nothing, and every endpoint is one that a
// NetworkConfig may name.
func TestEndpointsOfTheGatewayDoNotDependOnAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		service := serviceOf(
			rapid.SampledFrom([]corev1.ServiceType{corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer}).Draw(t, "type"),
			rapid.SampledFrom([]corev1.ServiceExternalTrafficPolicy{"Local", "Cluster"}).Draw(t, "policy"))
		var nodes []corev1.Node
		var pods []corev1.Pod
		for i := range rapid.IntRange(0, 12).Draw(t, "nodes") {
			name := fmt.Sprintf("node-%d", i)
			addresses := []string{fmt.Sprintf("I 10.0.0.%d", i)}
			if rapid.Bool().Draw(t, name+" is outside") {
				addresses = append(addresses, fmt.Sprintf("E 192.0.2.%d", i))
			}
			nodes = append(nodes, nodeWith(name, addresses...))
			if rapid.Bool().Draw(t, name+" has a gateway") {
				pods = append(pods, podOn(name))
			}
			service.Status.LoadBalancer.Ingress = append(service.Status.LoadBalancer.Ingress,
				corev1.LoadBalancerIngress{IP: fmt.Sprintf("198.51.100.%d", i)})
		}
		want := endpointsOf(service, nodes, pods)
		shuffled := service.DeepCopy()
		shuffled.Status.LoadBalancer.Ingress = rapid.Permutation(service.Status.LoadBalancer.Ingress).Draw(t, "ingress")
		got := endpointsOf(shuffled, rapid.Permutation(nodes).Draw(t, "order"), rapid.Permutation(pods).Draw(t, "pods"))
		if !slices.Equal(got, want) {
			t.Fatalf("endpoints %v, and %v in another order", want, got)
		}
		if len(want) > validation.MaxTunnelEndpoints {
			t.Fatalf("%d endpoints", len(want))
		}
		for _, endpoint := range want {
			if errs := validation.ValidateEndpoint(endpoint); len(errs) > 0 {
				t.Fatal(errs)
			}
		}
	})
}
