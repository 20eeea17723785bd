// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceexport

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/controllers/kit"
)

func made(name string) *mcsv1alpha1.ServiceImport {
	return &mcsv1alpha1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "import"}}
}

// endpoint returns an endpoint as the controller of Kubernetes creates it.
func endpoint(address, node string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{address}, NodeName: ptr.To(node), Zone: ptr.To("a"), Hostname: ptr.To("web-0"),
		Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
		Hints:      &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "a"}}},
	}
}

func slice(name string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop",
			Name:      name,
			Labels: map[string]string{
				discoveryv1.LabelServiceName: "web",
				discoveryv1.LabelManagedBy:   "endpointslice-controller.k8s.io",
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{
			{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](8080)},
		},
		Endpoints: endpoints,
	}
}

// byNode locates endpoints in rome, or in milan, which can be reached; naples cannot.
type byNode struct{}

func (byNode) clusterOf(_ *discoveryv1.EndpointSlice, endpoint *discoveryv1.Endpoint) string {
	switch ptr.Deref(endpoint.NodeName, "") {
	case "liqo-milan":
		return "milan"
	case "liqo-naples":
		return ""
	}
	return "rome"
}

// lines returns slices as cluster: addresses.
func lines(all []*discoveryv1.EndpointSlice) []string {
	var result []string
	for _, one := range all {
		line := one.Labels[mcsv1alpha1.LabelSourceCluster] + ":"
		for _, endpoint := range one.Endpoints {
			line += " " + strings.Join(endpoint.Addresses, "|")
		}
		result = append(result, line)
	}
	return result
}

func TestImportedSlicesAreOfOneClusterEach(t *testing.T) {
	leaving := slice("web-b", endpoint("10.1.0.9", "worker"))
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	names := slice("web-c", discoveryv1.Endpoint{Addresses: []string{"web.example.org"}})
	names.AddressType = discoveryv1.AddressTypeFQDN
	for _, test := range []struct {
		name string
		of   []*discoveryv1.EndpointSlice
		want map[string]bool
	}{
		{"of none", nil, map[string]bool{}},
		{"of an empty one", []*discoveryv1.EndpointSlice{slice("web-a")}, map[string]bool{}},
		{"of this cluster", []*discoveryv1.EndpointSlice{slice("web-a", endpoint("10.1.0.1", "worker"),
			endpoint("10.1.0.2", "worker"))}, map[string]bool{"rome: 10.1.0.1 10.1.0.2": true}},
		{
			"of two clusters", []*discoveryv1.EndpointSlice{slice("web-a", endpoint("10.1.0.1", "worker"),
				endpoint("10.2.0.1", "liqo-milan"), endpoint("10.1.0.2", "worker"))},
			map[string]bool{"rome: 10.1.0.1 10.1.0.2": true, "milan: 10.2.0.1": true},
		},
		{
			"one for each of the Service's", []*discoveryv1.EndpointSlice{slice("web-a", endpoint("10.1.0.1", "worker")),
				slice("web-b", endpoint("10.1.0.2", "worker"))},
			map[string]bool{"rome: 10.1.0.1": true, "rome: 10.1.0.2": true},
		},
		{
			"without the others", []*discoveryv1.EndpointSlice{slice("web-a", endpoint("10.1.0.1", "worker"),
				endpoint("10.3.0.1", "liqo-naples"))},
			map[string]bool{"rome: 10.1.0.1": true},
		},
		{"without endpoints that can be reached",
			[]*discoveryv1.EndpointSlice{slice("web-a", endpoint("10.3.0.1", "liqo-naples"))}, map[string]bool{}},
		{"of those that are not deleted, with addresses",
			[]*discoveryv1.EndpointSlice{slice("web-a", endpoint("10.1.0.1", "worker")), leaving, names},
			map[string]bool{"rome: 10.1.0.1": true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := map[string]bool{}
			for _, line := range lines(slicesFor(made("web"), test.of, byNode{})) {
				got[line] = true
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestImportedSliceConformsToTheSpecification(t *testing.T) {
	native := slice("web-a", endpoint("10.2.0.1", "liqo-milan"))
	before := native.DeepCopy()
	all := slicesFor(made("web"), []*discoveryv1.EndpointSlice{native}, byNode{})
	if len(all) != 1 {
		t.Fatalf("%d slices", len(all))
	}
	same := endpoint("10.2.0.1", "liqo-milan")
	same.Hints = nil
	want := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: sliceName("web", "web-a", "milan"),
			Labels: map[string]string{
				"multicluster.kubernetes.io/service-name": "web", "multicluster.kubernetes.io/source-cluster": "milan",
				"endpointslice.kubernetes.io/managed-by": "federation.liqo.io", "service.kubernetes.io/headless": "",
			},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "multicluster.x-k8s.io/v1alpha1", Kind: "ServiceImport", Name: "web", UID: "import"},
			},
		},
		AddressType: native.AddressType, Ports: native.Ports, Endpoints: []discoveryv1.Endpoint{same},
	}
	if diff := cmp.Diff(want, all[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !isImported(all[0], "web") || isImported(all[0], "shop") || isImported(native, "web") {
		t.Error("it is not identified")
	}
	if diff := cmp.Diff(before, native); diff != "" {
		t.Errorf("the slice of the Service was changed:\n%s", diff)
	}
}

func TestImportedSliceIsRepaired(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*discoveryv1.EndpointSlice)
		want   bool
	}{
		{"the same stays", func(*discoveryv1.EndpointSlice) {}, false},
		{"annotations of others stay", func(s *discoveryv1.EndpointSlice) { s.Annotations = map[string]string{"note": "x"} },
			false},
		{"another address is repaired",
			func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"192.0.2.1"} }, true},
		{"another port is repaired", func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = ptr.To[int32](81) }, true},
		{"another cluster is repaired",
			func(s *discoveryv1.EndpointSlice) { s.Labels[mcsv1alpha1.LabelSourceCluster] = "naples" }, true},
		{"another Service is repaired", func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "web" },
			true},
		{"an import that was deleted is replaced", func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].UID = "earlier" },
			true},
	} {
		t.Run(test.name, func(t *testing.T) {
			wanted := slicesFor(made("web"), []*discoveryv1.EndpointSlice{slice("web-a", endpoint("10.1.0.1", "worker"))},
				byNode{})[0]
			existing := wanted.DeepCopy()
			test.change(existing)
			if got := kit.UpdateEndpointSlice(existing, wanted); got != test.want {
				t.Fatalf("changed: %t", got)
			}
			if kit.UpdateEndpointSlice(existing, wanted) {
				t.Error("it still differs")
			}
		})
	}
}

