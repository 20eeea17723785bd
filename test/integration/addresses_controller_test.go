// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit/watches"
	"liqo.io/federation/controllers/link/addresses"
	"liqo.io/federation/controllers/link/installation"
	"liqo.io/federation/test/integration/framework"
)

// The controllers have the permissions of the chart. A pod on one provider gets an address for pods
// of the other provider. The other provider's virtual kubelet may only read the address, which is
// deleted with the pod.
func TestAPodOnOneProviderHasAnAddressForTheOther(t *testing.T) {
	env := framework.Get(t)
	installRoles(t, env)
	installPolicies(t, env)
	admin := federationOf(t, env.Admin).FederationV1alpha1()
	project := env.MakeNamespace(t)
	must(t)(env.Kube.CoreV1().ServiceAccounts(project).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}))

	must(t)(admin.AddressPools().Create(t.Context(), &v1alpha1.AddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ExternalAddressPool},
		Spec:       v1alpha1.AddressPoolSpec{CIDRs: []string{"10.70.0.0/24"}},
	}, metav1.CreateOptions{}))
	t.Cleanup(func() {
		if err := admin.AddressPools().Delete(context.Background(), v1alpha1.ExternalAddressPool,
			metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	providers := map[string]string{"asti": thisID, "alba": thatID}
	peers := map[string]string{}
	for name, id := range providers {
		peers[name] = makeNamespaceOf(t, env, peerOf(name), v1alpha1.RolePeer, name)
		called := map[string]string{"asti": "10.1.0.0/16", "alba": "10.3.0.0/16"}[name]
		must(t)(admin.TunnelEndpoints(framework.Namespace).Create(t.Context(), &v1alpha1.TunnelEndpoint{
			// The namespace, and so the ForeignCluster, has another name if an earlier run left one.
			ObjectMeta: metav1.ObjectMeta{Name: naming.ForeignClusterOf(peers[name])},
			Spec: v1alpha1.TunnelEndpointSpec{
				ClusterID: id, PublicKey: map[string]string{"asti": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=",
					"alba": "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="}[name],
				Local: []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.2.0.0/16"},
					{CIDR: "10.70.0.0/24", Mapped: "10.71.0.0/24"}},
				Remote: []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: called}},
			},
		}, metav1.CreateOptions{}))
		must(t)(admin.VirtualNodes(peers[name]).Create(t.Context(), &v1alpha1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.VirtualNodeSpec{ClusterID: id, NodeName: "liqo-" + name,
				Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}, metav1.CreateOptions{}))
		must(t)(admin.NamespaceMaps(peers[name]).Create(t.Context(), &v1alpha1.NamespaceMap{
			ObjectMeta: metav1.ObjectMeta{Name: framework.ClusterName},
			Spec: v1alpha1.NamespaceMapSpec{Namespaces: []v1alpha1.NamespaceMapping{{Name: project,
				RemoteName: project + "-rome"}}},
		}, metav1.CreateOptions{}))
		t.Cleanup(func() {
			ctx, peer := context.Background(), peers[name]
			if err := errors.Join(
				admin.TunnelEndpoints(framework.Namespace).Delete(ctx, naming.ForeignClusterOf(peer), metav1.DeleteOptions{}),
				admin.VirtualNodes(peer).Delete(ctx, name, metav1.DeleteOptions{}),
				admin.NamespaceMaps(peer).Delete(ctx, framework.ClusterName, metav1.DeleteOptions{}),
			); err != nil {
				t.Error(err)
			}
		})
	}
	runAddresses(t, env)

	onNode(t, env, project, "web", "liqo-asti")
	web, err := env.Kube.CoreV1().Pods(project).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	web.Status.Phase, web.Status.PodIP, web.Status.PodIPs = corev1.PodRunning, "10.1.2.2", []corev1.PodIP{{IP: "10.1.2.2"}}
	must(t)(env.Kube.CoreV1().Pods(project).UpdateStatus(t.Context(), web, metav1.UpdateOptions{}))

	const account = "federation-virtual-kubelet-alba"
	kubelet := federationOf(t, env.ServiceAccount(t, peers["alba"], account)).FederationV1alpha1().AddressMappings(
		framework.Namespace)
	forAlba := metav1.ListOptions{FieldSelector: "spec.clusterID=" + providers["alba"]}
	count := func(want int) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			mappings, err := kubelet.List(ctx, forAlba)
			if apierrors.IsForbidden(err) {
				return false, nil
			}
			return err == nil && len(mappings.Items) == want &&
				(want == 0 || mappings.Items[0].Spec.Address == "10.1.2.2" &&
					within(t, "10.70.0.0/24", mappings.Items[0].Spec.Mapped)), err
		}
	}
	until(t, "an address of the pod for alba, which its virtual kubelet reads", count(1))
	if err := kubelet.DeleteCollection(t.Context(), metav1.DeleteOptions{}, forAlba); !apierrors.IsForbidden(err) {
		t.Errorf("a virtual kubelet removes addresses: %v", err)
	}
	binding, err := env.Kube.RbacV1().RoleBindings(framework.Namespace).Get(t.Context(), "federation-addresses",
		metav1.GetOptions{})
	if err != nil || !slices.Contains(binding.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind,
		Namespace: peers["alba"], Name: account}) {
		t.Errorf("bound are %v, %v", binding.Subjects, err)
	}
	if err := killed(t.Context(), env.Kube, web); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the address", count(0))
	anEndpointThatIsNoPodHasOneToo(t, env, project, func(ctx context.Context) ([]v1alpha1.AddressMapping, error) {
		mappings, err := kubelet.List(ctx, forAlba)
		return mappings.Items, err
	})
}

