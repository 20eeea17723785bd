// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

func TestObjectsAreMappedToTheirVirtualNodes(t *testing.T) {
	w := newWorld(t)
	w.Add(&v1alpha1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: peer, Name: "second"}},
		&v1alpha1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "third"}})
	both := []reconcile.Request{kit.Request(peer, "milan"), kit.Request(peer, "second")}
	one := both[:1]
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	owned := named(peer, kubelet)
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "VirtualNode", Name: "milan", Controller: ptr.To(true)}}
	virtual := named("", "liqo-milan")
	virtual.Labels = map[string]string{v1alpha1.LabelType: v1alpha1.TypeVirtualNode}
	for _, test := range []struct {
		name   string
		of     handler.MapFunc
		object client.Object
		want   []reconcile.Request
	}{
		{"a virtual node", w.ofNamespace, &v1alpha1.VirtualNode{ObjectMeta: named(peer, "second")}, both},
		{"an offer of a provider", w.ofNamespace, &v1alpha1.ResourceOffer{ObjectMeta: named(peer, "milan")}, both},
		{"an offer to a consumer", w.ofNamespace, &v1alpha1.ResourceOffer{
			ObjectMeta: named("liqo-tenant-milan", "rome"),
		},
			nil},
		{"a foreign cluster", w.ofForeignCluster, &v1alpha1.ForeignCluster{ObjectMeta: named("", "milan")}, both},
		{"a tunnel", w.ofForeignCluster, &v1alpha1.TunnelEndpoint{ObjectMeta: named(installed, "milan")}, both},
		{"the ranges of the cluster", w.ofClusterInfo, &v1alpha1.ClusterInfo{ObjectMeta: named("", "local")}, both},
		{"its node", w.ofNode, &corev1.Node{ObjectMeta: virtual}, one},
		{"another node", w.ofNode, &corev1.Node{ObjectMeta: named("", "liqo-milan")}, nil},
		{"its deployment", ofOwned, &appsv1.Deployment{ObjectMeta: owned}, one},
		{"another deployment", ofOwned, &appsv1.Deployment{ObjectMeta: named(peer, kubelet)}, nil},
		{"its binding", w.ofBinding, newBinding(w.virtual()), one},
		{"another binding", w.ofBinding, &rbacv1.ClusterRoleBinding{ObjectMeta: named("", role)}, nil},
	} {
		if diff := cmp.Diff(test.want, test.of(t.Context(), test.object)); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestOnlyCordonsNetworksAndAccessOfForeignClustersChangeVirtualNodes(t *testing.T) {
	old := &v1alpha1.ForeignCluster{}
	for _, test := range []struct {
		name   string
		change func(*v1alpha1.ForeignCluster)
		want   bool
	}{
		{"another ForeignCluster of the name", func(fc *v1alpha1.ForeignCluster) { fc.UID = "2" }, true},
		{"a condition", func(fc *v1alpha1.ForeignCluster) { fc.Status.Conditions = []metav1.Condition{{}} }, false},
		{"a cordon", func(fc *v1alpha1.ForeignCluster) { fc.Spec.Cordoned = true }, true},
		{"networking", func(fc *v1alpha1.ForeignCluster) { fc.Spec.Networking = v1alpha1.NetworkingFlat }, true},
		{"the trust", func(fc *v1alpha1.ForeignCluster) { fc.Spec.Trust = v1alpha1.TrustTenant }, true},
		{"the access", func(fc *v1alpha1.ForeignCluster) { fc.Spec.APIAccess = v1alpha1.APIAccessDisabled }, true},
		{"the network", func(fc *v1alpha1.ForeignCluster) { fc.Status.Networking = v1alpha1.PeeringEstablished }, true},
	} {
		current := old.DeepCopy()
		test.change(current)
		if got := clusterChanged().Update(event.UpdateEvent{ObjectOld: old, ObjectNew: current}); got != test.want {
			t.Errorf("%s: selected %t, want %t", test.name, got, test.want)
		}
	}
}
