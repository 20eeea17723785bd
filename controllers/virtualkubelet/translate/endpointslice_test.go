// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
)

// fromMilan is a View for the provider milan, with the same addresses in both clusters.
var fromMilan = View{RunsOnProvider: func(node string) bool { return node == "liqo-milan" }, Address: SameAddress}

// endpoint returns an endpoint as Kubernetes' EndpointSlice controller creates it.
func endpoint(address, node string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{address},
		Conditions: discoveryv1.EndpointConditions{
			Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false),
		},
		NodeName: ptr.To(node), Zone: ptr.To("rome-a"),
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "web-0"},
		Hints:     &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "rome-a"}}},
	}
}

func webSlice(endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-abcde", GenerateName: "web-",
			Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
				"app": "web",
			},
			Annotations:     map[string]string{corev1.EndpointsLastChangeTriggerTime: "2026-11-21T08:00:00Z"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Service", Name: "web"}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{
			{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](8080)},
		},
		Endpoints: endpoints,
	}
}

func TestEndpointSliceHasEndpointsThatDoNotRunOnTheProvider(t *testing.T) {
	to := Destination{OriginID: "rome-id", DestinationID: "milan-id", NodeName: "liqo-milan"}
	got := EndpointSlice(
		webSlice(
			endpoint("10.1.0.1", "rome-worker"),
			endpoint("10.2.0.1", "liqo-milan"),
			endpoint("10.3.0.1", "liqo-naples"),
		),
		"shop-rome",
		to,
		fromMilan,
	)
	ready := discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)}
	want := &v1alpha1.ShadowEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop-rome", Name: "web-abcde",
			Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: v1alpha1.ManagedBy, "app": "web",
				v1alpha1.LabelOrigin: "rome-id", v1alpha1.LabelDestination: "milan-id",
			},
			Annotations: map[string]string{
				v1alpha1.AnnotationOriginNamespace: "shop",
				v1alpha1.AnnotationReflectedKeys: "app," + discoveryv1.LabelManagedBy + "," +
					discoveryv1.LabelServiceName + ";",
			},
		},
		Spec: v1alpha1.ShadowEndpointSliceSpec{
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{
				{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](8080)},
			},
			Endpoints: []v1alpha1.ShadowEndpoint{
				{Addresses: []string{"10.1.0.1"}, Conditions: ready},
				{Addresses: []string{"10.3.0.1"}, Conditions: ready},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhichEndpointSlicesAreReflected(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*discoveryv1.EndpointSlice)
		view   func(string) (string, bool)
		want   []v1alpha1.ShadowEndpoint
	}{
		{name: "local pod", want: []v1alpha1.ShadowEndpoint{{Addresses: []string{"10.1.0.1"}}}},
		{
			name:   "one that is not ready does, as it is",
			change: func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = ptr.To(false) },
			want: []v1alpha1.ShadowEndpoint{
				{Addresses: []string{"10.1.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}},
			},
		},
		{
			name: "pod of a headless Service, with its host name",
			change: func(s *discoveryv1.EndpointSlice) {
				s.Labels[corev1.IsHeadlessService], s.Endpoints[0].Hostname = "", ptr.To("web-0")
			},
			want: []v1alpha1.ShadowEndpoint{{Addresses: []string{"10.1.0.1"}, Hostname: ptr.To("web-0")}},
		},
		{
			name: "endpoint of a Service without selector, without a node",
			change: func(s *discoveryv1.EndpointSlice) {
				delete(s.Labels, discoveryv1.LabelManagedBy)
				s.Endpoints[0].NodeName = nil
			},
			want: []v1alpha1.ShadowEndpoint{{Addresses: []string{"10.1.0.1"}}},
		},
		{
			name: "IPv6 slice of a dual-stack Service",
			change: func(s *discoveryv1.EndpointSlice) {
				s.AddressType, s.Endpoints[0].Addresses = discoveryv1.AddressTypeIPv6, []string{"fd00::1"}
			},
			want: []v1alpha1.ShadowEndpoint{{Addresses: []string{"fd00::1"}}},
		},
		{
			name: "mapped address",
			view: func(address string) (string, bool) { return strings.Replace(address, "10.1.", "10.81.", 1), true },
			want: []v1alpha1.ShadowEndpoint{{Addresses: []string{"10.81.0.1"}}},
		},
		{name: "unreachable address", view: func(string) (string, bool) { return "", false }},
		{
			name:   "pod on the provider",
			change: func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].NodeName = ptr.To("liqo-milan") },
		},
		{
			name:   "loopback address",
			change: func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"127.0.0.1"} },
		},
		{
			name:   "link-local address",
			change: func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"169.254.169.254"} },
		},
		{
			name: "valid and invalid addresses",
			change: func(s *discoveryv1.EndpointSlice) {
				s.Endpoints[0].Addresses = []string{"0.0.0.0"}
				s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.1.0.2"}})
			},
			want: []v1alpha1.ShadowEndpoint{{Addresses: []string{"10.1.0.2"}}},
		},
		{name: "host name", change: func(s *discoveryv1.EndpointSlice) {
			s.AddressType, s.Endpoints[0].Addresses = discoveryv1.AddressTypeFQDN, []string{"web.example.org"}
		}},
		{
			name:   "slice without a Service",
			change: func(s *discoveryv1.EndpointSlice) { delete(s.Labels, discoveryv1.LabelServiceName) },
		},
		{
			name:   "slice of a consumer",
			change: func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = v1alpha1.ManagedBy },
		},
		{name: "slice of the API server", change: func(s *discoveryv1.EndpointSlice) {
			s.Namespace, s.Labels[discoveryv1.LabelServiceName] = "default", "kubernetes"
		}},
		{
			name:   "slice excluded by annotation",
			change: func(s *discoveryv1.EndpointSlice) { s.Annotations[v1alpha1.AnnotationSkipReflection] = "" },
		},
		{name: "empty slice", change: func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			local := webSlice(discoveryv1.Endpoint{Addresses: []string{"10.1.0.1"}, NodeName: ptr.To("rome-worker")})
			if test.change != nil {
				test.change(local)
			}
			view := fromMilan
			if test.view != nil {
				view.Address = test.view
			}
			before := local.DeepCopy()
			var got []v1alpha1.ShadowEndpoint
			if shadow := EndpointSlice(local, "shop-rome", Destination{}, view); shadow != nil {
				got = shadow.Spec.Endpoints
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, local); diff != "" {
				t.Errorf("the local one was changed:\n%s", diff)
			}
		})
	}
}

