// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

// reflectionOf returns the RoleBinding in namespace shop that has these virtual nodes of milan.
func reflectionOf(virtualNodes ...string) *rbacv1.RoleBinding {
	b := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "federation-reflection", UID: "1",
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "federation-reflection"},
	}
	for _, name := range virtualNodes {
		b.Subjects = append(b.Subjects, rbacv1.Subject{
			Kind: rbacv1.ServiceAccountKind, Namespace: "liqo-peer-milan", Name: "federation-virtual-kubelet-" + name,
		})
	}
	return b
}

func TestVirtualKubeletsOfProvidersOfANamespaceReadIt(t *testing.T) {
	second := virtualNode()
	second.Name, second.Spec.NodeName = "gpu", "liqo-milan-gpu"
	ofParis := virtualNode()
	ofParis.Namespace = naming.PeerNamespace("paris")
	disabled := foreignCluster()
	disabled.Spec.Outgoing = v1alpha1.PeeringDisabled
	otherRole := reflectionOf("milan")
	otherRole.RoleRef.Name = "cluster-admin"
	deleting := func(states ...state) client.Object {
		return offloadingOf("shop", time.Hour, deletedSince(0), reportedAs(t, states))
	}
	for _, test := range []struct {
		name    string
		objects []client.Object
		before  *rbacv1.RoleBinding
		want    *rbacv1.RoleBinding
	}{
		{
			name:    "selected provider",
			objects: []client.Object{foreignCluster(), virtualNode(), ofParis, offloadingOf("shop", 0)},
			want:    reflectionOf("milan"),
		},
		{
			name: "provider with two virtual nodes",
			objects: []client.Object{
				foreignCluster(), virtualNode(), second, offloadingOf("shop", 0), namespaceMap("shop"),
			},
			before: reflectionOf("milan"),
			want:   reflectionOf("gpu", "milan"),
		},
		{
			name:    "provider that is not selected and has the remote namespace",
			objects: []client.Object{disabled, virtualNode(), offloadingOf("shop", 0), namespaceMap("shop")},
			before:  reflectionOf("milan"),
			want:    reflectionOf("milan"),
		},
		{
			name:    "no provider",
			objects: []client.Object{disabled, virtualNode(), offloadingOf("shop", 0), namespaceMap()},
			before:  reflectionOf("milan"),
		},
		{
			name:    "binding of another role",
			objects: []client.Object{foreignCluster(), virtualNode(), offloadingOf("shop", 0)},
			before:  otherRole,
			want:    reflectionOf("milan"),
		},
		{
			name: "namespace with pods that is being unoffloaded",
			objects: []client.Object{
				foreignCluster(), virtualNode(), namespaceMap("shop"),
				deleting(
					state{cluster: "milan", requested: true, reported: &namespaceMap("shop").Status.Namespaces[0]},
				),
			},
			before: reflectionOf("milan"),
			want:   reflectionOf("milan"),
		},
		{
			name:    "unoffloaded namespace",
			objects: []client.Object{foreignCluster(), virtualNode(), deleting(state{cluster: "milan"})},
			before:  reflectionOf("milan"),
		},
		{
			name:    "unoffloaded namespace without a remote namespace",
			objects: []client.Object{deleting()},
			before:  reflectionOf("milan"),
		},
		{
			name:    "namespace that was never offloaded",
			objects: []client.Object{foreignCluster(), virtualNode()},
			before:  reflectionOf("milan"),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			objects := append(test.objects, labelled("shop"))
			if test.before != nil {
				objects = append(objects, test.before.DeepCopy())
			}
			c := newConsumer(t, objects...)
			c.pass()
			got := reflectionOf()
			if !c.Has(got) {
				got = nil
			}
			stored := cmpopts.IgnoreFields(metav1.ObjectMeta{}, "UID", "ResourceVersion")
			if diff := cmp.Diff(test.want, got, stored); diff != "" {
				t.Errorf("binding (-want +got):\n%s", diff)
			}
			wrote := 0
			for _, write := range c.Writes {
				if write.Kind == "RoleBinding" {
					wrote++
				}
			}
			if changed := !cmp.Equal(test.before, test.want); changed != (wrote > 0) {
				t.Errorf("%d writes of the binding, which has to change: %v", wrote, changed)
			}
		})
	}
}
