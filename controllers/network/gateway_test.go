// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	coordinationlisters "k8s.io/client-go/listers/coordination/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
)

// exposed makes a cluster learn from the Service of its gateway where that is
// called, and keep its EndpointSlice.
func exposed(w *world) *gatewayService {
	w.Settings.Endpoints = nil
	core := w.kube.CoreV1()
	w.gateways = &gateways{
		services: corelisters.NewServiceLister(indexed(w, func() []corev1.Service { return got(w, core.Services("").List).Items })).Services(installation),
		pods:     corelisters.NewPodLister(indexed(w, func() []corev1.Pod { return got(w, core.Pods("").List).Items })).Pods(installation),
		nodes:    corelisters.NewNodeLister(indexed(w, func() []corev1.Node { return got(w, core.Nodes().List).Items })),
	}
	return &gatewayService{
		Config: w.Config, gateways: w.gateways,
		leases: coordinationlisters.NewLeaseLister(indexed(w, func() []coordinationv1.Lease { return got(w, w.kube.CoordinationV1().Leases("").List).Items })).Leases(installation),
		slices: discoverylisters.NewEndpointSliceLister(indexed(w, func() []discoveryv1.EndpointSlice {
			return got(w, w.kube.DiscoveryV1().EndpointSlices("").List).Items
		})).EndpointSlices(installation),
	}
}

// serviceOf is the Service as the chart makes it.
func serviceOf(kind corev1.ServiceType, policy corev1.ServiceExternalTrafficPolicy, ingress ...corev1.LoadBalancerIngress) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: v1alpha1.GatewayName},
		Spec: corev1.ServiceSpec{
			Type: kind, ExternalTrafficPolicy: policy, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "wireguard", Protocol: corev1.ProtocolUDP, Port: 4500, TargetPort: intstr.FromInt32(51820), NodePort: 30820}},
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: ingress}},
	}
}

// nodeOf is a node that is ready, with addresses as "E 192.0.2.1" and "I 10.0.0.1".
func nodeOf(name string, addresses ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, text := range addresses {
		kind, address, _ := strings.Cut(text, " ")
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{
			Type: map[string]corev1.NodeAddressType{"E": corev1.NodeExternalIP, "I": corev1.NodeInternalIP}[kind], Address: address,
		})
	}
	return node
}

func podOn(node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: "liqo-gateway-" + node}, Spec: corev1.PodSpec{NodeName: node}}
}

func leaseOf(node string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: v1alpha1.GatewayName}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &node},
	}
}