// For arbitrary slices, the reflected slice has only valid endpoints, in the same order, and no endpoints that run on
// the provider.
func TestReflectedEndpointsPassTheProvidersValidation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SampledFrom([]string{"rome-worker", "liqo-milan", "liqo-naples"})
		families := map[discoveryv1.AddressType]int{discoveryv1.AddressTypeIPv4: 4, discoveryv1.AddressTypeIPv6: 16}
		family := rapid.SampledFrom(
			[]discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6},
		).
			Draw(t, "family")
		local := webSlice()
		local.AddressType = family
		var want []string
		for range rapid.IntRange(0, 20).Draw(t, "endpoints") {
			address, _ := netip.AddrFromSlice(
				rapid.SliceOfN(rapid.Byte(), families[family], families[family]).Draw(t, "address"),
			)
			node := nodes.Draw(t, "node")
			local.Endpoints = append(local.Endpoints, endpoint(address.String(), node))
			if node != "liqo-milan" && address.IsGlobalUnicast() && !address.Is4In6() {
				want = append(want, address.String())
			}
		}
		var got []string
		if shadow := EndpointSlice(local, "shop-rome", Destination{}, fromMilan); shadow != nil {
			for _, endpoint := range shadow.Spec.Endpoints {
				got = append(got, endpoint.Addresses...)
				for _, address := range endpoint.Addresses {
					if errs := validation.EndpointAddress(address, family, nil); len(errs) > 0 {
						t.Errorf("the provider refuses %s: %v", address, errs)
					}
				}
			}
			if UpdateEndpointSlice(shadow.DeepCopy(), shadow) != Keep {
				t.Error("an unchanged slice is written again")
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestUpdateEndpointSlice(t *testing.T) {
	made := func(change ...func(*v1alpha1.ShadowEndpointSlice)) *v1alpha1.ShadowEndpointSlice {
		shadow := EndpointSlice(webSlice(endpoint("10.1.0.1", "rome-worker")), "shop-rome", Destination{}, fromMilan)
		for _, c := range change {
			c(shadow)
		}
		return shadow
	}
	for _, test := range []struct {
		name    string
		desired *v1alpha1.ShadowEndpointSlice
		want    Change
	}{
		{"no change", made(), Keep},
		{
			"defaults of the provider",
			made(func(s *v1alpha1.ShadowEndpointSlice) { s.Spec.Ports[0].Protocol = nil }), Keep,
		},
		{
			"another endpoint",
			made(func(s *v1alpha1.ShadowEndpointSlice) { s.Spec.Endpoints[0].Addresses = []string{"10.1.0.2"} }),
			Update,
		},
		{"changed label", made(func(s *v1alpha1.ShadowEndpointSlice) { s.Labels["app"] = "shop" }), Update},
		{
			"another address family",
			made(func(s *v1alpha1.ShadowEndpointSlice) { s.Spec.AddressType = discoveryv1.AddressTypeIPv6 }), Replace,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			existing := made()
			if got := UpdateEndpointSlice(existing, test.desired); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if test.want == Update {
				if again := UpdateEndpointSlice(existing, test.desired); again != Keep {
					t.Errorf("the second time it is %v", again)
				}
			}
		})
	}
}

func TestEndpointsInheritTheAnnotationsOfTheirService(t *testing.T) {
	skip, allow := map[string]string{
		v1alpha1.AnnotationSkipReflection: "",
	}, map[string]string{
		v1alpha1.AnnotationAllowReflection: "",
	}
	deny, allowList := Policy{}, Policy{AllowList: true}
	for _, test := range []struct {
		name             string
		services, slices Policy
		service, slice   map[string]string
		apiServer, none  bool
		want             bool
	}{
		{name: "default", want: true},
		{name: "Service of the API server", apiServer: true},
		{name: "no Service", none: true},
		{name: "excluded Service", service: skip},
		{name: "excluded slice", slice: skip},
		{name: "Services by allow list, allowed Service", services: allowList, service: allow, want: true},
		{name: "Services by allow list, Service not allowed", services: allowList, slice: allow},
		{
			name: "slices by allow list, allowed Service", slices: allowList, service: allow,
			want: true,
		},
		{
			name: "slices by allow list, allowed slice", services: deny, slices: allowList, slice: allow,
			want: true,
		},
		{name: "slices by allow list, nothing allowed", slices: allowList},
	} {
		t.Run(test.name, func(t *testing.T) {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: test.service}}
			if test.apiServer {
				service.Namespace, service.Name = "default", "kubernetes"
			}
			if test.none {
				service = nil
			}
			slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Annotations: test.slice}}
			if got := ReflectsEndpoints(test.services, test.slices, service, slice); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
