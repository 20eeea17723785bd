// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestIsolatedPodsReachNothingOfTheProvider(t *testing.T) {
	network := Network{
		IngressFrom: []string{"monitoring", "ingress"},
		DNS:         []netip.Prefix{netip.MustParsePrefix("169.254.20.10/32")},
		Refused:     []netip.Prefix{netip.MustParsePrefix("192.168.0.0/16")},
	}
	others := []string{
		"10.244.0.0/16", "fd00:244::/56", "10.96.0.0/12", "172.30.1.2/32", "10.244.0.0/16", "10.81.0.0/16",
	}
	policy := network.policy("milan", []string{"10.80.0.0/16"}, others, families)
	ofTheConsumer := []networkingv1.NetworkPolicyPeer{
		{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
			"federation.liqo.io/role": "twin", "federation.liqo.io/foreign-cluster": "milan",
		}}},
		block("10.80.0.0/16"),
	}
	for name, test := range map[string]struct{ got, want any }{
		"selected pods": {policy.PodSelector, metav1.LabelSelector{}},
		"directions": {policy.PolicyTypes,
			[]networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}},
		"number of rules": {[]int{len(policy.Ingress), len(policy.Egress)}, []int{2, 4}},
		"sources of the consumer": {policy.Ingress[0],
			networkingv1.NetworkPolicyIngressRule{From: ofTheConsumer}},
		"destinations of the consumer": {policy.Egress[0], networkingv1.NetworkPolicyEgressRule{To: ofTheConsumer}},
		"namespaces as sources": {policy.Ingress[1].From[0].NamespaceSelector.MatchExpressions[0].Values,
			[]string{"ingress", "monitoring"}},
		"DNS servers in pods": {policy.Egress[1], networkingv1.NetworkPolicyEgressRule{
			To: []networkingv1.NetworkPolicyPeer{namespaces("kube-system")},
			Ports: []networkingv1.NetworkPolicyPort{udp(intstr.FromInt32(53)), tcp(intstr.FromInt32(53)),
				udp(intstr.FromString("dns")), udp(intstr.FromString("dns-udp")), tcp(intstr.FromString("dns-tcp"))},
		}},
		"other DNS servers": {policy.Egress[2], networkingv1.NetworkPolicyEgressRule{
			To:    []networkingv1.NetworkPolicyPeer{block("169.254.20.10/32")},
			Ports: []networkingv1.NetworkPolicyPort{udp(intstr.FromInt32(53)), tcp(intstr.FromInt32(53))},
		}},
		"addresses outside of the cluster": {policy.Egress[3].To, []networkingv1.NetworkPolicyPeer{
			block("0.0.0.0/0", "10.244.0.0/16", "10.81.0.0/16", "10.96.0.0/12", "100.100.100.200/32",
				"168.63.129.16/32", "169.254.0.0/16",
				"172.30.1.2/32", "192.0.0.192/32", "192.168.0.0/16"),
			block("::/0", "fd00:244::/56", "fd00:ec2::254/128", "fd20:ce::254/128", "fe80::/10"),
		}},
		"ports of addresses outside": {policy.Egress[3].Ports, []networkingv1.NetworkPolicyPort(nil)},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNetworkPolicyFollowsTheTrust(t *testing.T) {
	tenant := foreignCluster()
	tenant.Spec.Trust = v1alpha1.TrustTenant
	generated := naming.UniqueRemoteNamespace("bakery", "milan", consumerID)
	requested := requesting()
	requested.Spec.Namespaces = []v1alpha1.NamespaceMapping{{Name: "bakery", RemoteName: generated}}
	c := kittest.New(t, tenant, tenantNamespace(), requested, remoteNamespace(generated, "bakery"),
		binding(naming.TenantNamespace("milan"), tenantBinding, consumer),
		&v1alpha1.TunnelEndpoint{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-system", Name: "milan"},
			Spec: v1alpha1.TunnelEndpointSpec{ClusterID: consumerID, Remote: []v1alpha1.CIDRMapping{
				{CIDR: "10.244.0.0/16", Mapped: "10.80.0.0/16"},
			}},
		})
	r := newReconciler(c)
	r.Network.Namespace = "liqo-system"
	policies := func() []networkingv1.NetworkPolicy {
		t.Helper()
		pass(t, r)
		return kittest.List(c, &networkingv1.NetworkPolicyList{}).Items
	}
	found := policies()
	if len(found) != 1 || found[0].Namespace != generated ||
		found[0].Spec.Ingress[0].From[1].IPBlock.CIDR != "10.80.0.0/16" {
		t.Fatalf("a tenant has the NetworkPolicies %v", found)
	}
	kittest.Change(c, "", "milan", &v1alpha1.ForeignCluster{}, func(fc *v1alpha1.ForeignCluster) {
		fc.Spec.Trust = v1alpha1.TrustSameOwner
	})
	if found := policies(); len(found) > 0 {
		t.Errorf("a consumer of the same owner has the NetworkPolicies %v", found)
	}
}