func TestAServiceTellsWhereTheGatewayIsCalled(t *testing.T) {
	const local, anywhere = corev1.ServiceExternalTrafficPolicyLocal, corev1.ServiceExternalTrafficPolicyCluster
	inside := []*corev1.Node{nodeOf("c", "I 10.0.0.3"), nodeOf("a", "I 10.0.0.1"), nodeOf("b", "I 10.0.0.2")}
	for name, test := range map[string]struct {
		service *corev1.Service
		nodes   []*corev1.Node
		pods    []*corev1.Pod
		want    []string
	}{
		"a load balancer without an address": {service: serviceOf(corev1.ServiceTypeLoadBalancer, local), nodes: inside},
		"load balancers, in one order": {
			service: serviceOf(corev1.ServiceTypeLoadBalancer, local, corev1.LoadBalancerIngress{Hostname: "lb.example.org"}, corev1.LoadBalancerIngress{IP: "192.0.2.1"}),
			want:    []string{"192.0.2.1:4500", "lb.example.org:4500"},
		},
		"a load balancer of IPv6": {
			service: serviceOf(corev1.ServiceTypeLoadBalancer, local, corev1.LoadBalancerIngress{IP: "2001:DB8:0::1"}), want: []string{"[2001:db8::1]:4500"},
		},
		"what no peer would call": {
			service: serviceOf(corev1.ServiceTypeLoadBalancer, local, corev1.LoadBalancerIngress{IP: "127.0.0.1"}, corev1.LoadBalancerIngress{Hostname: "localhost"}, corev1.LoadBalancerIngress{}),
		},
		"any node, the gateways' first": {
			service: serviceOf(corev1.ServiceTypeNodePort, anywhere), nodes: inside, pods: []*corev1.Pod{podOn("c")},
			want: []string{"10.0.0.3:30820", "10.0.0.1:30820", "10.0.0.2:30820"},
		},
		"the gateways' nodes alone": {
			service: serviceOf(corev1.ServiceTypeNodePort, local), nodes: inside, pods: []*corev1.Pod{podOn("c"), podOn("b")},
			want: []string{"10.0.0.2:30820", "10.0.0.3:30820"},
		},
		"no gateway to lead to": {service: serviceOf(corev1.ServiceTypeNodePort, local), nodes: inside},
		"a pod that has ended": {
			service: serviceOf(corev1.ServiceTypeNodePort, local), nodes: inside,
			pods: []*corev1.Pod{func() *corev1.Pod { p := podOn("a"); p.Status.Phase = corev1.PodFailed; return p }(), podOn("")},
		},
		"external addresses, if there are any": {
			service: serviceOf(corev1.ServiceTypeNodePort, anywhere), nodes: append(inside, nodeOf("d", "I 10.0.0.4", "E 192.0.2.4")), want: []string{"192.0.2.4:30820"},
		},
		"the family of the Service": {
			service: serviceOf(corev1.ServiceTypeNodePort, anywhere), nodes: []*corev1.Node{nodeOf("a", "I fd00::1", "E 2001:db8::1", "I 10.0.0.1")}, want: []string{"10.0.0.1:30820"},
		},
		"no node that is not ready, goes, or is virtual": {
			service: serviceOf(corev1.ServiceTypeNodePort, anywhere),
			nodes: []*corev1.Node{
				func() *corev1.Node {
					n := nodeOf("a", "I 10.0.0.1")
					n.Status.Conditions[0].Status = corev1.ConditionUnknown
					return n
				}(),
				func() *corev1.Node {
					n := nodeOf("b", "I 10.0.0.2")
					n.DeletionTimestamp = ptr.To(metav1.Now())
					return n
				}(),
				func() *corev1.Node {
					n := nodeOf("v", "I 10.0.0.9")
					n.Labels = map[string]string{v1alpha1.LabelType: v1alpha1.TypeVirtualNode}
					return n
				}(),
			},
		},
		"a Service of the cluster alone": {service: serviceOf(corev1.ServiceTypeClusterIP, ""), nodes: inside, pods: []*corev1.Pod{podOn("a")}},
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
				t.Errorf("it is called elsewhere (-want +got):\n%s", diff)
			}
		})
	}
}

