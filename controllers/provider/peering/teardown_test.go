// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/link/foreigncluster"
)

// stage is one reconcile of a peering that is being torn down: the change of the cluster before it, the
// expected writes and events, and the expected phase afterwards.
type stage struct {
	name   string
	before func()
	done   []string
	phase  v1alpha1.PeeringPhase
}

func (s stage) run(t *testing.T, p *provider, fc *v1alpha1.ForeignCluster) {
	t.Helper()
	t.Run(s.name, func(t *testing.T) {
		s.before()
		p.done = nil
		out, err := (&teardownStep{p.Config}).Reconcile(t.Context(), &foreigncluster.Pass{ForeignCluster: fc, Now: now})
		if err != nil || !out.Stop {
			t.Fatalf("outcome %+v, %v", out, err)
		}
		if diff := cmp.Diff(s.done, p.done); diff != "" || fc.Status.IncomingPeering != s.phase {
			t.Errorf("phase %s (-want +done):\n%s", fc.Status.IncomingPeering, diff)
		}
	})
}

// withdrawn sets spec.withdrawn of the consumer's resource request.
func (p *provider) withdrawn() {
	kittest.Change(p.Cluster, "liqo-tenant-rome", "rome", &v1alpha1.ResourceRequest{},
		func(r *v1alpha1.ResourceRequest) { r.Spec.Withdrawn = true })
}

func TestProviderRevokesLast(t *testing.T) {
	fc := rome()
	fc.DeletionTimestamp = &metav1.Time{Time: now}
	remoteNamespace := namespace("shop-rome", v1alpha1.RoleRemoteNamespace)
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-invitations", Name: "invitation-" + peeringUID},
	}
	p := newProvider(t, tenantNamespace(), acceptedRequest(nil), remoteNamespace, account,
		foreigncluster.RoleBinding("liqo-tenant-rome", naming.TenantRole),
		&v1alpha1.ResourceRequest{ObjectMeta: inTenant("rome")},
		&v1alpha1.ResourceOffer{
			ObjectMeta: inTenant("milan"), Spec: v1alpha1.ResourceOfferSpec{Withdrawn: true},
			Status: v1alpha1.ResourceOfferStatus{Phase: v1alpha1.NegotiationAccepted},
		})
	for _, stage := range []stage{
		{"reports it first", func() {}, nil, v1alpha1.PeeringDisconnecting},
		{"waits until the consumer releases the offer", func() {}, nil, v1alpha1.PeeringDisconnecting},
		{"waits for the remote namespaces of a consumer that withdrew its request", p.withdrawn, nil, v1alpha1.PeeringDisconnecting},
		{
			"answers, revokes and deletes", func() { p.Remove(remoteNamespace) },
			[]string{
				"patch status ResourceRequest rome", "delete RoleBinding federation-tenant in liqo-tenant-rome",
				"delete Namespace liqo-tenant-rome",
			},
			v1alpha1.PeeringDisconnecting,
		},
		{"waits for the namespace", func() {}, nil, v1alpha1.PeeringDisconnecting},
		{
			"deletes the identity and its invitation at the end", func() { p.Remove(tenantNamespace()) },
			[]string{"delete ServiceAccount invitation-" + peeringUID, "delete IdentityRequest invitation-" + peeringUID},
			v1alpha1.PeeringNone,
		},
		{"does nothing any more", func() {}, nil, v1alpha1.PeeringNone},
	} {
		stage.run(t, p, fc)
	}
}

func TestUnreachableConsumerLosesItsAccessAtTheDeadline(t *testing.T) {
	fc := rome()
	fc.Spec.Incoming = v1alpha1.PeeringDisabled
	foreigncluster.Incoming.Disconnect(fc, now)
	p := newProvider(t, tenantNamespace(),
		&v1alpha1.ResourceRequest{ObjectMeta: inTenant("rome")},
		&v1alpha1.ResourceOffer{
			ObjectMeta: inTenant("milan"), Status: v1alpha1.ResourceOfferStatus{Phase: v1alpha1.NegotiationAccepted},
		},
		// This remote namespace is never deleted, as if it had a pod on a lost node.
		namespace("web-rome", v1alpha1.RoleRemoteNamespace), foreigncluster.RoleBinding("web-rome", consumerRole),
		foreigncluster.RoleBinding("liqo-tenant-rome", naming.TenantRole))
	late := &foreigncluster.Pass{ForeignCluster: fc, Now: now.Add(301 * time.Second)}
	if _, err := (&teardownStep{p.Config}).Reconcile(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	want := []string{
		foreigncluster.ReasonDisconnectTimedOut, "delete RoleBinding federation-remote-namespace in web-rome",
		"delete RoleBinding federation-tenant in liqo-tenant-rome", "delete Namespace liqo-tenant-rome",
	}
	if diff := cmp.Diff(want, p.done); diff != "" {
		t.Errorf("after the deadline (-want +done):\n%s", diff)
	}
}

func TestVolumesOutliveTheIncomingPeering(t *testing.T) {
	fc := rome()
	fc.Spec.Incoming = v1alpha1.PeeringDisabled
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "db-0"}}
	shadowPod := &v1alpha1.ShadowPod{ObjectMeta: pod.ObjectMeta}
	claim := &v1alpha1.ShadowVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "data-db-0-0a1b2c3d"}}
	p := newProvider(t, tenantNamespace(), namespace("shop-rome", v1alpha1.RoleRemoteNamespace), pod, shadowPod,
		foreigncluster.RoleBinding("shop-rome", consumerRole),
		foreigncluster.RoleBinding("liqo-tenant-rome", naming.TenantRole),
		&v1alpha1.ResourceRequest{ObjectMeta: inTenant("rome"), Spec: v1alpha1.ResourceRequestSpec{Withdrawn: true}})
	for _, stage := range []stage{
		{"it begins", func() {}, nil, v1alpha1.PeeringDisconnecting},
		{"it waits for a namespace without volumes", func() {}, nil, v1alpha1.PeeringDisconnecting},
		{"it waits for shadow pods", func() { p.Add(claim) }, nil, v1alpha1.PeeringDisconnecting},
		{"it waits for pods", func() { p.Remove(shadowPod) }, nil, v1alpha1.PeeringDisconnecting},
		{
			"it does not wait for volumes without pods", func() { p.Remove(pod) },
			[]string{
				reasonVolumesRemain, "patch status ResourceRequest rome",
				"delete RoleBinding federation-remote-namespace in shop-rome",
				"delete RoleBinding federation-tenant in liqo-tenant-rome",
				"delete Namespace liqo-tenant-rome",
			},
			v1alpha1.PeeringDisconnecting,
		},
		{"the remote namespace stays", func() { p.Remove(tenantNamespace()) }, nil, v1alpha1.PeeringNone},
	} {
		stage.run(t, p, fc)
	}
	condition := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionIncomingPeering)
	if condition == nil || !strings.Contains(condition.Message, "shop-rome. The data is available again") {
		t.Errorf("condition %+v", condition)
	}
}
