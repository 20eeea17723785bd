// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/provider/endpointslice"
	"liqo.io/federation/test/integration/framework"
)

// endpointsOfWeb is the Service web in a local and in the remote namespace, with a local and a
// remote endpoint.
type endpointsOfWeb struct {
	*offload
	slice *discoveryv1.EndpointSlice
}

// The controllers have the permissions of the chart. Local endpoints of a Service are reflected,
// and are ready while the heartbeat of the consumer is valid.
func TestLocalEndpointsAreReflected(t *testing.T) {
	e := &endpointsOfWeb{offload: newOffload(t)}
	e.createPeering(t)
	e.runController(t)
	e.setNetworkReady(t, metav1.ConditionTrue)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}},
	}}
	if _, err := e.Kube.CoreV1().Services(e.local).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var err error
	e.slice, err = e.Kube.DiscoveryV1().EndpointSlices(e.local).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "web-abcde", Labels: map[string]string{
			discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080)}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.81.0.1"}, NodeName: ptr.To("rome-worker"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}},
			{Addresses: []string{"10.82.0.1"}, NodeName: ptr.To(nodeName), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.start(t)
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"they are reflected", e.testCross},
		{"drift and deletion are repaired", e.testRepair},
		{"an address of a Service of the provider is refused", e.testServices},
		{"they are not ready after an expired heartbeat", e.testExpiredHeartbeat},
		{"they exist while there is a network", e.testNetwork},
		{"they are in the ranges of a tunnel", e.testTunnel},
		{"they are deleted with the local slice", e.testDeletion},
	} {
		if !t.Run(step.name, step.run) {
			return
		}
	}
}

