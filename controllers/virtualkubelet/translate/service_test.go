// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// service returns a local Service of a type with the fields that the API server sets, modified by change.
func service(kind corev1.ServiceType, change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", ResourceVersion: "7"},
		Spec: corev1.ServiceSpec{
			Type:                  kind,
			Selector:              map[string]string{"app": "web"},
			ClusterIP:             "10.96.0.7",
			ClusterIPs:            []string{"10.96.0.7"},
			IPFamilies:            []corev1.IPFamily{corev1.IPv4Protocol},
			IPFamilyPolicy:        ptr.To(corev1.IPFamilyPolicySingleStack),
			SessionAffinity:       corev1.ServiceAffinityNone,
			InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyCluster),
			Ports: []corev1.ServicePort{
				{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)},
			},
		},
		Status: corev1.ServiceStatus{
			LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}},
		},
	}
	switch kind {
	case corev1.ServiceTypeLoadBalancer:
		s.Spec.AllocateLoadBalancerNodePorts = ptr.To(true)
		fallthrough
	case corev1.ServiceTypeNodePort:
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
		s.Spec.Ports[0].NodePort = 30080
	case corev1.ServiceTypeExternalName:
		s.Spec = corev1.ServiceSpec{
			Type: kind, ExternalName: "example.com", SessionAffinity: corev1.ServiceAffinityNone,
		}
	}
	if change != nil {
		change(s)
	}
	return s
}

