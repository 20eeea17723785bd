// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	fedfake "liqo.io/federation/generated/clientset/versioned/fake"
)

// The signal to end may come before the watch tells why.
func TestAnAgentThatEndsAsksWhetherItsWorkloadIsThere(t *testing.T) {
	workload := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "liqo", Name: name} }
	leaves := workload(RouteName)
	leaves.DeletionTimestamp = &metav1.Time{}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "daemonsets"}, "", nil)
	for _, test := range []struct {
		name   string
		own    string
		known  []runtime.Object
		answer runtime.Object
		err    error
		gone   bool
	}{
		{"it is", RouteName, []runtime.Object{&appsv1.DaemonSet{ObjectMeta: workload(RouteName)}}, &appsv1.DaemonSetList{Items: []appsv1.DaemonSet{{ObjectMeta: workload(RouteName)}}}, nil, false},
		{"it is not any more", RouteName, []runtime.Object{&appsv1.DaemonSet{ObjectMeta: workload(RouteName)}}, &appsv1.DaemonSetList{}, nil, true},
		{"it waits for its pods", RouteName, []runtime.Object{&appsv1.DaemonSet{ObjectMeta: workload(RouteName)}}, &appsv1.DaemonSetList{Items: []appsv1.DaemonSet{{ObjectMeta: leaves}}}, nil, true},
		{"the gateways' is not", GatewayName, []runtime.Object{&appsv1.Deployment{ObjectMeta: workload(GatewayName)}}, &appsv1.DeploymentList{}, nil, true},
		{"nobody lets it ask any more", RouteName, []runtime.Object{&appsv1.DaemonSet{ObjectMeta: workload(RouteName)}}, nil, forbidden, true},
		{"nobody answers", RouteName, []runtime.Object{&appsv1.DaemonSet{ObjectMeta: workload(RouteName)}}, nil, errors.New("connection refused"), false},
		{"it never had one", RouteName, nil, &appsv1.DaemonSetList{}, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			kube := kubefake.NewClientset(test.known...)
			s, err := NewSources(kube, fedfake.NewClientset(), "liqo", test.own, func() {}, func(*coordinationv1.Lease) {}, func(*corev1.Secret) {})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if !s.Start(ctx) {
				t.Fatal("it does not start")
			}
			for _, kind := range []string{"daemonsets", "deployments"} {
				kube.PrependReactor("list", kind, func(clienttesting.Action) (bool, runtime.Object, error) { return true, test.answer, test.err })
			}
			if got := s.Gone(); got != test.gone {
				t.Errorf("it is gone: %v", got)
			}
		})
	}
}

// Kubelets write their nodes all the time, and most of it concerns no packet.
func TestWhatMattersOfANodeIsItsAddressesAndItsPods(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(*corev1.Node)
		same bool
	}{
		{"nothing", func(*corev1.Node) {}, true},
		{"a label", func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }, true},
		{"a sign of life", func(n *corev1.Node) { n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}} }, true},
		{"no pods are put there any more", func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		{"another address", func(n *corev1.Node) { n.Status.Addresses[1].Address = "192.168.1.9" }, false},
		{"one address more", func(n *corev1.Node) {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fd00::1"})
		}, false},
		{"an address outside", func(n *corev1.Node) {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "198.51.100.1"})
		}, false},
		{"no address any more", func(n *corev1.Node) { n.Status.Addresses = nil }, false},
		{"a range of pods", func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.0.1.0/24"} }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := node("rome-1", 1, "192.168.1.1")
			after := before.DeepCopy()
			test.do(after)
			if got := sameNode(before, after); got != test.same {
				t.Errorf("it is the same: %v", got)
			}
			// What is kept in the caches tells as much.
			for _, n := range []*corev1.Node{before, after} {
				if _, err := trim(n); err != nil {
					t.Fatal(err)
				}
			}
			if got := sameNode(before, after); got != test.same {
				t.Errorf("it is the same, as far as it is kept: %v", got)
			}
		})
	}
}