// createPeering creates the objects that represent the peering on the provider.
func (e *endpointsOfWeb) createPeering(t *testing.T) {
	t.Helper()
	clusters := e.federation.FederationV1alpha1().ForeignClusters()
	if _, err := clusters.Create(t.Context(), &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: e.tenant}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		if err := clusters.Delete(ctx, e.tenant, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		_, err := clusters.Patch(ctx, e.tenant, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	e.setConsumerAlive(t, metav1.ConditionTrue)
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"twin",%q:%q,%q:%q,%q:%q}}}`,
		v1alpha1.LabelRole, v1alpha1.LabelForeignCluster, e.tenant, v1alpha1.LabelOrigin, consumerID,
		v1alpha1.LabelDestination, providerID)
	if _, err := e.Kube.CoreV1().Namespaces().Patch(t.Context(), e.remote, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// setConsumerAlive sets the condition ConsumerAlive of the ForeignCluster.
func (e *endpointsOfWeb) setConsumerAlive(t *testing.T, status metav1.ConditionStatus) {
	t.Helper()
	patch := fmt.Sprintf(
		`{"status":{"networking":"Established","conditions":[{"type":%q,"status":%q,"reason":"Test","message":"",`+
			`"lastTransitionTime":"2026-11-21T08:00:00Z"}]}}`,
		v1alpha1.ConditionConsumerAlive, status)
	if _, err := e.federation.FederationV1alpha1().ForeignClusters().Patch(t.Context(), e.tenant, types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

func (e *endpointsOfWeb) runController(t *testing.T) {
	t.Helper()
	publishRanges(t, e.federation,
		v1alpha1.ClusterRange{Use: v1alpha1.RangeOfServices, CIDR: "10.96.0.0/12", Source: v1alpha1.SourceServiceCIDR},
		v1alpha1.ClusterRange{Use: v1alpha1.RangeOfPods, CIDR: "10.250.0.0/16", Source: v1alpha1.SourceNode},
	)
	runManager(t, e.Admin, func(manager ctrl.Manager) error {
		return (&endpointslice.Reconciler{
			Client: manager.GetClient(), Live: manager.GetAPIReader(), Clock: clock.RealClock{},
			Network: endpointslice.Network{Namespace: framework.Namespace},
		}).SetupWithManager(manager)
	})
}

// await waits until the EndpointSlices in the remote namespace have exactly the local endpoint,
// with this readiness.
func (e *endpointsOfWeb) await(t *testing.T, ready bool) *discoveryv1.EndpointSlice {
	t.Helper()
	var slice *discoveryv1.EndpointSlice
	until(t, fmt.Sprintf("the endpoint is reflected, ready: %t", ready), func(ctx context.Context) (bool, error) {
		var err error
		slice, err = e.Kube.DiscoveryV1().EndpointSlices(e.remote).Get(ctx, "web-abcde", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && len(slice.Endpoints) == 1 && slice.Endpoints[0].Addresses[0] == "10.81.0.1" &&
			*slice.Endpoints[0].Conditions.Ready == ready, err
	})
	return slice
}

func (e *endpointsOfWeb) awaitGone(t *testing.T) {
	t.Helper()
	until(t, "the remote namespace has no local endpoint", func(ctx context.Context) (bool, error) {
		_, err := e.Kube.DiscoveryV1().EndpointSlices(e.remote).Get(ctx, "web-abcde", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// awaitReason waits until the condition Ready of the ShadowEndpointSlice has a reason.
func (e *endpointsOfWeb) awaitReason(t *testing.T, reason string) {
	t.Helper()
	until(t, "the shadow has the reason "+reason, func(ctx context.Context) (bool, error) {
		shadow, err := e.federation.FederationV1alpha1().ShadowEndpointSlices(e.remote).Get(ctx, "web-abcde",
			metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		ready := meta.FindStatusCondition(shadow.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == reason, nil
	})
}

func (e *endpointsOfWeb) testCross(t *testing.T) {
	slice := e.await(t, true)
	if slice.Labels[discoveryv1.LabelServiceName] != "web" ||
		slice.Labels[discoveryv1.LabelManagedBy] != v1alpha1.ManagedBy || slice.Labels[v1alpha1.LabelOrigin] != consumerID {
		t.Errorf("labels %v", slice.Labels)
	}
	until(t, "the shadow has its status", func(ctx context.Context) (bool, error) {
		shadow, err := e.federation.FederationV1alpha1().ShadowEndpointSlices(e.remote).Get(ctx, "web-abcde",
			metav1.GetOptions{})
		return err == nil && len(shadow.Status.Conditions) == 1 &&
			shadow.Status.Conditions[0].Status == metav1.ConditionTrue, err
	})
}

func (e *endpointsOfWeb) testRepair(t *testing.T) {
	remote := e.Kube.DiscoveryV1().EndpointSlices(e.remote)
	slice := e.await(t, true)
	slice.Endpoints[0].Addresses = []string{"10.99.0.1"}
	if _, err := remote.Update(t.Context(), slice, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	slice = e.await(t, true)
	if err := remote.Delete(t.Context(), slice.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if again := e.await(t, true); again.UID == slice.UID {
		t.Error("it was not deleted")
	}
	shadows := e.federation.FederationV1alpha1().ShadowEndpointSlices(e.remote)
	if err := shadows.Delete(t.Context(), slice.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the shadow is created again", func(ctx context.Context) (bool, error) {
		_, err := shadows.Get(ctx, slice.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	e.await(t, true)
}

func (e *endpointsOfWeb) testServices(t *testing.T) {
	kubernetes, err := e.Kube.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "kubernetes",
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := func(addresses ...string) {
		t.Helper()
		slice := e.slice.DeepCopy()
		slice.ResourceVersion = ""
		slice.Endpoints[0].Addresses = addresses
		if _, err := e.Kube.DiscoveryV1().EndpointSlices(e.local).Update(t.Context(), slice,
			metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	at(kubernetes.Spec.ClusterIP)
	e.awaitReason(t, "AddressesRefused")
	at(e.slice.Endpoints[0].Addresses...)
	e.await(t, true)
}

func (e *endpointsOfWeb) testExpiredHeartbeat(t *testing.T) {
	e.setConsumerAlive(t, metav1.ConditionFalse)
	e.await(t, false)
	e.setConsumerAlive(t, metav1.ConditionTrue)
	e.await(t, true)
}

func (e *endpointsOfWeb) testNetwork(t *testing.T) {
	e.setNetworkReady(t, metav1.ConditionFalse)
	e.awaitGone(t)
	e.setNetworkReady(t, metav1.ConditionTrue)
	e.await(t, true)
}

func (e *endpointsOfWeb) testTunnel(t *testing.T) {
	const id = "7d1f6c0e-5f0b-4c57-9f6c-2a2f8f0e8101"
	clusters, tunnels := e.federation.FederationV1alpha1().ForeignClusters(),
		e.federation.FederationV1alpha1().TunnelEndpoints(framework.Namespace)
	setSpec := func(spec string) {
		t.Helper()
		must(t)(clusters.Patch(t.Context(), e.tenant, types.MergePatchType, []byte(`{"spec":`+spec+`}`),
			metav1.PatchOptions{}))
	}
	setSpec(`{"clusterID":"` + id + `","networking":"Tunnel"}`)
	e.awaitGone(t)
	tunnel, err := tunnels.Create(t.Context(), &v1alpha1.TunnelEndpoint{
		ObjectMeta: metav1.ObjectMeta{Name: e.tenant},
		Spec: v1alpha1.TunnelEndpointSpec{
			ClusterID: id, PublicKey: "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
			Local:  []v1alpha1.CIDRMapping{{CIDR: "10.244.0.0/16", Mapped: "10.244.0.0/16"}},
			Remote: []v1alpha1.CIDRMapping{{CIDR: "10.245.0.0/16", Mapped: "10.81.0.0/16"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tunnels.Delete(context.Background(), e.tenant, metav1.DeleteOptions{}) })
	e.await(t, true)
	tunnel.Spec.Remote[0].Mapped = "10.83.0.0/16"
	must(t)(tunnels.Update(t.Context(), tunnel, metav1.UpdateOptions{}))
	e.awaitReason(t, "AddressesRefused")
	setSpec(`{"networking":"Flat"}`)
	e.await(t, true)
}

func (e *endpointsOfWeb) testDeletion(t *testing.T) {
	if err := e.Kube.DiscoveryV1().EndpointSlices(e.local).Delete(t.Context(), e.slice.Name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.awaitGone(t)
}
