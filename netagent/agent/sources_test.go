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
)

// The signal to end may come before the watch tells why.
func TestAnAgentThatEndsAsksWhetherItsWorkloadIsThere(t *testing.T) {
	workload := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "liqo", Name: name} }
	leaves := workload(RouteName)
	leaves.DeletionTimestamp = &metav1.Time{}
	type answer struct {
		list runtime.Object
		err  error
	}
	there := answer{list: &appsv1.DaemonSetList{Items: []appsv1.DaemonSet{{ObjectMeta: workload(RouteName)}}}}
	none := answer{list: &appsv1.DaemonSetList{}}
	unreachable := answer{err: errors.New("connection refused")}
	forbidden := answer{err: apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "daemonsets"}, "", nil)}
	unauthorized := answer{err: apierrors.NewUnauthorized("the pod of the token is gone")}
	routes := []runtime.Object{&appsv1.DaemonSet{ObjectMeta: workload(RouteName)}}
	for _, test := range []struct {
		name    string
		own     string
		known   []runtime.Object
		answers []answer
		// meanwhile tells that the watch is told of the deletion once there was an answer.
		meanwhile bool
		gone      bool
	}{
		{"it is", RouteName, routes, []answer{there}, false, false},
		{"it is not any more", RouteName, routes, []answer{none}, false, true},
		{"it waits for its pods", RouteName, routes, []answer{{list: &appsv1.DaemonSetList{Items: []appsv1.DaemonSet{{ObjectMeta: leaves}}}}}, false, true},
		{"the gateways' is not", GatewayName, []runtime.Object{&appsv1.Deployment{ObjectMeta: workload(GatewayName)}}, []answer{{list: &appsv1.DeploymentList{}}}, false, true},
		{"nobody lets it ask any more", RouteName, routes, []answer{forbidden}, false, true},
		{"its token is that of a pod that is gone", RouteName, routes, []answer{unauthorized, unauthorized, unauthorized}, false, false},
		{"its token is refused, and the watch tells", RouteName, routes, []answer{unauthorized}, true, true},
		{"nobody answers", RouteName, routes, []answer{unreachable, unreachable, unreachable}, false, false},
		{"nobody answers at first, and it is not any more", RouteName, routes, []answer{unreachable, unreachable, none}, false, true},
		{"nobody answers at first, and it is", RouteName, routes, []answer{unreachable, there}, false, false},
		{"nobody answers at first, and then nobody lets it ask any more", RouteName, routes, []answer{unreachable, forbidden}, false, true},
		{"nobody answers, and the watch tells", RouteName, routes, []answer{unreachable}, true, true},
		{"it never had one", RouteName, nil, nil, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kube := kubefake.NewClientset(test.known...)
				s, err := NewSources(kube, fedfake.NewClientset(), "liqo", test.own, func() {}, func(*coordinationv1.Lease) {}, func(*corev1.Secret) {})
				if err != nil {
					t.Fatal(err)
				}
				watching, stop := context.WithCancel(t.Context())
				defer stop()
				working, end := context.WithCancel(watching)
				if !s.Start(watching, working) {
					t.Fatal("it does not start")
				}
				end()
				asked := 0
				for _, kind := range []string{"daemonsets", "deployments"} {
					kube.PrependReactor("list", kind, func(clienttesting.Action) (bool, runtime.Object, error) {
						if asked == len(test.answers) {
							t.Error("it is asked once more")
							return false, nil, nil
						}
						answer := test.answers[asked]
						asked++
						if test.meanwhile {
							if err := kube.Tracker().Delete(appsv1.SchemeGroupVersion.WithResource(kind), "liqo", test.own); err != nil {
								t.Error(err)
							}
						}
						return true, answer.list, answer.err
					})
				}
				began := time.Now()
				if got := s.Gone(); got != test.gone {
					t.Errorf("it is gone: %v", got)
				}
				if asked != len(test.answers) {
					t.Errorf("it was asked %d times", asked)
				}
				if took := time.Since(began); took+time.Duration(asked)*lookPatience > 6*time.Second {
					t.Errorf("it took %s, while answers came at once", took)
				}
			})
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
