// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/link/gateway"
	"liqo.io/federation/controllers/link/installation"
	"liqo.io/federation/test/integration/framework"
)

// The controllers have the permissions of the chart. The Service of the gateway has only the active
// gateway as an endpoint.
func TestGatewayServiceHasTheActiveGatewayAsEndpoint(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	installRoles(t, env)
	for i, name := range []string{"leads-one", "leads-two"} {
		makeNode(t, env, name, "")
		address := fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.%d"}]}}`, i+1)
		must(t)(env.Kube.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, []byte(address),
			metav1.PatchOptions{}, "status"))
	}
	runManager(t, env.ServiceAccount(t, framework.Namespace, controllerManager), func(manager ctrl.Manager) error {
		installed, err := installation.NewCache(manager, framework.Namespace)
		if err != nil {
			return err
		}
		finder, err := gateway.NewFinder(t.Context(), manager, installed, framework.Namespace)
		if err != nil {
			return err
		}
		reconciler := &gateway.Reconciler{Client: manager.GetClient(), Finder: finder, Events: &record.FakeRecorder{}}
		return reconciler.SetupWithManager(manager, installed)
	})

	services, leases := env.Kube.CoreV1().Services(framework.Namespace),
		env.Kube.CoordinationV1().Leases(framework.Namespace)
	leadsTo := func(want string) {
		t.Helper()
		retry(t, func() (any, error) {
			slice, err := env.Kube.DiscoveryV1().EndpointSlices(framework.Namespace).Get(t.Context(), v1alpha1.GatewayName,
				metav1.GetOptions{})
			got := "nowhere"
			if apierrors.IsNotFound(err) {
				got, err = "no slice", nil
			} else if err == nil && len(slice.Endpoints) > 0 {
				got = fmt.Sprintf("%s %s:%d", *slice.Endpoints[0].NodeName, slice.Endpoints[0].Addresses[0], *slice.Ports[0].Port)
			}
			if err == nil && got != want {
				err = fmt.Errorf("its endpoint is %s, want %s", got, want)
			}
			return nil, err
		})
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.GatewayName}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
		Ports: []corev1.ServicePort{{Name: "wireguard", Protocol: corev1.ProtocolUDP, Port: 51820}},
	}}
	must(t)(services.Create(t.Context(), service, metav1.CreateOptions{}))
	leadsTo("nowhere")
	active := "leads-one"
	must(t)(leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.GatewayName}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &active},
	}, metav1.CreateOptions{}))
	undo(t, func(ctx context.Context) error {
		return leases.Delete(ctx, v1alpha1.GatewayName, metav1.DeleteOptions{})
	})
	leadsTo("leads-one 192.0.2.1:51820")
	must(t)(leases.Patch(t.Context(), v1alpha1.GatewayName, types.MergePatchType,
		[]byte(`{"spec":{"holderIdentity":"leads-two"}}`), metav1.PatchOptions{}))
	leadsTo("leads-two 192.0.2.2:51820")
	if err := services.Delete(t.Context(), v1alpha1.GatewayName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	leadsTo("no slice")
}

// By its role, the controller manager can write all EndpointSlices. Policies restrict it to the
// EndpointSlice of the gateway's Service.
func TestPoliciesKeepEndpointsToTheGateway(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	otherNamespace := env.MakeNamespace(t)
	rule := rbacv1.PolicyRule{APIGroups: []string{"discovery.k8s.io"}, Verbs: []string{"create"},
		Resources: []string{"endpointslices"}}
	for _, namespace := range []string{framework.Namespace, otherNamespace} {
		env.Grant(t, account(framework.Namespace, controllerManager), namespace, rule)
	}
	kube := kubeOf(t, env.ServiceAccount(t, framework.Namespace, controllerManager))
	slice := func(namespace, name, service, manager string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := kube.DiscoveryV1().EndpointSlices(namespace).Create(ctx, &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{Name: name,
					Labels: map[string]string{discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: manager}},
				AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{},
			}, dryCreate)
			return err
		}
	}
	const name, controllers = v1alpha1.GatewayName, v1alpha1.ManagedBy
	expect(t, []attempt{
		{"the endpoints of the gateway", "", slice(framework.Namespace, name, name, controllers)},
		{"endpoints of the gateway with another name", "and of the gateway may be written", slice(framework.Namespace, "other", name, controllers)},
		{"endpoints of the gateway with another manager", "and of the gateway may be written", slice(framework.Namespace, name, name, "other")},
		{"endpoints of the API server", "and of the gateway may be written", slice(framework.Namespace, name, "federation-apiserver", controllers)},
		{"endpoints of that name in another namespace", "and of the gateway may be written", slice(otherNamespace, name, name, controllers)},
	})
}
