// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// endpointsFollowTheirServices checks that a local pod of a Service becomes an endpoint on milan while networking is
// Flat. The pod networks of the clusters are not connected, and may have the same addresses, so the local pod uses the
// host network.
func endpointsFollowTheirServices(t *testing.T) {
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "web"},
		Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
	must(rome.Kube.CoreV1().Services(o.namespace).Create(t.Context(), service, metav1.CreateOptions{}))(t)
	localPod := webPodOn(t, o, "local", corev1.NodeSelectorOpDoesNotExist)
	offloadedPod := webPodOn(t, o, "offloaded", corev1.NodeSelectorOpExists)

	t.Cleanup(func() { setsNetworking(t, "null") })
	setsNetworking(t, `"Flat"`)
	address := localPod.Status.PodIP
	eventually(t, soon, "the local pod to be an endpoint on milan", func(ctx context.Context) (bool, string, error) {
		found, err := reflectedSlices(ctx, o)
		if err != nil || len(found) != 1 || len(found[0].Endpoints) != 1 {
			return false, show(found), err
		}
		endpoint := found[0].Endpoints[0]
		return endpoint.Addresses[0] == address && *endpoint.Conditions.Ready &&
			found[0].Labels[discoveryv1.LabelServiceName] == "web", show(found), nil
	})
	eventually(t, soon,
		"the Service to have the endpoints of "+localPod.Name+" and of "+offloadedPod.Name+" on milan, and no other",
		func(ctx context.Context) (bool, string, error) {
			all, err := milan.Kube.DiscoveryV1().EndpointSlices(o.remote).List(ctx,
				metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
			if err != nil {
				return false, "", err
			}
			ready := 0
			for _, slice := range all.Items {
				for _, endpoint := range slice.Endpoints {
					if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
						ready++
					}
				}
			}
			return ready == 2, show(all.Items), nil
		})
	printsShadowSlice(t, o)

	kubectl(t, rome, "delete", "pod", localPod.Name, "-n", o.namespace)
	isGone := func(what string) {
		t.Helper()
		eventually(t, soon, what, func(ctx context.Context) (bool, string, error) {
			found, err := reflectedSlices(ctx, o)
			return err == nil && len(found) == 0, show(found), err
		})
	}
	isGone("the endpoint to be gone on milan with its pod")
	webPodOn(t, o, "again", corev1.NodeSelectorOpDoesNotExist)
	eventually(t, soon, "another local pod to be an endpoint on milan", func(ctx context.Context) (bool, string, error) {
		found, err := reflectedSlices(ctx, o)
		return err == nil && len(found) == 1, show(found), err
	})
	setsNetworking(t, `"None"`)
	isGone("the endpoint to be gone on milan without a network")
}

// setsNetworking sets the value networking on both clusters.
func setsNetworking(t *testing.T, mode string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), soon)
	defer cancel()
	for _, side := range []struct{ of, about *harness.Cluster }{{rome, milan}, {milan, rome}} {
		result := side.of.Kubectl(ctx, "patch", "foreigncluster", side.about.Name, "--type=merge", "-p",
			`{"spec":{"networking":`+mode+`}}`)
		if result.Err != nil {
			t.Errorf("on %s: %v", side.of.Name, result.Err)
		}
	}
}

// webPodOn runs a pod that the Service web selects, on a virtual node or on a node of rome.
func webPodOn(t *testing.T, o offload, name string, virtual corev1.NodeSelectorOperator) *corev1.Pod {
	t.Helper()
	spec := podSpec("serve", ":18080")
	spec.HostNetwork = virtual == corev1.NodeSelectorOpDoesNotExist
	spec.Affinity = whereVirtual(virtual)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{"app": "web", "run": name}}, Spec: spec}
	must(rome.Kube.CoreV1().Pods(o.namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	return &podsReady(t, rome, o.namespace, "run="+name, 1)[0]
}

// whereVirtual returns an affinity that requires virtual nodes (Exists), or excludes them
// (DoesNotExist).
func whereVirtual(operator corev1.NodeSelectorOperator) *corev1.Affinity {
	return &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: v1alpha1.LabelType, Operator: operator}}}},
		}}}
}

// reflectedSlices returns the EndpointSlices in the remote namespace that belong to
// ShadowEndpointSlices.
func reflectedSlices(ctx context.Context, o offload) ([]discoveryv1.EndpointSlice, error) {
	list, err := milan.Kube.DiscoveryV1().EndpointSlices(o.remote).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelManagedBy + "=" + v1alpha1.ManagedBy})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// printsShadowSlice checks the columns that kubectl prints for the ShadowEndpointSlice of the
// Service web.
func printsShadowSlice(t *testing.T, o offload) {
	t.Helper()
	shadows := must(milan.Federation.FederationV1alpha1().ShadowEndpointSlices(o.remote).List(t.Context(),
		metav1.ListOptions{}))(t)
	if len(shadows.Items) != 1 {
		t.Fatalf("%d shadow endpoint slices: %s", len(shadows.Items), show(shadows.Items))
	}
	want := []string{shadows.Items[0].Name, "web", "IPv4", "1", "Ready"}
	eventually(t, soon, fmt.Sprintf("kubectl to print %q and an age", want),
		func(ctx context.Context) (bool, string, error) {
			result := milan.Kubectl(ctx, "get", "seps", "-n", o.remote, "--no-headers")
			got := strings.Fields(result.Stdout)
			return len(got) == len(want)+1 && slices.Equal(got[:len(want)], want), result.Stdout, result.Err
		})
}