func TestReflectedServiceRequestsAddressesOfTheProvider(t *testing.T) {
	// plain returns the expected reflected Service.
	plain := func(kind corev1.ServiceType, change func(*corev1.ServiceSpec)) *corev1.Service {
		s := &corev1.Service{ObjectMeta: copied("web", nil), Spec: corev1.ServiceSpec{
			Type:                  kind,
			Selector:              map[string]string{"app": "web"},
			IPFamilyPolicy:        ptr.To(corev1.IPFamilyPolicySingleStack),
			SessionAffinity:       corev1.ServiceAffinityNone,
			InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyCluster),
			Ports: []corev1.ServicePort{
				{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)},
			},
		}}
		if change != nil {
			change(&s.Spec)
		}
		return s
	}
	for _, test := range []struct {
		name  string
		local *corev1.Service
		want  *corev1.Service
	}{
		{
			name: "another address", local: service(corev1.ServiceTypeClusterIP, nil),
			want: plain(corev1.ServiceTypeClusterIP, nil),
		},
		{
			name: "headless stays headless",
			local: service(
				corev1.ServiceTypeClusterIP,
				func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", []string{"None"} },
			),
			want: plain(corev1.ServiceTypeClusterIP, func(s *corev1.ServiceSpec) { s.ClusterIP = "None" }),
		},
		{
			name:  "other node ports",
			local: service(corev1.ServiceTypeNodePort, nil),
			want: plain(corev1.ServiceTypeNodePort, func(s *corev1.ServiceSpec) {
				s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
			}),
		},
		{
			name: "forced node ports",
			local: service(corev1.ServiceTypeNodePort, func(s *corev1.Service) {
				s.Annotations = map[string]string{"liqo.io/force-remote-node-port": "true"}
			}),
			want: func() *corev1.Service {
				s := plain(corev1.ServiceTypeNodePort, func(s *corev1.ServiceSpec) {
					s.ExternalTrafficPolicy, s.Ports[0].NodePort = corev1.ServiceExternalTrafficPolicyCluster, 30080
				})
				s.Annotations["liqo.io/force-remote-node-port"] = "true"
				s.Annotations["offloading.liqo.io/reflected-keys"] = ";liqo.io/force-remote-node-port"
				return s
			}(),
		},
		{
			name: "load balancer of the provider",
			local: service(corev1.ServiceTypeLoadBalancer, func(s *corev1.Service) {
				s.Spec.LoadBalancerClass, s.Spec.LoadBalancerIP, s.Spec.ExternalIPs = ptr.To("example.com/lb"),
					"192.0.2.1", []string{"192.0.2.2"}
				s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal,
					30081
				s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
			}),
			want: plain(corev1.ServiceTypeLoadBalancer, func(s *corev1.ServiceSpec) {
				s.ExternalTrafficPolicy, s.AllocateLoadBalancerNodePorts = corev1.ServiceExternalTrafficPolicyLocal,
					ptr.To(true)
				s.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
			}),
		},
		{
			name:  "an alias",
			local: service(corev1.ServiceTypeExternalName, nil),
			want: &corev1.Service{ObjectMeta: copied("web", nil), Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeExternalName, ExternalName: "example.com",
				SessionAffinity: corev1.ServiceAffinityNone,
			}},
		},
		{
			name: "dual stack, if the provider has it",
			local: service(corev1.ServiceTypeClusterIP, func(s *corev1.Service) {
				s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
				s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
			}),
			want: plain(
				corev1.ServiceTypeClusterIP,
				func(s *corev1.ServiceSpec) { s.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyPreferDualStack) },
			),
		},
		{
			name: "traffic policies",
			local: service(corev1.ServiceTypeClusterIP, func(s *corev1.Service) {
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
				s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
					ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](60)},
				}
				s.Spec.InternalTrafficPolicy, s.Spec.TrafficDistribution = ptr.To(
					corev1.ServiceInternalTrafficPolicyLocal,
				),
					ptr.To("PreferClose")
				s.Spec.PublishNotReadyAddresses = true
				s.Spec.Ports[0].AppProtocol = ptr.To("kubernetes.io/h2c")
			}),
			want: plain(corev1.ServiceTypeClusterIP, func(s *corev1.ServiceSpec) {
				s.SessionAffinity = corev1.ServiceAffinityClientIP
				s.SessionAffinityConfig = &corev1.SessionAffinityConfig{
					ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](60)},
				}
				s.InternalTrafficPolicy, s.TrafficDistribution = ptr.To(corev1.ServiceInternalTrafficPolicyLocal),
					ptr.To("PreferClose")
				s.PublishNotReadyAddresses = true
				s.Ports[0].AppProtocol = ptr.To("kubernetes.io/h2c")
			}),
		},
		{
			name: "Service of the API server",
			local: service(corev1.ServiceTypeClusterIP, func(s *corev1.Service) {
				s.Namespace, s.Name = "default", "kubernetes"
			}),
		},
		{
			name: "excluded by annotation",
			local: service(corev1.ServiceTypeClusterIP, func(s *corev1.Service) {
				s.Annotations = map[string]string{"liqo.io/skip-reflection": "true"}
			}),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := test.local.DeepCopy()
			if diff := cmp.Diff(test.want, Service(test.local, "shop-rome", destination)); diff != "" {
				t.Errorf("reflected object (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.local); diff != "" {
				t.Errorf("the local one was changed:\n%s", diff)
			}
		})
	}
}

// given returns the reflected object of a Service with the fields that the provider's API server sets.
func given(s *corev1.Service) *corev1.Service {
	reflected := Service(s, "shop-rome", destination)
	if reflected.Spec.Type == corev1.ServiceTypeExternalName {
		return reflected
	}
	if reflected.Spec.ClusterIP == "" {
		reflected.Spec.ClusterIP = "10.112.0.9"
	}
	reflected.Spec.ClusterIPs = []string{reflected.Spec.ClusterIP}
	reflected.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	if reflected.Spec.Type != corev1.ServiceTypeClusterIP {
		for i := range reflected.Spec.Ports {
			reflected.Spec.Ports[i].NodePort = 31000 + int32(i)
		}
	}
	if reflected.Spec.Type == corev1.ServiceTypeLoadBalancer {
		reflected.Spec.LoadBalancerClass = ptr.To("milan/lb")
		// Some load balancer controllers write this field.
		reflected.Spec.LoadBalancerIP = "192.0.2.77"
		reflected.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"}
		if reflected.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
			reflected.Spec.HealthCheckNodePort = 31500
		}
		reflected.Status = s.Status
	}
	return reflected
}

