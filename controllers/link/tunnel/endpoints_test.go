// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/link/gateway"
)

// exposed makes a cluster find the endpoints of its gateway by the Service, and returns the controller of
// the Service.
func exposed(w *world) *gateway.Reconciler {
	w.Settings.Endpoints = nil
	w.r.Finder = &gateway.Finder{Nodes: w.Controller, Installation: w.Controller, Namespace: installation}
	return &gateway.Reconciler{Client: w.Controller, Finder: w.r.Finder, Events: w.Events}
}

func serviceOf(kind corev1.ServiceType, ingress ...corev1.LoadBalancerIngress) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: v1alpha1.GatewayName},
		Spec: corev1.ServiceSpec{
			Type: kind, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:      []corev1.ServicePort{{Name: "wireguard", Protocol: corev1.ProtocolUDP, Port: 4500, NodePort: 30820}},
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: ingress}},
	}
}

// nodeAt returns a ready node with an internal address.
func nodeAt(name, address string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}},
	}}
}

func podOn(node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: "federation-gateway-" + node},
		Spec: corev1.PodSpec{NodeName: node}}
}

// replace deletes the object with the same name, and creates this one.
func (w *world) replace(object client.Object) {
	w.t.Helper()
	w.remove(object.DeepCopyObject().(client.Object))
	w.put(object)
}

func TestEndpointsOfAServiceAreAgreedUpon(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"),
		func() settings { s := settingsOf("10.2.0.0/16"); s.Endpoints = nil; return s }())
	service := exposed(rome)
	all := func() bool { return replicate(rome, milan) }
	expect := func(when string, want ...string) {
		t.Helper()
		settle(t, all, rome, milan)
		if te := milan.te(); te == nil || !slices.Equal(te.Spec.Endpoints, want) {
			t.Errorf("%s milan has the endpoints %v, want %v", when, te, want)
		}
	}
	expectEvent := func(want string) {
		t.Helper()
		if _, err := service.Reconcile(t.Context(), kit.Request(installation, v1alpha1.GatewayName)); err != nil {
			t.Fatal(err)
		}
		if events := rome.Recorded(); !slices.ContainsFunc(events,
			func(event string) bool { return strings.Contains(event, want) }) {
			t.Fatalf("the events are %q, want %q", events, want)
		}
	}
	expect("without a Service")
	rome.put(serviceOf(corev1.ServiceTypeLoadBalancer))
	expect("while the Service has no address")
	expectStatus(t, rome, v1alpha1.PeeringPending, ReasonConnecting,
		"Service liqo/federation-gateway has no address of a load balancer yet")
	expectEvent("Warning Unreachable Service liqo/federation-gateway has no address of a load balancer yet")
	rome.replace(serviceOf(corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: "192.0.2.1"}))
	expect("with an address", "192.0.2.1:4500")
	expectEvent("Normal Reachable Peers reach the gateway at 192.0.2.1:4500.")
	if c := condition(rome); strings.Contains(c.Message, "address") {
		t.Errorf("it is still reported that %s", c.Message)
	}

	// The node of a gateway stays in the announced endpoints while the gateway restarts, and is removed if the
	// gateway does not come back within settleTime.
	rome.replace(serviceOf(corev1.ServiceTypeNodePort))
	rome.put(nodeAt("a", "10.0.0.1"), nodeAt("b", "10.0.0.2"), podOn("a"), podOn("b"))
	expect("at first", "192.0.2.1:4500")
	rome.Clock.Step(settleTime)
	expect("of another type", "10.0.0.1:30820", "10.0.0.2:30820")
	rome.remove(podOn("a"))
	expect("just after a gateway stopped", "10.0.0.1:30820", "10.0.0.2:30820")
	if rome.after != settleTime {
		t.Errorf("requeued after %v", rome.after)
	}
	rome.put(podOn("a"))
	expect("with the gateway again", "10.0.0.1:30820", "10.0.0.2:30820")
	if rome.after != 0 {
		t.Errorf("requeued after %v", rome.after)
	}
	rome.remove(podOn("a"))
	expect("without it once more", "10.0.0.1:30820", "10.0.0.2:30820")
	rome.Clock.Step(settleTime - time.Second)
	expect("for almost too long", "10.0.0.1:30820", "10.0.0.2:30820")
	rome.Clock.Step(time.Second)
	expect("for long", "10.0.0.2:30820")
	rome.remove(serviceOf(corev1.ServiceTypeNodePort))
	expect("without the Service again")
}