// Each endpoint that can be reached is in exactly one imported slice, of its cluster, with a
// valid name of its own; the others are in none.
func TestEveryReachableEndpointIsImportedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		service := rapid.StringMatching("[a-z]([-a-z0-9]{0,61}[a-z0-9])?").Draw(t, "service")
		var of []*discoveryv1.EndpointSlice
		want := map[string]string{}
		for i := range rapid.IntRange(0, 4).Draw(t, "slices") {
			one := slice(fmt.Sprintf("%s-%d", rapid.StringMatching("[a-z]{1,200}").Draw(t, "slice"), i))
			for j := range rapid.IntRange(0, 6).Draw(t, "endpoints") {
				e := endpoint(
					fmt.Sprintf("10.0.%d.%d", i, j),
					rapid.SampledFrom([]string{"worker", "liqo-milan", "liqo-naples"}).Draw(t, "node"),
				)
				one.Endpoints = append(one.Endpoints, e)
				if cluster := (byNode{}).clusterOf(one, &e); cluster != "" {
					want[e.Addresses[0]] = cluster
				}
			}
			of = append(of, one)
		}
		got, names := map[string]string{}, map[string]bool{}
		for _, one := range slicesFor(made(service), of, byNode{}) {
			if names[one.Name] || len(validation.IsDNS1123Subdomain(one.Name)) > 0 {
				t.Errorf("the name %s is taken, or none", one.Name)
			}
			names[one.Name] = true
			for _, endpoint := range one.Endpoints {
				if _, twice := got[endpoint.Addresses[0]]; twice {
					t.Errorf("%s is imported twice", endpoint.Addresses[0])
				}
				got[endpoint.Addresses[0]] = one.Labels[mcsv1alpha1.LabelSourceCluster]
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
