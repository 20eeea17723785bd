// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

const (
	providerID = "11111111-1111-4111-8111-111111111111"
	consumerID = "22222222-2222-4222-8222-222222222222"
)

var (
	consumer    = rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "the-peering"}
	controllers = rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "controllers", Namespace: "liqo-system"}
	// nothing is the quota of a consumer without an offer.
	nothing = corev1.ResourceList{corev1.ResourcePods: resource.Quantity{}}
)

var resources = kittest.Resources

// newReconciler returns the reconciler of a provider's cluster.
func newReconciler(c *kittest.Cluster) *Reconciler {
	return &Reconciler{
		Client: c.Controller, Live: c, Events: c.Events, Clock: c.Clock,
		ClusterID: providerID, Reserved: []string{"liqo-system"},
		Account:  types.NamespacedName{Namespace: "liqo-system", Name: "controllers"},
		bindings: map[string]client.Reader{tenantBinding: c, consumerBinding: c, managerBinding: c},
		quotas:   c, policies: c, reflected: c,
	}
}

// pass reconciles the consumer milan once, and returns when it is reconciled again.
func pass(t *testing.T, r *Reconciler) time.Duration {
	t.Helper()
	result, err := r.Reconcile(t.Context(), kit.Request("", "milan"))
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}

// peered returns the objects of an incoming peering with the consumer milan.
func peered() []client.Object {
	return []client.Object{
		foreignCluster(), tenantNamespace(), binding(naming.TenantNamespace("milan"), tenantBinding, consumer),
	}
}

// configured returns the objects that the controller creates in the remote namespace bakery.
func configured() []client.Object {
	return []client.Object{
		binding("bakery", consumerBinding, consumer), binding("bakery", managerBinding, controllers),
		quotaIn("bakery", nothing),
	}
}

func foreignCluster() *v1alpha1.ForeignCluster {
	return kittest.ForeignCluster("milan", consumerID, v1alpha1.PeeringDisabled, v1alpha1.PeeringEnabled)
}

func aNamespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func tenantNamespace() *corev1.Namespace {
	return kittest.PeeringNamespace(naming.TenantNamespace("milan"), v1alpha1.RoleTenant, "milan")
}

func remoteNamespace(name, origin string) *corev1.Namespace {
	n := kittest.PeeringNamespace(name, v1alpha1.RoleRemoteNamespace, "milan")
	n.Labels[v1alpha1.LabelOrigin] = consumerID
	n.Annotations = map[string]string{v1alpha1.AnnotationOriginNamespace: origin}
	return n
}

// ending sets that an object is being deleted.
func ending[T client.Object](object T) T {
	object.SetDeletionTimestamp(&metav1.Time{Time: kittest.Epoch})
	object.SetFinalizers([]string{"test/stays"})
	return object
}

// requesting is a NamespaceMap without a status.
func requesting(names ...string) *v1alpha1.NamespaceMap {
	m := &v1alpha1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: naming.TenantNamespace("milan")}}
	for _, name := range names {
		m.Spec.Namespaces = append(m.Spec.Namespaces, v1alpha1.NamespaceMapping{Name: name, RemoteName: name})
	}
	return m
}

// reported sets that a NamespaceMap reports remote namespaces as ready.
func reported(m *v1alpha1.NamespaceMap, names ...string) *v1alpha1.NamespaceMap {
	for _, name := range names {
		m.Status.Namespaces = append(m.Status.Namespaces, v1alpha1.NamespaceMappingStatus{
			Name: name, RemoteName: name, Phase: v1alpha1.NamespaceMappingReady,
		})
	}
	return m
}

func binding(namespace, name string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   subjects,
	}
}

// quotaIn is a quota in force.
func quotaIn(namespace string, hard corev1.ResourceList) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: naming.RemoteNamespaceQuota, Namespace: namespace},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard},
		Status:     corev1.ResourceQuotaStatus{Hard: hard},
	}
}

func offer(changes ...func(*v1alpha1.ResourceOffer)) *v1alpha1.ResourceOffer {
	offer := &v1alpha1.ResourceOffer{
		ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: naming.TenantNamespace("milan")},
		Spec:       v1alpha1.ResourceOfferSpec{Resources: resources("cpu", "2", "pods", "10")},
	}
	for _, change := range changes {
		change(offer)
	}
	return offer
}

// emptyOffer is an offer without resources, as for a cordoned consumer.
func emptyOffer() *v1alpha1.ResourceOffer {
	return offer(func(o *v1alpha1.ResourceOffer) { o.Spec.Resources = resources("pods", "0") })
}