// In whatever order nodes, pods and addresses come, the same is said, it is no
// more than may be said, and each of it is something to call.
func TestWhereTheGatewayIsCalledDependsOnNoOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		service := serviceOf(
			rapid.SampledFrom([]corev1.ServiceType{corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer}).Draw(t, "type"),
			rapid.SampledFrom([]corev1.ServiceExternalTrafficPolicy{"Local", "Cluster"}).Draw(t, "policy"))
		var nodes []*corev1.Node
		var pods []*corev1.Pod
		for i := range rapid.IntRange(0, 12).Draw(t, "nodes") {
			name := fmt.Sprintf("node-%d", i)
			addresses := []string{fmt.Sprintf("I 10.0.0.%d", i)}
			if rapid.Bool().Draw(t, name+" is outside") {
				addresses = append(addresses, fmt.Sprintf("E 192.0.2.%d", i))
			}
			nodes = append(nodes, nodeOf(name, addresses...))
			if rapid.Bool().Draw(t, name+" has a gateway") {
				pods = append(pods, podOn(name))
			}
			service.Status.LoadBalancer.Ingress = append(service.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: fmt.Sprintf("198.51.100.%d", i)})
		}
		want := endpointsOf(service, nodes, pods)
		shuffled := service.DeepCopy()
		shuffled.Status.LoadBalancer.Ingress = rapid.Permutation(service.Status.LoadBalancer.Ingress).Draw(t, "ingress")
		if said := endpointsOf(shuffled, rapid.Permutation(nodes).Draw(t, "order"), rapid.Permutation(pods).Draw(t, "pods")); !slices.Equal(said, want) {
			t.Fatalf("it says %v, and %v in another order", want, said)
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

// put has the cluster hold an object, whether it was there or not.
func (w *world) put(objects ...any) {
	w.t.Helper()
	update := metav1.UpdateOptions{}
	for _, object := range objects {
		var err error
		switch o := object.(type) {
		case *corev1.Service:
			if _, err = w.kube.CoreV1().Services(installation).Update(w.ctx(), o, update); err != nil {
				_, err = w.kube.CoreV1().Services(installation).Create(w.ctx(), o, createOptions)
			}
		case *corev1.Node:
			if _, err = w.kube.CoreV1().Nodes().Update(w.ctx(), o, update); err != nil {
				_, err = w.kube.CoreV1().Nodes().Create(w.ctx(), o, createOptions)
			}
		case *corev1.Pod:
			_, err = w.kube.CoreV1().Pods(installation).Create(w.ctx(), o, createOptions)
		case *coordinationv1.Lease:
			if _, err = w.kube.CoordinationV1().Leases(installation).Update(w.ctx(), o, update); err != nil {
				_, err = w.kube.CoordinationV1().Leases(installation).Create(w.ctx(), o, createOptions)
			}
		default:
			w.t.Fatalf("%T is put nowhere", object)
		}
		w.do(nil, err)
	}
}

// leads reconciles the Service once, and tells where it leads: "node address
// port", or why not. Looking again writes nothing.
func leads(w *world, s *gatewayService) string {
	w.t.Helper()
	for range 2 {
		w.refresh()
		if _, err := s.reconcile(w.ctx(), cache.ObjectName{}); err != nil {
			return err.Error()
		}
	}
	w.refresh()
	w.kube.ClearActions()
	if _, err := s.reconcile(w.ctx(), cache.ObjectName{}); err != nil {
		return err.Error()
	}
	for _, action := range w.kube.Actions() {
		w.t.Errorf("with nothing to do there is a %s of %s", action.GetVerb(), action.GetResource().Resource)
	}
	found := got(w, w.kube.DiscoveryV1().EndpointSlices(installation).List).Items
	if len(found) == 0 {
		return "no slice"
	}
	if len(found[0].Endpoints) == 0 {
		return "nowhere"
	}
	one := found[0].Endpoints[0]
	return fmt.Sprintf("%s %s %d", *one.NodeName, strings.Join(one.Addresses, ","), *found[0].Ports[0].Port)
}

func TestTheServiceLeadsToTheActiveGateway(t *testing.T) {
	w := newWorld(t, "rome", romeID, "milan", milanID, settingsOf("10.1.0.0/16"))
	s := exposed(w)
	expect := func(when, want string) {
		t.Helper()
		if got := leads(w, s); got != want {
			t.Errorf("%s it leads to %q, want %q", when, got, want)
		}
	}
	expect("without a Service", "no slice")
	w.put(nodeOf("a", "I 10.0.0.1", "E 192.0.2.1"), nodeOf("b", "I fd00::2", "I 10.0.0.2"), podOn("a"), podOn("b"))
	service := serviceOf(corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal)
	service.UID = "service"
	w.put(service)
	expect("before a gateway is active", "nowhere")
	w.put(leaseOf("a"))
	expect("while a is active", "a 10.0.0.1 51820")
	w.put(leaseOf(""))
	expect("between two", "a 10.0.0.1 51820")
	w.put(leaseOf("b"))
	expect("after the Lease has moved", "b 10.0.0.2 51820")
	w.put(nodeOf("b", "I 10.0.0.22"))
	expect("after the node has moved", "b 10.0.0.22 51820")
	w.do(nil, w.kube.CoreV1().Nodes().Delete(t.Context(), "b", metav1.DeleteOptions{}))
	expect("without the node", "nowhere")
	w.put(leaseOf("a"))
	expect("when another one has taken over", "a 10.0.0.1 51820")

	slice := got(w, w.kube.DiscoveryV1().EndpointSlices(installation).List).Items[0]
	service = got(w, w.kube.CoreV1().Services(installation).List).Items[0].DeepCopy()
	if owner := slice.OwnerReferences; len(owner) != 1 || owner[0].UID != service.UID || owner[0].Kind != "Service" {
		t.Errorf("it is owned by %v", owner)
	}
	if name := *slice.Ports[0].Name; slice.Labels[discoveryv1.LabelServiceName] != service.Name || name != "wireguard" || *slice.Ports[0].Protocol != corev1.ProtocolUDP {
		t.Errorf("it is of no port of the Service: %v, %v", slice.Labels, slice.Ports)
	}

	service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
	w.put(service, nodeOf("a", "I 10.0.0.1", "I fd00::1"))
	expect("in another family", "a fd00::1 51820")
	w.do(nil, w.kube.CoreV1().Services(installation).Delete(t.Context(), v1alpha1.GatewayName, metav1.DeleteOptions{}))
	expect("when the Service is gone", "no slice")
}

func TestASliceOfSomebodyElseIsLeftAlone(t *testing.T) {
	w := newWorld(t, "rome", romeID, "milan", milanID, settingsOf("10.1.0.0/16"))
	s := exposed(w)
	w.do(w.kube.DiscoveryV1().EndpointSlices(installation).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: v1alpha1.GatewayName}, AddressType: discoveryv1.AddressTypeIPv4,
	}, createOptions))
	if got := leads(w, s); got != "nowhere" {
		t.Errorf("without a Service it is %q", got)
	}
	w.put(serviceOf(corev1.ServiceTypeNodePort, "Local"), nodeOf("a", "I 10.0.0.1"), podOn("a"), leaseOf("a"))
	if got := leads(w, s); !strings.Contains(got, "somebody else's") {
		t.Errorf("it is %q", got)
	}
}

