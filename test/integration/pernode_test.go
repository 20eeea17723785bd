// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/consumer/request"
	"liqo.io/federation/controllers/provider/offer"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

// nodeProvider is a cluster that offers its nodes to the consumer otranto. The cluster is also a
// consumer of the provider bari, and the test copies the offer to bari's offer, so that virtual
// nodes are created from it.
type nodeProvider struct {
	*framework.Environment
	federation versioned.Interface
}

func newNodeProvider(t *testing.T) *nodeProvider {
	t.Helper()
	env := framework.Get(t)
	_, federation := clients(t, env)
	l := &nodeProvider{Environment: env, federation: federation}
	for _, fc := range []v1alpha1.ForeignCluster{
		{ObjectMeta: metav1.ObjectMeta{Name: "otranto"}, Spec: v1alpha1.ForeignClusterSpec{
			ClusterID: thatID, Incoming: v1alpha1.PeeringEnabled,
			IncomingPolicy: v1alpha1.IncomingPolicy{Shape: v1alpha1.OfferPerNode,
				NodeSelector: map[string]string{"offered-to": "otranto"}},
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "bari"}, Spec: v1alpha1.ForeignClusterSpec{ClusterID: thisID, Server: "https://192.0.2.9:6443", Outgoing: v1alpha1.PeeringEnabled}},
	} {
		must(t)(federation.FederationV1alpha1().ForeignClusters().Create(t.Context(), &fc, metav1.CreateOptions{}))
		t.Cleanup(func() {
			if err := federation.FederationV1alpha1().ForeignClusters().Delete(context.Background(), fc.Name,
				metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			// No controller of this test removes the finalizer.
			if _, err := federation.FederationV1alpha1().ForeignClusters().Patch(context.Background(), fc.Name,
				types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
		})
		status := fmt.Sprintf(`{"status":{"tenantNamespace":%q,"peerNamespace":%q,"remoteTenantNamespace":"liqo-tenant-x"}}`,
			naming.TenantNamespace(fc.Name), naming.PeerNamespace(fc.Name))
		must(t)(federation.FederationV1alpha1().ForeignClusters().Patch(t.Context(), fc.Name, types.MergePatchType,
			[]byte(status), metav1.PatchOptions{}, "status"))
	}
	makeNamespaceOf(t, env, naming.TenantNamespace("otranto"), v1alpha1.RoleTenant, "otranto")
	makeNamespaceOf(t, env, naming.PeerNamespace("bari"), v1alpha1.RolePeer, "bari")
	must(t)(federation.FederationV1alpha1().ResourceRequests(naming.TenantNamespace("otranto")).Create(t.Context(),
		&v1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Name: "otranto"}}, metav1.CreateOptions{}))

	policy := offer.DefaultPolicy()
	policy.SharePercent = 50
	runManager(t, env.Admin, func(manager ctrl.Manager) error {
		offers := &offer.Reconciler{Client: manager.GetClient(), ClusterID: thisID, ClusterName: "bari", Policy: policy}
		return offers.SetupWithManager(manager)
	}, func(manager ctrl.Manager) error {
		requests := &request.Reconciler{Client: manager.GetClient(), ClusterName: "bari", AutoAccept: true}
		return requests.SetupWithManager(manager)
	})
	return l
}

