// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"testing"

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
	peerOf  = "liqo-peer-milan"
)

var list = kittest.Resources

// world is the fake consumer rome, with the ForeignCluster of the provider milan.
type world struct {
	*kittest.Cluster
	*Reconciler
	t *testing.T
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, Cluster: kittest.New(t, &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "milan"},
		Spec: v1alpha1.ForeignClusterSpec{ClusterID: milanID, Outgoing: v1alpha1.PeeringEnabled,
			Resources: list("cpu", "1")},
		Status: v1alpha1.ForeignClusterStatus{PeerNamespace: peerOf, RemoteTenantNamespace: "liqo-tenant-rome"},
	})}
	w.Reconciler = &Reconciler{Client: w.Controller, ClusterName: "rome", AutoAccept: true}
	return w
}

// pass reconciles ForeignCluster milan once, and returns the writes to the API server.
func (w *world) pass() []string {
	w.t.Helper()
	_, writes := w.Pass(w.Reconciler, kit.Request("", "milan"))
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
	kittest.Change(w.Cluster, "", "milan", &v1alpha1.ForeignCluster{}, change)
}

func (w *world) changeRequest(change func(*v1alpha1.ResourceRequest)) {
	w.t.Helper()
	kittest.Change(w.Cluster, peerOf, "rome", &v1alpha1.ResourceRequest{}, change)
}

func (w *world) changeOffer(name string, change func(*v1alpha1.ResourceOffer)) {
	w.t.Helper()
	kittest.Change(w.Cluster, peerOf, name, &v1alpha1.ResourceOffer{}, change)
}

func (w *world) changeNode(name string, change func(*v1alpha1.VirtualNode)) {
	w.t.Helper()
	kittest.Change(w.Cluster, peerOf, name, &v1alpha1.VirtualNode{}, change)
}

// withdraw sets spec.withdrawn of an offer, as the provider does.
func (w *world) withdraw(name string) {
	w.t.Helper()
	w.changeOffer(name, func(offer *v1alpha1.ResourceOffer) { offer.Spec.Withdrawn = true })
}

// offer creates an offer of milan.
func (w *world) offer(name string, changes ...func(*v1alpha1.ResourceOffer)) {
	w.t.Helper()
	offer := &v1alpha1.ResourceOffer{
		ObjectMeta: metav1.ObjectMeta{Namespace: peerOf, Name: name, Generation: 1},
		Spec: v1alpha1.ResourceOfferSpec{
			ClusterID: milanID, Resources: list("cpu", "1"), Labels: map[string]string{"topology.liqo.io/region": "north"},
		},
	}
	for _, change := range changes {
		change(offer)
	}
	w.Add(offer)
}

// nodes returns the virtual nodes of milan, sorted by name.
func (w *world) nodes() []v1alpha1.VirtualNode {
	w.t.Helper()
	return kittest.List(w.Cluster, &v1alpha1.VirtualNodeList{}, client.InNamespace(peerOf)).Items
}

// answer returns the phase of an offer, and the message of its condition Accepted.
func (w *world) answer(name string) (v1alpha1.NegotiationPhase, string) {
	w.t.Helper()
	status := kittest.Read(w.Cluster, peerOf, name, &v1alpha1.ResourceOffer{}).Status
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAccepted)
	if condition == nil {
		return status.Phase, ""
	}
	return status.Phase, condition.Message
}
