// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestObjectsRequestPassesOverTheirForeignCluster(t *testing.T) {
	other := milan()
	other.Name, other.Spec.InvitationSecretName = "naples", ""
	r := &Reconciler{Client: kittest.New(t, milan(), other).Controller}
	of := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	labelled := metav1.ObjectMeta{Name: "x", Labels: map[string]string{v1alpha1.LabelForeignCluster: "milan"}}
	for _, test := range []struct {
		name   string
		maps   func(context.Context, client.Object) []reconcile.Request
		object client.Object
		want   []string
	}{
		{
			"in a peer namespace", ofPeering,
			&v1alpha1.ResourceOffer{ObjectMeta: of("liqo-peer-milan", "milan")}, []string{"milan"},
		},
		{
			"in a tenant namespace", ofPeering,
			&v1alpha1.ResourceOffer{ObjectMeta: of("liqo-tenant-milan", "rome")}, []string{"milan"},
		},
		{"in another namespace", ofPeering, &v1alpha1.VirtualNode{ObjectMeta: of("shop", "milan")}, nil},
		{"with the label", ofLabel, &corev1.Namespace{ObjectMeta: labelled}, []string{"milan"}},
		{"without the label", ofLabel, &rbacv1.RoleBinding{ObjectMeta: of("shop", "x")}, nil},
		{"an invitation", r.invitedBy, &corev1.Secret{ObjectMeta: of("liqo-invitations", "invitation-milan")}, []string{"milan"}},
		{"another invitation", r.invitedBy, &corev1.Secret{ObjectMeta: of("liqo", "invitation-turin")}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, request := range test.maps(t.Context(), test.object) {
				got = append(got, request.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}