func TestEndpointsOfAServiceAreAgreedUpon(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"), func() settings { s := settingsOf("10.2.0.0/16"); s.Endpoints = nil; return s }())
	s := exposed(rome)
	all := func() bool { return replicate(rome, milan) }
	expect := func(when string, want ...string) {
		t.Helper()
		settle(t, all, rome, milan)
		if te := milan.te(); te == nil || !slices.Equal(te.Spec.Endpoints, want) {
			t.Errorf("%s milan calls %v, want %v", when, te, want)
		}
	}
	said := func(want string) {
		t.Helper()
		leads(rome, s)
		for {
			select {
			case event := <-rome.events.Events:
				if strings.Contains(event, want) {
					return
				}
			default:
				t.Fatalf("no event says %q", want)
			}
		}
	}
	expect("without a Service")
	rome.put(serviceOf(corev1.ServiceTypeLoadBalancer, "Local"))
	expect("while the Service has no address")
	expectStatus(t, rome, v1alpha1.PeeringPending, ReasonConnecting, "Service liqo/liqo-gateway has been given no address yet")
	said("Warning Unreachable Service liqo/liqo-gateway has been given no address yet")
	rome.put(serviceOf(corev1.ServiceTypeLoadBalancer, "Local", corev1.LoadBalancerIngress{IP: "192.0.2.1"}))
	expect("with an address", "192.0.2.1:4500")
	said("Normal Reachable Other clusters call the gateway at 192.0.2.1:4500.")
	if c := condition(rome); strings.Contains(c.Message, "address") {
		t.Errorf("it is still said that %s", c.Message)
	}

	// A gateway that is started anew is not told to anybody, one that stays away
	// is.
	rome.put(serviceOf(corev1.ServiceTypeNodePort, "Local"), nodeOf("a", "I 10.0.0.1"), nodeOf("b", "I 10.0.0.2"), podOn("a"), podOn("b"))
	expect("for a moment", "192.0.2.1:4500")
	rome.clock.SetTime(rome.clock.Now().Add(patience))
	expect("of another type", "10.0.0.1:30820", "10.0.0.2:30820")
	rome.do(nil, rome.kube.CoreV1().Pods(installation).Delete(t.Context(), podOn("a").Name, metav1.DeleteOptions{}))
	expect("without a gateway for a moment", "10.0.0.1:30820", "10.0.0.2:30820")
	if rome.after != patience {
		t.Errorf("it is looked at again after %v", rome.after)
	}
	rome.put(podOn("a"))
	expect("with the gateway again", "10.0.0.1:30820", "10.0.0.2:30820")
	if rome.after != 0 {
		t.Errorf("it is looked at again after %v", rome.after)
	}
	rome.do(nil, rome.kube.CoreV1().Pods(installation).Delete(t.Context(), podOn("a").Name, metav1.DeleteOptions{}))
	expect("without it once more", "10.0.0.1:30820", "10.0.0.2:30820")
	rome.clock.SetTime(rome.clock.Now().Add(patience - time.Second))
	expect("for almost too long", "10.0.0.1:30820", "10.0.0.2:30820")
	rome.clock.SetTime(rome.clock.Now().Add(time.Second))
	expect("for long", "10.0.0.2:30820")
	rome.do(nil, rome.kube.CoreV1().Services(installation).Delete(t.Context(), v1alpha1.GatewayName, metav1.DeleteOptions{}))
	expect("without the Service again")
}

func TestLeasesThatAreRenewedMoveNothing(t *testing.T) {
	renewed := leaseOf("a")
	renewed.Spec.RenewTime = ptr.To(metav1.NowMicro())
	handled := 0
	handler := unless(sameHolder, cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { handled++ }, UpdateFunc: func(any, any) { handled++ }, DeleteFunc: func(any) { handled++ },
	})
	handler.OnUpdate(leaseOf("a"), renewed)
	if handled != 0 {
		t.Error("a renewal is looked at")
	}
	handler.OnAdd(renewed, true)
	handler.OnUpdate(renewed, leaseOf("b"))
	handler.OnDelete(leaseOf("b"))
	if handled != 3 {
		t.Errorf("%d of 3 changes are looked at", handled)
	}
}