func anEndpointThatIsNoPodHasOneToo(t *testing.T, env *framework.Environment, project string,
	mappings func(context.Context) ([]v1alpha1.AddressMapping, error)) {
	t.Helper()
	must(t)(env.Kube.CoreV1().Services(project).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}},
	}, metav1.CreateOptions{}))
	slices := env.Kube.DiscoveryV1().EndpointSlices(project)
	slice, err := slices.Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "db", Labels: map[string]string{discoveryv1.LabelServiceName: "db"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.7"}}},
		Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](5432)}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := func(want ...int32) func(ctx context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			found, err := mappings(ctx)
			if err != nil || len(found) != min(len(want), 1) {
				return false, err
			}
			var got []int32
			for _, mapping := range found {
				for _, port := range mapping.Spec.Ports {
					got = append(got, port.Port)
				}
			}
			return cmp.Equal(want, got), nil
		}
	}
	until(t, "an address of the endpoint for alba", at(5432))
	slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: ptr.To("metrics"), Port: ptr.To[int32](9187)})
	must(t)(slices.Update(t.Context(), slice, metav1.UpdateOptions{}))
	until(t, "its other port", at(5432, 9187))
	if err := slices.Delete(t.Context(), "db", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of its address", at())
}

// runAddresses runs the controllers that map single addresses, with the permissions of the
// controller manager, until the test ends.
func runAddresses(t *testing.T, env *framework.Environment) {
	t.Helper()
	account := env.ServiceAccount(t, framework.Namespace, controllerManager)
	kube := kubeOf(t, account)
	events := &record.FakeRecorder{}
	pods := watches.PodsOfNodes(kube)
	// The controller of virtual nodes starts watches of pods, which end with this context.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	runManager(t, account, func(manager ctrl.Manager) error {
		installed, err := installation.NewCache(manager, framework.Namespace)
		if err != nil {
			return err
		}
		shared := &addresses.Addresses{
			Client: manager.GetClient(), Live: manager.GetAPIReader(), Installation: installed,
			Clock: clock.RealClock{}, Namespace: framework.Namespace, ClusterID: thisID,
		}
		endpoints := &addresses.EndpointReconciler{Addresses: shared, Events: events}
		endpoints.Services = watches.NewServices(kube, endpoints.Changes(), endpoints.Complete)
		if err := errors.Join(
			addresses.Index(ctx, installed), endpoints.SetupWithManager(manager),
			(&addresses.PodReconciler{Addresses: shared, Pods: pods, Events: events}).SetupWithManager(manager),
			(&addresses.APIServerReconciler{Addresses: shared, Events: events}).SetupWithManager(manager),
			(&addresses.ReaderReconciler{Client: manager.GetClient(), Namespace: framework.Namespace}).SetupWithManager(manager),
		); err != nil {
			return err
		}
		for _, node := range []string{"liqo-asti", "liqo-alba"} {
			if _, _, err := pods.List(ctx, node); err != nil {
				return err
			}
		}
		return nil
	})
}
