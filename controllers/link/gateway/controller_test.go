// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

const installation = "liqo"

// world is a cluster with a gateway.
type world struct {
	*kittest.Cluster
	*Reconciler
	t *testing.T
}

func newWorld(t *testing.T) *world {
	cluster := kittest.New(t)
	return &world{Cluster: cluster, t: t, Reconciler: &Reconciler{
		Client: cluster.Controller, Events: cluster.Events,
		Finder: &Finder{Nodes: cluster.Controller, Installation: cluster.Controller, Namespace: installation},
	}}
}

// put creates objects, or replaces existing objects with their names.
func (w *world) put(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		w.Remove(object)
		w.Add(object)
	}
}

// slices returns the EndpointSlices of the installation.
func (w *world) slices() []discoveryv1.EndpointSlice {
	w.t.Helper()
	return kittest.List(w.Cluster, &discoveryv1.EndpointSliceList{}, client.InNamespace(installation)).Items
}

// leads reconciles the Service until nothing changes, and returns what it leads to as "node
// address port", or the error.
func (w *world) leads() string {
	w.t.Helper()
	request := kit.Request(installation, v1alpha1.GatewayName)
	for range 2 {
		if _, err := w.Reconcile(w.t.Context(), request); err != nil {
			return err.Error()
		}
	}
	before := len(w.Writes)
	if _, err := w.Reconcile(w.t.Context(), request); err != nil {
		return err.Error()
	}
	if writes := w.WritesSince(before); len(writes) > 0 {
		w.t.Errorf("a pass without a change writes %v", writes)
	}
	found := w.slices()
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
	w := newWorld(t)
	expect := func(when, want string) {
		t.Helper()
		if got := w.leads(); got != want {
			t.Errorf("%s it leads to %q, want %q", when, got, want)
		}
	}
	node := func(name string, addresses ...string) *corev1.Node { return ptr.To(nodeWith(name, addresses...)) }
	expect("without a Service", "no slice")
	w.put(node("a", "I 10.0.0.1", "E 192.0.2.1"), node("b", "I fd00::2", "I 10.0.0.2"), ptr.To(podOn("a")),
		ptr.To(podOn("b")))
	service := serviceOf(corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal)
	service.UID = "service"
	w.put(service)
	expect("before a gateway is active", "nowhere")
	w.put(leaseOf("a"))
	expect("while a is active", "a 10.0.0.1 51820")
	w.put(leaseOf(""))
	expect("while none is active", "a 10.0.0.1 51820")
	w.put(leaseOf("b"))
	expect("once b is active", "b 10.0.0.2 51820")
	w.put(node("b", "I 10.0.0.22"))
	expect("once the node has another address", "b 10.0.0.22 51820")
	w.Remove(node("b"))
	expect("without the node", "nowhere")
	w.put(leaseOf("a"))
	expect("once a is active again", "a 10.0.0.1 51820")

	slice := w.slices()[0]
	if owner := slice.OwnerReferences; len(owner) != 1 || owner[0].UID != service.UID || owner[0].Kind != "Service" {
		t.Errorf("its owners are %v", owner)
	}
	if name := *slice.Ports[0].Name; slice.Labels[discoveryv1.LabelServiceName] != service.Name || name != "wireguard" ||
		*slice.Ports[0].Protocol != corev1.ProtocolUDP {
		t.Errorf("labels %v and ports %v, want the labels and ports of the Service", slice.Labels, slice.Ports)
	}

	kittest.Change(w.Cluster, installation, service.Name, &corev1.Service{}, func(service *corev1.Service) {
		service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
	})
	w.put(node("a", "I 10.0.0.1", "I fd00::1"))
	expect("in another family", "a fd00::1 51820")
	w.Remove(service)
	expect("once the Service is deleted", "no slice")
}

func TestAnEndpointSliceOfAnotherOwnerIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.put(&discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: installation, Name: v1alpha1.GatewayName},
		AddressType: discoveryv1.AddressTypeIPv4,
	})
	if got := w.leads(); got != "nowhere" {
		t.Errorf("without a Service it is %q", got)
	}
	w.put(serviceOf(corev1.ServiceTypeNodePort, "Local"), ptr.To(nodeWith("a", "I 10.0.0.1")),
		ptr.To(podOn("a")), leaseOf("a"))
	if got := w.leads(); !strings.Contains(got, "has another owner") {
		t.Errorf("it is %q", got)
	}
}

func TestRenewalsOfTheLeaseRequestNoPass(t *testing.T) {
	renewed := leaseOf("a")
	renewed.Spec.RenewTime = ptr.To(metav1.NowMicro())
	selects := kit.Changed(holderChanged)
	if selects.Update(event.UpdateEvent{ObjectOld: leaseOf("a"), ObjectNew: renewed}) {
		t.Error("a renewal is selected")
	}
	if !selects.Create(event.CreateEvent{Object: renewed}) ||
		!selects.Update(event.UpdateEvent{ObjectOld: renewed, ObjectNew: leaseOf("b")}) ||
		!selects.Delete(event.DeleteEvent{Object: leaseOf("b")}) {
		t.Error("a new holder is not selected")
	}
}

// A pass that stops at a write is completed by the next one.
func TestTheServiceLeadsToTheActiveGatewayAfterDeathAtEachWrite(t *testing.T) {
	for _, done := range []bool{false, true} {
		w := newWorld(t)
		w.put(serviceOf(corev1.ServiceTypeNodePort, "Local"), ptr.To(nodeWith("a", "I 10.0.0.1")),
			ptr.To(podOn("a")), leaseOf("a"))
		w.Kill(0, done)
		if _, err := w.Reconcile(t.Context(), kit.Request(installation, v1alpha1.GatewayName)); err == nil {
			t.Fatal("the process was not killed")
		}
		w.Fault = nil
		if got := w.leads(); got != "a 10.0.0.1 51820" {
			t.Errorf("killed with the write done %v, it leads to %q", done, got)
		}
	}
}
