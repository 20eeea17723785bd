// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

const (
	romeID  = "5ad4b6a1-0c9e-4f43-9d0b-0c7b1f3a2e11"
	milanID = "b7f1c9d2-8a31-4c5e-b3f6-2d9e8c7a6f22"
	tenant  = "liqo-tenant-rome"
)

var list = kittest.Resources

// world is the fake provider milan, with the ForeignCluster of the consumer rome.
type world struct {
	*kittest.Cluster
	*Reconciler
	t *testing.T
	// resources are the resources that discovery returns.
	resources []metav1.APIResource
	failure   error
}

// ServerResourcesForGroupVersionWithContext implements kit.Discovery.
func (w *world) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	return &metav1.APIResourceList{APIResources: w.resources}, w.failure
}

// newWorld returns a provider with a policy and nodes, by default one node with 2 CPUs, and with an
// unanswered resource request.
func newWorld(t *testing.T, policy Policy, nodes ...*corev1.Node) *world {
	t.Helper()
	w := &world{t: t, Cluster: kittest.New(t,
		&v1alpha1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "rome", Finalizers: []string{v1alpha1.Finalizer}},
			Spec:       v1alpha1.ForeignClusterSpec{ClusterID: romeID, Incoming: v1alpha1.PeeringEnabled},
			Status:     v1alpha1.ForeignClusterStatus{TenantNamespace: tenant},
		},
		&v1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "rome", Generation: 1}},
	)}
	w.Reconciler = &Reconciler{
		Client: w.Controller, Kinds: kit.NewServedKinds(w, w.Clock), ClusterID: milanID, ClusterName: "milan", Policy: policy,
	}
	if len(nodes) == 0 {
		nodes = []*corev1.Node{{
			ObjectMeta: metav1.ObjectMeta{Name: "worker"},
			Status:     corev1.NodeStatus{Allocatable: list("cpu", "2", "memory", "4Gi", "pods", "110")},
		}}
	}
	w.setNodes(nodes...)
	return w
}

// setNodes replaces the nodes.
func (w *world) setNodes(nodes ...*corev1.Node) {
	w.t.Helper()
	if err := w.DeleteAllOf(w.t.Context(), &corev1.Node{}); err != nil {
		w.t.Fatal(err)
	}
	for _, node := range nodes {
		w.Add(node.DeepCopy())
	}
}

// pass reconciles ForeignCluster rome once, and returns the writes to the API server.
func (w *world) pass() []string {
	w.t.Helper()
	_, writes := w.Pass(w.Reconciler, kit.Request("", "rome"))
	return writes
}

// rests reconciles once more, and fails the test if anything is written.
func (w *world) rests(stage string) {
	w.t.Helper()
	if writes := w.pass(); len(writes) > 0 {
		w.t.Errorf("%s: a pass with nothing to change wrote %v", stage, writes)
	}
}

func (w *world) changeCluster(change func(*v1alpha1.ForeignCluster)) {
	w.t.Helper()
	kittest.Change(w.Cluster, "", "rome", &v1alpha1.ForeignCluster{}, change)
}

func (w *world) changeRequest(change func(*v1alpha1.ResourceRequest)) {
	w.t.Helper()
	kittest.Change(w.Cluster, tenant, "rome", &v1alpha1.ResourceRequest{}, change)
}

func (w *world) changeNode(name string, change func(*corev1.Node)) {
	w.t.Helper()
	kittest.Change(w.Cluster, "", name, &corev1.Node{}, change)
}

func (w *world) request() *v1alpha1.ResourceRequest {
	w.t.Helper()
	return kittest.Read(w.Cluster, tenant, "rome", &v1alpha1.ResourceRequest{})
}

// offer returns the offer milan, which has to exist.
func (w *world) offer() *v1alpha1.ResourceOffer {
	w.t.Helper()
	return kittest.Read(w.Cluster, tenant, "milan", &v1alpha1.ResourceOffer{})
}

// offerNames returns the names of all offers.
func (w *world) offerNames() []string {
	w.t.Helper()
	var names []string
	for _, offer := range kittest.List(w.Cluster, &v1alpha1.ResourceOfferList{}, client.InNamespace(tenant)).Items {
		names = append(names, offer.Name)
	}
	slices.Sort(names)
	return names
}

// answer returns the phase of the request, and the message of its condition Accepted.
func (w *world) answer() (v1alpha1.NegotiationPhase, string) {
	w.t.Helper()
	status := w.request().Status
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAccepted)
	if condition == nil {
		return status.Phase, ""
	}
	return status.Phase, condition.Message
}

// manual returns the default policy without AutoAccept.
func manual() Policy {
	policy := DefaultPolicy()
	policy.AutoAccept = false
	return policy
}

func text(resources corev1.ResourceList) map[string]string {
	words := map[string]string{}
	for name, quantity := range resources {
		words[string(name)] = quantity.String()
	}
	return words
}