// adds creates an offered node in a zone with this number of CPUs.
func (l *nodeProvider) adds(t *testing.T, name, zone, cpu string) {
	t.Helper()
	must(t)(l.Kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"offered-to": "otranto", corev1.LabelTopologyZone: zone,
			corev1.LabelHostname: name},
	}}, metav1.CreateOptions{}))
	// kube-apiserver taints new nodes as not ready.
	node, err := l.Kube.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"taints":null}}`),
		metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Allocatable = amounts("cpu", cpu, "memory", "8Gi", "pods", "110")
	must(t)(l.Kube.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}))
	t.Cleanup(func() {
		if err := ignoreNotFound(l.Kube.CoreV1().Nodes().Delete(context.Background(), name,
			metav1.DeleteOptions{})); err != nil {
			t.Error(err)
		}
	})
}

// offers waits until the offer has exactly these CPUs by zone, and copies it to bari's offer.
func (l *nodeProvider) offers(t *testing.T, what string, want map[string]string) v1alpha1.ResourceOfferSpec {
	t.Helper()
	var spec v1alpha1.ResourceOfferSpec
	until(t, what, func(ctx context.Context) (bool, error) {
		offer, err := l.federation.FederationV1alpha1().ResourceOffers(naming.TenantNamespace("otranto")).Get(ctx, "bari",
			metav1.GetOptions{})
		if err != nil {
			return false, ignoreNotFound(err)
		}
		spec = offer.Spec
		got := map[string]string{}
		for _, node := range spec.Nodes {
			cpu := node.Resources[corev1.ResourceCPU]
			got[node.Labels[corev1.LabelTopologyZone]] = cpu.String()
		}
		return cmp.Equal(want, got), nil
	})
	mirrors := l.federation.FederationV1alpha1().ResourceOffers(naming.PeerNamespace("bari"))
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	_, err = mirrors.Patch(t.Context(), "bari", types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = mirrors.Create(t.Context(), &v1alpha1.ResourceOffer{ObjectMeta: metav1.ObjectMeta{Name: "bari"}, Spec: spec},
			metav1.CreateOptions{})
	}
	must(t)(nil, err)
	return spec
}

// has waits until exactly these virtual nodes exist, each as text with its node, zone and CPUs.
func (l *nodeProvider) has(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	defer func() {
		if t.Failed() {
			t.Logf("virtual nodes %q", got)
		}
	}()
	until(t, "the virtual nodes are "+strings.Join(want, ", "), func(ctx context.Context) (bool, error) {
		nodes, err := l.federation.FederationV1alpha1().VirtualNodes(naming.PeerNamespace("bari")).List(ctx,
			metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		got = nil
		for _, node := range nodes.Items {
			cpu := node.Spec.Resources[corev1.ResourceCPU]
			got = append(got, strings.Join([]string{node.Name, node.Spec.NodeName, node.Spec.Labels[corev1.LabelTopologyZone],
				cpu.String()}, " "))
		}
		slices.Sort(got)
		return slices.Equal(want, got), nil
	})
}

func TestNodesAreOfferedOneByOne(t *testing.T) {
	l := newNodeProvider(t)
	l.adds(t, "otranto-a", "a", "4")
	l.adds(t, "otranto-b", "b", "8")
	spec := l.offers(t, "both nodes are offered", map[string]string{"a": "2", "b": "4"})
	for _, node := range spec.Nodes {
		if strings.Contains(fmt.Sprint(node), "otranto") {
			t.Errorf("the offer has the name of the node: %v", node)
		}
	}
	// If both nodes have the same creation time, either may be first.
	first, second := "a 2", "b 4"
	if spec.Nodes[0].Labels[corev1.LabelTopologyZone] == "b" {
		first, second = second, first
	}
	l.has(t, "bari-1 liqo-bari-1 "+first, "bari-2 liqo-bari-2 "+second)
	if table := l.Kubectl(t, "", "get", "ro", "bari", "-n", naming.TenantNamespace("otranto"), "-o",
		"wide"); !strings.Contains(table, "PerNode") {
		t.Errorf("the offer is shown as\n%s", table)
	}

	nodes := l.federation.FederationV1alpha1().VirtualNodes(naming.PeerNamespace("bari"))
	must(t)(nodes.Create(t.Context(), &v1alpha1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: "bari-batch"},
		Spec: v1alpha1.VirtualNodeSpec{ClusterID: thisID, NodeName: "liqo-bari-batch", OfferName: "bari",
			Resources: amounts("cpu", "1")},
	}, metav1.CreateOptions{}))
	must(t)(l.Kube.CoreV1().Nodes().Patch(t.Context(), "otranto-b", types.MergePatchType,
		[]byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{}))
	l.adds(t, "otranto-c", "c", "2")
	l.offers(t, "a cordoned node has no resources, and a new one is offered",
		map[string]string{"a": "2", "b": "0", "c": "1"})
	empty := func(s string) string { return strings.Replace(s, "b 4", "b 0", 1) }
	l.has(t, "bari-1 liqo-bari-1 "+empty(first), "bari-2 liqo-bari-2 "+empty(second), "bari-3 liqo-bari-3 c 1",
		"bari-batch liqo-bari-batch  1")

	must(t)(nil, l.Kube.CoreV1().Nodes().Delete(t.Context(), "otranto-b", metav1.DeleteOptions{}))
	l.offers(t, "a deleted node is not offered", map[string]string{"a": "2", "c": "1"})
	left := "bari-1 liqo-bari-1 a 2"
	if strings.HasPrefix(second, "a") {
		left = "bari-2 liqo-bari-2 a 2"
	}
	l.has(t, left, "bari-3 liqo-bari-3 c 1", "bari-batch liqo-bari-batch  1")

	mirrors := l.federation.FederationV1alpha1().ResourceOffers(naming.PeerNamespace("bari"))
	must(t)(mirrors.Patch(t.Context(), "bari", types.MergePatchType, []byte(`{"spec":{"withdrawn":true}}`),
		metav1.PatchOptions{}))
	l.has(t)
}