func TestIsolatedPodsDoNotReachOtherPeers(t *testing.T) {
	tenant := foreignCluster()
	tenant.Spec.Trust = v1alpha1.TrustTenant
	endpoint := func(name, clusterID string, mapped ...string) *v1alpha1.TunnelEndpoint {
		tunnel := &v1alpha1.TunnelEndpoint{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-system", Name: name},
			Spec:       v1alpha1.TunnelEndpointSpec{ClusterID: clusterID},
		}
		for _, cidr := range mapped {
			tunnel.Spec.Remote = append(tunnel.Spec.Remote, v1alpha1.CIDRMapping{CIDR: "10.244.0.0/16", Mapped: cidr})
		}
		return tunnel
	}
	c := kittest.New(t, tenant, tenantNamespace(), requesting("bakery"), remoteNamespace("bakery", "bakery"),
		binding(naming.TenantNamespace("milan"), tenantBinding, consumer), endpoint("milan", consumerID, "10.80.0.0/16"),
		clusterInfo(v1alpha1.RangeOfPods, "10.244.0.0/15", v1alpha1.RangeOfNodes, "172.30.1.2/32",
			v1alpha1.RangeOfServices, "10.96.0.0/12"))
	r := newReconciler(c)
	r.Network.Namespace = "liqo-system"
	for _, test := range []struct {
		name string
		peer *v1alpha1.TunnelEndpoint
		want []string
	}{
		{"no other peer", nil, nil},
		{"a remapped range and an external CIDR", endpoint("paris", providerID, "10.81.0.0/16", "10.82.0.0/18"),
			[]string{"10.81.0.0/16", "10.82.0.0/18"}},
		{"a range that is kept", endpoint("naples", providerID, "172.20.0.0/16"),
			[]string{"10.81.0.0/16", "10.82.0.0/18", "172.20.0.0/16"}},
		{"a former cluster of the consumer's name", endpoint("milan", "a former ID", "10.90.0.0/16"),
			[]string{"10.81.0.0/16", "10.82.0.0/18", "10.90.0.0/16", "172.20.0.0/16"}},
	} {
		if test.peer != nil {
			_ = c.Delete(t.Context(), test.peer.DeepCopy())
			if err := c.Create(t.Context(), test.peer); err != nil {
				t.Fatal(err)
			}
		}
		pass(t, r)
		policy := kittest.Read(c, "bakery", policyName, &networkingv1.NetworkPolicy{})
		var got []string
		for _, cidr := range policy.Spec.Egress[2].To[0].IPBlock.Except {
			if strings.HasSuffix(cidr, "/16") && cidr != "169.254.0.0/16" || strings.HasSuffix(cidr, "/18") {
				got = append(got, cidr)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: ranges that pods do not reach (-want +got):\n%s", test.name, diff)
		}
		before := len(c.Writes)
		if pass(t, r); len(c.Writes) > before {
			t.Errorf("%s: another pass writes %q", test.name, c.WritesSince(before))
		}
	}
}

func TestIsolatedPodsReachNoAddressesOutsideWhileRangesAreUnknown(t *testing.T) {
	const pods, nodes, services = v1alpha1.RangeOfPods, v1alpha1.RangeOfNodes, v1alpha1.RangeOfServices
	refused := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, test := range []struct {
		name    string
		info    *v1alpha1.ClusterInfo
		refused []netip.Prefix
		// want are the ranges of the rule for addresses outside of the cluster.
		want []string
	}{
		{"no ClusterInfo", nil, refused, nil},
		{"no ranges", clusterInfo(), refused, nil},
		{"no pods", clusterInfo(nodes, "172.30.1.2/32", services, "10.96.0.0/12"), refused, nil},
		{"no nodes", clusterInfo(pods, "10.244.0.0/16", services, "10.96.0.0/12"), refused, nil},
		{"no Services", clusterInfo(pods, "10.244.0.0/16", nodes, "172.30.1.2/32"), nil, nil},
		{"no Services, refused CIDRs", clusterInfo(pods, "10.244.0.0/16", nodes, "172.30.1.2/32"), refused,
			[]string{"0.0.0.0/0"}},
		{"pods of one family", clusterInfo(pods, "10.244.0.0/16", nodes, "172.30.1.2/32", services, "10.96.0.0/12"), nil,
			[]string{"0.0.0.0/0"}},
		{"pods of both families", clusterInfo(pods, "10.244.0.0/16", pods, "fd00:244::/56", nodes, "172.30.1.2/32",
			services, "10.96.0.0/12"), nil, []string{"0.0.0.0/0", "::/0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tenant := foreignCluster()
			tenant.Spec.Trust = v1alpha1.TrustTenant
			objects := []client.Object{tenant, tenantNamespace(), requesting("bakery"), remoteNamespace("bakery", "bakery"),
				binding(naming.TenantNamespace("milan"), tenantBinding, consumer)}
			if test.info != nil {
				objects = append(objects, test.info)
			}
			c := kittest.New(t, objects...)
			r := newReconciler(c)
			r.Network.Refused = test.refused
			pass(t, r)
			var got []string
			for _, rule := range kittest.Read(c, "bakery", policyName, &networkingv1.NetworkPolicy{}).Spec.Egress {
				if len(rule.To) == 0 {
					t.Error("a rule permits all addresses")
				}
				for _, to := range rule.To {
					if to.IPBlock != nil {
						got = append(got, to.IPBlock.CIDR)
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("ranges of addresses outside (-want +got):\n%s", diff)
			}
			events := c.Recorded()
			if (test.want == nil) != (len(events) == 1 && strings.Contains(events[0], reasonRangesUnknown)) {
				t.Errorf("events %q", events)
			}
			before := len(c.Writes)
			if pass(t, r); len(c.Writes) > before || len(c.Recorded()) > 0 {
				t.Errorf("another pass records events, or writes %q", c.WritesSince(before))
			}
		})
	}
}

// NetworkPolicies add up: those that a consumer reflected while its pods were not isolated would stay in force.
func TestIsolationDeletesReflectedNetworkPolicies(t *testing.T) {
	policy := func(namespace, name string, labels map[string]string) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	}
	reflected := map[string]string{v1alpha1.LabelOrigin: consumerID, v1alpha1.LabelDestination: providerID}
	c := kittest.New(t, append(peered(), requesting("bakery"), remoteNamespace("bakery", "bakery"),
		policy("bakery", "allow-all", reflected), policy("bakery", "registry", nil),
		policy("mill", "allow-all", reflected))...)
	r := newReconciler(c)
	names := func() []string {
		t.Helper()
		pass(t, r)
		var names []string
		for _, found := range kittest.List(c, &networkingv1.NetworkPolicyList{}).Items {
			names = append(names, found.Namespace+"/"+found.Name)
		}
		slices.Sort(names)
		return names
	}
	for _, test := range []struct {
		name   string
		access v1alpha1.NetworkAccess
		want   []string
	}{
		{"open", v1alpha1.NetworkOpen, []string{"bakery/allow-all", "bakery/registry", "mill/allow-all"}},
		{"isolated", v1alpha1.NetworkIsolated, []string{"bakery/federation", "bakery/registry", "mill/allow-all"}},
	} {
		kittest.Change(c, "", "milan", &v1alpha1.ForeignCluster{}, func(fc *v1alpha1.ForeignCluster) {
			fc.Spec.IncomingPolicy.Network = test.access
		})
		if diff := cmp.Diff(test.want, names()); diff != "" {
			t.Errorf("%s: NetworkPolicies (-want +got):\n%s", test.name, diff)
		}
	}
	// Peers are refused new ones before those that exist are listed.
	writes := c.WritesSince(0)
	if mark := slices.Index(writes, "patch Namespace bakery"); mark < 0 ||
		mark > slices.Index(writes, "delete NetworkPolicy allow-all") {
		t.Errorf("writes %q", writes)
	}
	before := len(c.Writes)
	if names(); len(c.Writes) > before {
		t.Errorf("another pass writes %q", c.WritesSince(before))
	}
}

// clusterInfo returns the ClusterInfo of this cluster. Each use of a range is followed by its CIDR.
func clusterInfo(ranges ...any) *v1alpha1.ClusterInfo {
	info := &v1alpha1.ClusterInfo{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterInfoName}}
	for i := 0; i < len(ranges); i += 2 {
		info.Status.Ranges = append(info.Status.Ranges, v1alpha1.ClusterRange{
			Use: ranges[i].(v1alpha1.ClusterRangeUse), CIDR: ranges[i+1].(string),
		})
	}
	return info
}
