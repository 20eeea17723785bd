// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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
	"liqo.io/federation/test/fakes"
)

// SIGTERM may arrive before the watch event of the deletion.
func TestTerminatingAgentDetectsRemovedWorkload(t *testing.T) {
	metadata := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "liqo", Name: name} }
	deleting := metadata(RouteName)
	deleting.DeletionTimestamp = &metav1.Time{}
	type response struct {
		list runtime.Object
		err  error
	}
	exists := response{list: &appsv1.DaemonSetList{Items: []appsv1.DaemonSet{{ObjectMeta: metadata(RouteName)}}}}
	none := response{list: &appsv1.DaemonSetList{}}
	unreachable := response{err: errors.New("connection refused")}
	forbidden := response{
		err: apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "daemonsets"}, "", nil),
	}
	unauthorized := response{err: apierrors.NewUnauthorized("the pod of the token is gone")}
	routes := []runtime.Object{&appsv1.DaemonSet{ObjectMeta: metadata(RouteName)}}
	for _, test := range []struct {
		name      string
		workload  string
		cached    []runtime.Object
		responses []response
		// deletedMeanwhile is set if the watch delivers the deletion after the first response.
		deletedMeanwhile bool
		removed          bool
	}{
		{"exists", RouteName, routes, []response{exists}, false, false},
		{"deleted", RouteName, routes, []response{none}, false, true},
		{
			"being deleted", RouteName, routes,
			[]response{{list: &appsv1.DaemonSetList{Items: []appsv1.DaemonSet{{ObjectMeta: deleting}}}}}, false, true,
		},
		{
			"gateway's Deployment is deleted", GatewayName,
			[]runtime.Object{&appsv1.Deployment{ObjectMeta: metadata(GatewayName)}},
			[]response{{list: &appsv1.DeploymentList{}}}, false, true,
		},
		{"forbidden", RouteName, routes, []response{forbidden}, false, true},
		{
			"unauthorized", RouteName, routes,
			[]response{unauthorized, unauthorized, unauthorized, unauthorized}, false, true,
		},
		{"unauthorized at first, then exists", RouteName, routes, []response{unauthorized, exists}, false, false},
		{
			"unreachable, then unauthorized", RouteName, routes,
			[]response{unreachable, unreachable, unreachable, unauthorized}, false, true,
		},
		{
			"unauthorized, then unreachable", RouteName, routes,
			[]response{unauthorized, unauthorized, unauthorized, unreachable}, false, false,
		},
		{"unauthorized, then the watch delivers the deletion", RouteName, routes, []response{unauthorized}, true, true},
		{
			"unreachable", RouteName, routes,
			[]response{unreachable, unreachable, unreachable, unreachable}, false, false,
		},
		{"unreachable at first, then deleted", RouteName, routes, []response{unreachable, unreachable, none}, false, true},
		{"unreachable at first, then exists", RouteName, routes, []response{unreachable, exists}, false, false},
		{"unreachable at first, then forbidden", RouteName, routes, []response{unreachable, forbidden}, false, true},
		{"unreachable, then the watch delivers the deletion", RouteName, routes, []response{unreachable}, true, true},
		{"never existed", RouteName, nil, nil, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kube := kubefake.NewClientset(test.cached...)
				s, err := NewSources(
					kube,
					fedfake.NewClientset(),
					"liqo",
					test.workload,
					func() {},
					func(*coordinationv1.Lease) {},
					func(*corev1.Secret) {},
					func() {},
				)
				if err != nil {
					t.Fatal(err)
				}
				watching, stop := context.WithCancel(t.Context())
				defer stop()
				working, end := context.WithCancel(watching)
				if !s.Start(watching, working) {
					t.Fatal("the caches were not filled")
				}
				end()
				requests := 0
				for _, kind := range []string{"daemonsets", "deployments"} {
					fakes.React(kube, "list", kind, func(clienttesting.Action) (bool, runtime.Object, error) {
						if requests == len(test.responses) {
							t.Error("unexpected request")
							return false, nil, nil
						}
						response := test.responses[requests]
						requests++
						if test.deletedMeanwhile {
							if err := kube.Tracker().Delete(
								appsv1.SchemeGroupVersion.WithResource(kind), "liqo", test.workload,
							); err != nil {
								t.Error(err)
							}
						}
						return true, response.list, response.err
					})
				}
				began := time.Now()
				if got := s.Removed(); got != test.removed {
					t.Errorf("Removed: %v", got)
				}
				if requests != len(test.responses) {
					t.Errorf("%d requests", requests)
				}
				took := time.Since(began)
				if took+time.Duration(requests)*removalTimeout > 10*time.Second {
					t.Errorf("Removed took %s with immediate responses", took)
				}
				// A pod without a grace period runs for up to two seconds.
				if requests == removalBackoff.Steps && took < 3*time.Second {
					t.Errorf("Removed decided after %s", took)
				}
			})
		})
	}
}

// Kubelets update the status of their nodes often, and most changes do not affect routing.
func TestNodeChangesMatterOnlyInAddressesAndPodCIDRs(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(*corev1.Node)
		same bool
	}{
		{"nothing", func(*corev1.Node) {}, true},
		{"a label", func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }, true},
		{
			"a heartbeat", func(n *corev1.Node) { n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}} },
			true,
		},
		{"cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		{"another address", func(n *corev1.Node) { n.Status.Addresses[1].Address = "192.168.1.9" }, false},
		{"one address more", func(n *corev1.Node) {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fd00::1"})
		}, false},
		{"an external address", func(n *corev1.Node) {
			n.Status.Addresses = append(
				n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "198.51.100.1"},
			)
		}, false},
		{"no addresses", func(n *corev1.Node) { n.Status.Addresses = nil }, false},
		{"a pod CIDR", func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.0.1.0/24"} }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := node("rome-1", 1, "192.168.1.1")
			after := before.DeepCopy()
			test.do(after)
			if got := sameNode(before, after); got != test.same {
				t.Errorf("sameNode: %v", got)
			}
			// Trimmed nodes compare the same.
			for _, n := range []*corev1.Node{before, after} {
				if _, err := trim(n); err != nil {
					t.Fatal(err)
				}
			}
			if got := sameNode(before, after); got != test.same {
				t.Errorf("sameNode of trimmed nodes: %v", got)
			}
		})
	}
}