func TestLoadBalancerClassIsOneThatTheProviderOffers(t *testing.T) {
	to := destination
	to.Classes = Classes{Ingress: []string{"offered"}, LoadBalancer: []string{"milan/offered", "example.com/lb"}}
	for _, test := range []struct {
		name  string
		of    corev1.ServiceType
		local *string
		want  *string
	}{
		{
			name: "an offered class", of: corev1.ServiceTypeLoadBalancer, local: ptr.To("example.com/lb"),
			want: ptr.To("example.com/lb"),
		},
		{
			name: "another class", of: corev1.ServiceTypeLoadBalancer, local: ptr.To("example.com/other"),
			want: ptr.To("milan/offered"),
		},
		{name: "none", of: corev1.ServiceTypeLoadBalancer, want: ptr.To("milan/offered")},
		{name: "no load balancer", of: corev1.ServiceTypeNodePort},
	} {
		t.Run(test.name, func(t *testing.T) {
			local := service(test.of, func(s *corev1.Service) { s.Spec.LoadBalancerClass = test.local })
			if diff := cmp.Diff(test.want, Service(local, "shop-rome", to).Spec.LoadBalancerClass); diff != "" {
				t.Errorf("class (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUpdateServiceKeepsFieldsOfTheProvider(t *testing.T) {
	second := func(s *corev1.Service) {
		s.Spec.Ports = append(
			[]corev1.ServicePort{
				{
					Name: "grpc", Protocol: corev1.ProtocolTCP, Port: 9090, TargetPort: intstr.FromInt32(9090),
					NodePort: 30090,
				},
			},
			s.Spec.Ports...)
	}
	headless := func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", []string{"None"} }
	local := func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }
	families := func(policy corev1.IPFamilyPolicy) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.IPFamilyPolicy = &policy }
	}
	const (
		single  = corev1.IPFamilyPolicySingleStack
		prefer  = corev1.IPFamilyPolicyPreferDualStack
		require = corev1.IPFamilyPolicyRequireDualStack
	)
	// both sets the fields that the API server of a dual-stack cluster sets.
	both := func(s *corev1.Service) {
		s.Spec.ClusterIPs, s.Spec.IPFamilies = append(
			s.Spec.ClusterIPs,
			"fd00::9",
		), append(
			s.Spec.IPFamilies,
			corev1.IPv6Protocol,
		)
	}
	const (
		clusterIP    = corev1.ServiceTypeClusterIP
		nodePort     = corev1.ServiceTypeNodePort
		loadBalancer = corev1.ServiceTypeLoadBalancer
		alias        = corev1.ServiceTypeExternalName
	)
	for _, test := range []struct {
		name          string
		before, after *corev1.Service
		// drift modifies the reflected object on the provider.
		drift func(*corev1.Service)
		want  Change
		// becomes modifies the reflected object into the expected one.
		becomes func(*corev1.Service)
	}{
		{name: "nothing", before: service(clusterIP, nil), after: service(clusterIP, nil)},
		{name: "nothing, headless", before: service(clusterIP, headless), after: service(clusterIP, headless)},
		{name: "nothing, node ports", before: service(nodePort, nil), after: service(nodePort, nil)},
		{name: "nothing, load balancer", before: service(loadBalancer, local), after: service(loadBalancer, local)},
		{name: "nothing, ExternalName", before: service(alias, nil), after: service(alias, nil)},
		{
			name: "the local address", before: service(clusterIP, nil),
			after: service(
				clusterIP,
				func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.96.0.8", []string{"10.96.0.8"} },
			),
		},
		{
			name: "the selector", before: service(clusterIP, nil), want: Update,
			after:   service(clusterIP, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "shop"} }),
			becomes: func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "shop"} },
		},
		{
			name: "an additional port", before: service(nodePort, nil),
			after: service(nodePort, second), want: Update,
			becomes: func(s *corev1.Service) { second(s); s.Spec.Ports[0].NodePort = 0 },
		},
		{
			name: "drift", before: service(clusterIP, nil), after: service(clusterIP, nil), want: Update,
			drift:   func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(1) },
			becomes: func(*corev1.Service) {},
		},
		{
			name: "external addresses added on the provider", before: service(clusterIP, nil),
			after: service(clusterIP, nil), want: Update,
			drift:   func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.3"} },
			becomes: func(*corev1.Service) {},
		},
		{
			name: "NodePort instead of ClusterIP", before: service(clusterIP, nil), after: service(nodePort, nil),
			want: Update,
			becomes: func(s *corev1.Service) {
				s.Spec.Type, s.Spec.ExternalTrafficPolicy = nodePort, corev1.ServiceExternalTrafficPolicyCluster
			},
		},
		{
			name: "ClusterIP instead of NodePort", before: service(nodePort, nil), after: service(clusterIP, nil),
			want: Update,
			becomes: func(s *corev1.Service) {
				s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Spec.Ports[0].NodePort = clusterIP, "", 0
			},
		},
		{
			name: "ClusterIP instead of LoadBalancer", before: service(loadBalancer, local),
			after: service(clusterIP, nil),
			want:  Update,
			becomes: func(s *corev1.Service) {
				s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Spec.Ports[0].NodePort = clusterIP, "", 0
				s.Spec.AllocateLoadBalancerNodePorts, s.Spec.LoadBalancerClass, s.Spec.HealthCheckNodePort,
					s.Spec.LoadBalancerIP = nil,
					nil, 0, ""
			},
		},
		{
			name: "another load balancer address", before: service(loadBalancer, nil),
			after:   service(loadBalancer, nil),
			drift:   func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.78" },
			becomes: func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.78" },
		},
		{
			name: "LoadBalancer instead of NodePort", before: service(nodePort, nil), want: Update,
			after: service(loadBalancer, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.1" }),
			becomes: func(s *corev1.Service) {
				s.Spec.Type, s.Spec.AllocateLoadBalancerNodePorts = loadBalancer, ptr.To(true)
			},
		},
		{
			name: "nothing, dual stack", before: service(clusterIP, families(prefer)),
			after: service(clusterIP, families(prefer)), drift: both, becomes: both,
		},
		{
			name: "required dual stack", before: service(clusterIP, families(prefer)),
			after: service(clusterIP, families(require)), drift: both, becomes: both,
		},
		{
			// The provider's API server allocates the second address.
			name: "dual stack instead of single stack", before: service(clusterIP, families(single)),
			after: service(clusterIP, families(prefer)), want: Update,
			becomes: families(prefer),
		},
		{
			// The provider's API server releases the second address.
			name: "single stack instead of dual stack", before: service(clusterIP, families(prefer)),
			after: service(clusterIP, families(single)), want: Update,
			drift:   both,
			becomes: func(s *corev1.Service) { both(s); families(single)(s) },
		},
		{
			name:   "dual stack, headless",
			before: service(clusterIP, func(s *corev1.Service) { headless(s); families(single)(s) }), want: Update,
			after:   service(clusterIP, func(s *corev1.Service) { headless(s); families(prefer)(s) }),
			becomes: families(prefer),
		},
		{
			name: "no longer headless", before: service(clusterIP, headless), after: service(clusterIP, nil),
			want: Replace,
		},
		{
			name: "headless", before: service(clusterIP, nil), after: service(clusterIP, headless),
			want: Replace,
		},
		{
			name: "ExternalName instead of ClusterIP", before: service(clusterIP, nil), after: service(alias, nil),
			want:    Update,
			becomes: func(s *corev1.Service) { s.Spec = service(alias, nil).Spec },
		},
		{
			name: "ClusterIP instead of ExternalName", before: service(alias, nil), after: service(clusterIP, nil),
			want:    Update,
			becomes: func(s *corev1.Service) { s.Spec = Service(service(clusterIP, nil), "", destination).Spec },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			existing := given(test.before)
			expected := existing.DeepCopy()
			if test.becomes != nil {
				test.becomes(expected)
			}
			if test.drift != nil {
				test.drift(existing)
			}
			desired := Service(test.after, "shop-rome", destination)
			if got := UpdateService(existing, desired); got != test.want {
				t.Fatalf("change %d, want %d", got, test.want)
			}
			if test.want == Replace {
				return
			}
			if diff := cmp.Diff(expected, existing); diff != "" {
				t.Errorf("reflected object (-want +got):\n%s", diff)
			}
			if UpdateService(existing, desired) != Keep {
				t.Error("a second update changes something")
			}
		})
	}
}
