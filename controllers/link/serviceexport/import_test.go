// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceexport

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
)

var exporter = metav1.OwnerReference{
	APIVersion: "multicluster.x-k8s.io/v1alpha1",
	Kind:       "ServiceExport",
	Name:       "web",
	UID:        "export",
}

// web returns a Service as the API server stores it.
func web(change ...func(*corev1.Service)) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop",
			Name:      "web",
			UID:       "service",
			Labels:    map[string]string{"app": "web"},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": "web"},
			SessionAffinity: corev1.ServiceAffinityNone,
			ClusterIP:       "10.96.0.7", ClusterIPs: []string{"10.96.0.7", "fd00:96::7"},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			Ports: []corev1.ServicePort{
				{
					Name:        "http",
					Protocol:    corev1.ProtocolTCP,
					AppProtocol: ptr.To("kubernetes.io/h2c"),
					Port:        80,
					TargetPort:  intstr.FromInt32(8080),
					NodePort:    30080,
				},
			},
		},
	}
	for _, c := range change {
		c(service)
	}
	return service
}

func TestImportIsOfItsService(t *testing.T) {
	plain := func(change ...func(*mcsv1alpha1.ServiceImportSpec)) mcsv1alpha1.ServiceImportSpec {
		spec := mcsv1alpha1.ServiceImportSpec{
			Type: mcsv1alpha1.ClusterSetIP, IPs: []string{"10.96.0.7", "fd00:96::7"},
			IPFamilies:      []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []mcsv1alpha1.ServicePort{
				{Name: "http", Protocol: corev1.ProtocolTCP, AppProtocol: ptr.To("kubernetes.io/h2c"), Port: 80},
			},
		}
		for _, c := range change {
			c(&spec)
		}
		return spec
	}
	for _, test := range []struct {
		name    string
		service *corev1.Service
		want    mcsv1alpha1.ServiceImportSpec
	}{
		{"its address and ports are the Service's", web(), plain()},
		{"one with node ports has an address, too", web(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }),
			plain()},
		{
			"a headless one has none",
			web(func(s *corev1.Service) {
				s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
			}),
			plain(func(s *mcsv1alpha1.ServiceImportSpec) { s.Type, s.IPs = mcsv1alpha1.Headless, nil }),
		},
		{
			"a headless one may have no ports",
			web(func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.Ports = corev1.ClusterIPNone, nil }),
			plain(func(s *mcsv1alpha1.ServiceImportSpec) {
				s.Type, s.IPs, s.Ports = mcsv1alpha1.Headless, nil, []mcsv1alpha1.ServicePort{}
			}),
		},
		{
			"clients stay with their endpoint",
			web(func(s *corev1.Service) {
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
				timeout := &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](60)}
				s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: timeout}
			}),
			plain(func(s *mcsv1alpha1.ServiceImportSpec) {
				s.SessionAffinity = corev1.ServiceAffinityClientIP
				timeout := &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](60)}
				s.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: timeout}
			}),
		},
		{
			"traffic policies of the Service",
			web(func(s *corev1.Service) {
				s.Spec.InternalTrafficPolicy, s.Spec.TrafficDistribution = ptr.To(corev1.ServiceInternalTrafficPolicyLocal),
					ptr.To("PreferSameZone")
			}),
			plain(func(s *mcsv1alpha1.ServiceImportSpec) {
				s.InternalTrafficPolicy, s.TrafficDistribution = ptr.To(corev1.ServiceInternalTrafficPolicyLocal),
					ptr.To("PreferSameZone")
			}),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := test.service.DeepCopy()
			got := importFor(test.service, exporter)
			want := &mcsv1alpha1.ServiceImport{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "shop", Name: "web", Labels: map[string]string{"app.kubernetes.io/managed-by": "federation.liqo.io"},
					OwnerReferences: []metav1.OwnerReference{exporter},
				},
				Spec: test.want,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if updateImport(got.DeepCopy(), got) {
				t.Error("the same one is written again")
			}
			if diff := cmp.Diff(before, test.service); diff != "" {
				t.Errorf("the Service was changed:\n%s", diff)
			}
		})
	}
}

func TestImportIsRepaired(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*mcsv1alpha1.ServiceImport)
		want   bool
	}{
		{"the same stays", func(*mcsv1alpha1.ServiceImport) {}, false},
		{"labels and annotations of others stay", func(i *mcsv1alpha1.ServiceImport) {
			i.Labels["team"], i.Annotations = "a", map[string]string{"note": "x"}
		}, false},
		{"a status is no drift", func(i *mcsv1alpha1.ServiceImport) { updateStatus(i, []string{"rome"}, true) }, false},
		{"another address is repaired", func(i *mcsv1alpha1.ServiceImport) { i.Spec.IPs = []string{"192.0.2.1"} }, true},
		{"another port is repaired", func(i *mcsv1alpha1.ServiceImport) { i.Spec.Ports[0].Port = 81 }, true},
		{"an owner that was deleted is replaced", func(i *mcsv1alpha1.ServiceImport) { i.OwnerReferences[0].UID = "earlier" },
			true},
	} {
		t.Run(test.name, func(t *testing.T) {
			wanted := importFor(web(), exporter)
			existing := wanted.DeepCopy()
			test.change(existing)
			if got := updateImport(existing, wanted); got != test.want {
				t.Fatalf("changed: %t", got)
			}
			if diff := cmp.Diff(wanted.Spec, existing.Spec); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if updateImport(existing, wanted) {
				t.Error("it still differs")
			}
		})
	}
}

func TestImportReportsItsClusters(t *testing.T) {
	one := importFor(web(), exporter)
	updateStatus(one, []string{"rome", "milan", "milan"}, true)
	want := []mcsv1alpha1.ClusterStatus{{Cluster: "milan"}, {Cluster: "rome"}}
	if diff := cmp.Diff(want, one.Status.Clusters); diff != "" ||
		one.Status.EndpointSliceObjects != mcsv1alpha1.EndpointSliceObjectsPresent {
		t.Errorf("%s (-want +got):\n%s", one.Status.EndpointSliceObjects, diff)
	}
	again := one.DeepCopy()
	updateStatus(again, []string{"milan", "rome"}, true)
	if diff := cmp.Diff(one, again); diff != "" {
		t.Errorf("a second report changes it:\n%s", diff)
	}
	updateStatus(one, []string{"rome"}, false)
	if len(one.Status.Clusters) != 1 || one.Status.EndpointSliceObjects != mcsv1alpha1.EndpointSliceObjectsAbsent {
		t.Errorf("got %+v", one.Status)
	}
}
