// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const wireGuardKey = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="

func networkConfig(change func(*federation.NetworkConfig)) *federation.NetworkConfig {
	config := &federation.NetworkConfig{
		ObjectMeta: meta(v1alpha1.NetworkConfigOfConsumer, "liqo-tenant-rome"),
		Spec: federation.NetworkConfigSpec{
			ClusterID: milanID, PodCIDRs: []string{"10.244.0.0/16", "fd00:244::/56"},
			ExternalCIDRs: []string{"10.70.0.0/16", "fd00:70::/64"},
			PublicKey:     wireGuardKey, Endpoints: []string{"rome.example.org:51820", "192.0.2.1:51820", "[2001:db8::1]:51820"},
			MTU: 1420,
		},
	}
	config.ResourceVersion = "1"
	if change != nil {
		change(config)
	}
	return config
}

// fieldsOf returns the paths of the fields that errors name, without duplicates.
func fieldsOf(errs field.ErrorList) []string {
	named := map[string]bool{}
	for _, err := range errs {
		named[err.Field] = true
	}
	return slices.Sorted(maps.Keys(named))
}

func TestValidateNetworkConfig(t *testing.T) {
	many := func(n int) []string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("10.%d.0.0/16", i))
		}
		return all
	}
	for name, test := range map[string]struct {
		change func(*federation.NetworkConfig)
		want   []string
	}{
		"everything":                    {nil, nil},
		"only required fields":          {func(c *federation.NetworkConfig) { c.Spec.ExternalCIDRs, c.Spec.Endpoints, c.Spec.MTU = nil, nil, 0 }, nil},
		"another backend":               {func(c *federation.NetworkConfig) { c.Spec.Backend = "IPsec2" }, nil},
		"a backend with escape codes":   {func(c *federation.NetworkConfig) { c.Spec.Backend = "IP\x1bsec" }, []string{"spec.backend"}},
		"a backend of many letters":     {func(c *federation.NetworkConfig) { c.Spec.Backend = federation.NetworkBackend(strings.Repeat("x", 64)) }, []string{"spec.backend"}},
		"64 ranges":                     {func(c *federation.NetworkConfig) { c.Spec.PodCIDRs, c.Spec.ExternalCIDRs = many(64), nil }, nil},
		"another name":                  {func(c *federation.NetworkConfig) { c.Name = "rome" }, []string{"metadata.name"}},
		"metadata without an end":       {func(c *federation.NetworkConfig) { c.Annotations = map[string]string{"a": strings.Repeat("a", 65<<10)} }, []string{"metadata"}},
		"no cluster":                    {func(c *federation.NetworkConfig) { c.Spec.ClusterID = "" }, []string{"spec.clusterID"}},
		"an invalid cluster":            {func(c *federation.NetworkConfig) { c.Spec.ClusterID = "rome" }, []string{"spec.clusterID"}},
		"no pods":                       {func(c *federation.NetworkConfig) { c.Spec.PodCIDRs = nil }, []string{"spec.podCIDRs"}},
		"65 ranges":                     {func(c *federation.NetworkConfig) { c.Spec.PodCIDRs = many(65) }, []string{"spec.podCIDRs"}},
		"64 ranges and an external one": {func(c *federation.NetworkConfig) { c.Spec.PodCIDRs = many(63) }, []string{"spec.podCIDRs"}},
		"a default route":               {func(c *federation.NetworkConfig) { c.Spec.PodCIDRs[0] = "0.0.0.0/0" }, []string{"spec.podCIDRs[0]"}},
		"half of one":                   {func(c *federation.NetworkConfig) { c.Spec.PodCIDRs[0] = "128.0.0.0/1" }, []string{"spec.podCIDRs[0]"}},
		"loopback":                      {func(c *federation.NetworkConfig) { c.Spec.PodCIDRs[1] = "127.0.0.0/16" }, []string{"spec.podCIDRs[1]"}},
		"link-local":                    {func(c *federation.NetworkConfig) { c.Spec.ExternalCIDRs[0] = "169.254.0.0/16" }, []string{"spec.externalCIDRs[0]"}},
		"multicast":                     {func(c *federation.NetworkConfig) { c.Spec.PodCIDRs[0] = "224.1.0.0/16" }, []string{"spec.podCIDRs[0]"}},
		"bits beyond the length":        {func(c *federation.NetworkConfig) { c.Spec.PodCIDRs[0] = "10.244.1.0/16" }, []string{"spec.podCIDRs[0]"}},
		"another form":                  {func(c *federation.NetworkConfig) { c.Spec.PodCIDRs[1] = "FD00:244::/56" }, []string{"spec.podCIDRs[1]"}},
		"pods that overlap":             {func(c *federation.NetworkConfig) { c.Spec.PodCIDRs[1] = "10.244.7.0/24" }, []string{"spec.podCIDRs[1]"}},
		"external addresses among pods": {func(c *federation.NetworkConfig) { c.Spec.ExternalCIDRs[0] = "10.244.7.0/24" }, []string{"spec.externalCIDRs[0]"}},
		"two external ranges of a kind": {func(c *federation.NetworkConfig) { c.Spec.ExternalCIDRs[1] = "10.71.0.0/16" }, []string{"spec.externalCIDRs[1]"}},
		"no key":                        {func(c *federation.NetworkConfig) { c.Spec.PublicKey = "" }, []string{"spec.publicKey"}},
		"a short key": {func(c *federation.NetworkConfig) {
			c.Spec.PublicKey = base64.StdEncoding.EncodeToString(make([]byte, 31))
		}, []string{"spec.publicKey"}},
		"a key of zeros": {func(c *federation.NetworkConfig) {
			c.Spec.PublicKey = base64.StdEncoding.EncodeToString(make([]byte, 32))
		}, []string{"spec.publicKey"}},
		"a key in another form":          {func(c *federation.NetworkConfig) { c.Spec.PublicKey = strings.Replace(wireGuardKey, "Dg=", "Dh=", 1) }, []string{"spec.publicKey"}},
		"a key with a line break":        {func(c *federation.NetworkConfig) { c.Spec.PublicKey = wireGuardKey[:10] + "\n" + wireGuardKey[10:] }, []string{"spec.publicKey"}},
		"nine endpoints":                 {func(c *federation.NetworkConfig) { c.Spec.Endpoints = make([]string, 9) }, []string{"spec.endpoints"}},
		"an endpoint twice":              {func(c *federation.NetworkConfig) { c.Spec.Endpoints[0] = c.Spec.Endpoints[1] }, []string{"spec.endpoints[1]"}},
		"an MTU that IPv6 does not have": {func(c *federation.NetworkConfig) { c.Spec.MTU = 1279 }, []string{"spec.mtu"}},
		"an MTU that nothing has":        {func(c *federation.NetworkConfig) { c.Spec.MTU = 65536 }, []string{"spec.mtu"}},
		"a negative MTU":                 {func(c *federation.NetworkConfig) { c.Spec.MTU = -1 }, []string{"spec.mtu"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := networkConfig(test.change)
			if diff := cmp.Diff(test.want, fieldsOf(ValidateNetworkConfig(config))); diff != "" {
				t.Errorf("a new one (-want +got):\n%s", diff)
			}
			if config.Name != v1alpha1.NetworkConfigOfConsumer || config.Spec.ClusterID != milanID {
				return
			}
			if diff := cmp.Diff(test.want, fieldsOf(ValidateNetworkConfigUpdate(config, networkConfig(nil)))); diff != "" {
				t.Errorf("an update (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorsDoNotContainAnInvalidKey(t *testing.T) {
	// A user may set the private key or a token by mistake, so the error must not contain the
	// value.
	const secret = "not-for-everybodys-eyes"
	errs := ValidateNetworkConfig(networkConfig(func(c *federation.NetworkConfig) { c.Spec.PublicKey = secret }))
	if len(errs) == 0 || strings.Contains(errs.ToAggregate().Error(), secret) {
		t.Errorf("got %v", errs)
	}
}

func TestValidateEndpointOfAGateway(t *testing.T) {
	for text, good := range map[string]bool{
		"milan.example.org:51820": true, "192.0.2.1:1": true, "[2001:db8::1]:65535": true, "MILAN.example.org:51820": true,
		"": false, "milan.example.org": false, ":51820": false, "milan.example.org:0": false, "milan.example.org:65536": false, "milan.example.org:051820": false,
		"milan.example.org:+1": false, "milan.example.org:https": false, "2001:db8::1:51820": false, "[milan.example.org]:51820": false, "[192.0.2.1]:51820": false,
		"[2001:DB8::1]:51820": false, "127.0.0.1:51820": false, "localhost:51820": false, "169.254.169.254:51820": false, "224.0.0.1:51820": false,
		"255.255.255.255:51820": false, "0.0.0.0:51820": false, "[::]:51820": false, "[fe80::1%eth0]:51820": false, "[::ffff:192.0.2.1]:51820": false,
		"127.1:51820": false, "milan example.org:51820": false, "milan.example.org:51820/x": false, strings.Repeat("m", 5000) + ":1": false, "\x1b[2J:51820": false,
	} {
		if errs := hostPort(text, field.NewPath("endpoint")); (len(errs) == 0) != good {
			t.Errorf("%q: %v", text[:min(len(text), 60)], errs)
		} else if !good && len(errs.ToAggregate().Error()) > 1000 {
			t.Errorf("the error for %q is too long", text[:60])
		}
	}
}

func TestClusterOfANetworkConfigIsImmutable(t *testing.T) {
	other := networkConfig(func(c *federation.NetworkConfig) { c.Spec.ClusterID = "9f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11" })
	if diff := cmp.Diff([]string{"spec.clusterID"},
		fieldsOf(ValidateNetworkConfigUpdate(other, networkConfig(nil)))); diff != "" {
		t.Error(diff)
	}
}

func TestValidateNetworkConfigStatus(t *testing.T) {
	accepted := []metav1.Condition{{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Accepted",
		LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}}
	for name, test := range map[string]struct {
		status federation.NetworkConfigStatus
		want   []string
	}{
		"nothing": {},
		"remapped CIDRs": {status: federation.NetworkConfigStatus{ObservedGeneration: 1, Conditions: accepted,
			CIDRs: []federation.CIDRMapping{{CIDR: "10.244.0.0/16", Mapped: "10.243.0.0/16"},
				{CIDR: "fd00::/64", Mapped: "fd00::/64"}}}},
		"an invalid generation": {federation.NetworkConfigStatus{ObservedGeneration: -1}, []string{"status.observedGeneration"}},
		"another size":          {federation.NetworkConfigStatus{CIDRs: []federation.CIDRMapping{{CIDR: "10.244.0.0/16", Mapped: "10.243.0.0/17"}}}, []string{"status.cidrs[0].mapped"}},
		"another family":        {federation.NetworkConfigStatus{CIDRs: []federation.CIDRMapping{{CIDR: "10.244.0.0/16", Mapped: "fd00::/16"}}}, []string{"status.cidrs[0].mapped"}},
		"no remapped CIDR":      {federation.NetworkConfigStatus{CIDRs: []federation.CIDRMapping{{CIDR: "10.244.0.0/16"}}}, []string{"status.cidrs[0].mapped"}},
		"a range twice": {federation.NetworkConfigStatus{CIDRs: []federation.CIDRMapping{{CIDR: "10.1.0.0/16", Mapped: "10.1.0.0/16"}, {CIDR: "10.1.0.0/16", Mapped: "10.2.0.0/16"}}},
			[]string{"status.cidrs[1].cidr"}},
		"overlapping remapped CIDRs": {federation.NetworkConfigStatus{CIDRs: []federation.CIDRMapping{{CIDR: "10.1.0.0/16", Mapped: "10.1.0.0/16"}, {CIDR: "10.2.0.0/24", Mapped: "10.1.2.0/24"}}},
			[]string{"status.cidrs[1].mapped"}},
		"too many":                            {federation.NetworkConfigStatus{CIDRs: make([]federation.CIDRMapping, 65)}, []string{"status.cidrs"}},
		"a condition with control characters": {federation.NetworkConfigStatus{Conditions: []metav1.Condition{{Type: "\x1b", Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}}}, []string{"status.conditions[0].type"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want,
				fieldsOf(ValidateNetworkConfigStatusUpdate(
					networkConfig(func(c *federation.NetworkConfig) { c.Status = test.status }), networkConfig(nil)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func tunnelEndpoint(change func(*federation.TunnelEndpoint)) *federation.TunnelEndpoint {
	endpoint := &federation.TunnelEndpoint{
		ObjectMeta: meta("milan", "liqo"),
		Spec: federation.TunnelEndpointSpec{
			ClusterID: milanID, PublicKey: wireGuardKey, Endpoints: []string{"milan.example.org:51820"}, MTU: 1420,
			Local:  []federation.CIDRMapping{{CIDR: "10.244.0.0/16", Mapped: "10.243.0.0/16"}},
			Remote: []federation.CIDRMapping{{CIDR: "10.244.0.0/16", Mapped: "10.242.0.0/16"}},
		},
	}
	endpoint.ResourceVersion = "1"
	if change != nil {
		change(endpoint)
	}
	return endpoint
}

func TestValidateTunnelEndpoint(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*federation.TunnelEndpoint)
		want   []string
	}{
		"everything":              {nil, nil},
		"no endpoints and no MTU": {func(e *federation.TunnelEndpoint) { e.Spec.Endpoints, e.Spec.MTU = nil, 0 }, nil},
		"a name that is too long": {func(e *federation.TunnelEndpoint) { e.Name = strings.Repeat("m", 41) }, []string{"metadata.name"}},
		"no cluster":              {func(e *federation.TunnelEndpoint) { e.Spec.ClusterID = "" }, []string{"spec.clusterID"}},
		"only the control plane": {func(e *federation.TunnelEndpoint) {
			e.Spec.Local, e.Spec.Remote, e.Spec.Control = nil, nil, []federation.TunnelControl{"Serve", "Call"}
		}, nil},
		"the control plane and half of the rest": {func(e *federation.TunnelEndpoint) {
			e.Spec.Local, e.Spec.Control = nil, []federation.TunnelControl{"Call"}
		}, []string{"spec.local"}},
		"an unknown part":     {func(e *federation.TunnelEndpoint) { e.Spec.Control = []federation.TunnelControl{"Rule"} }, []string{"spec.control[0]"}},
		"a part twice":        {func(e *federation.TunnelEndpoint) { e.Spec.Control = []federation.TunnelControl{"Call", "Call"} }, []string{"spec.control[1]"}},
		"no local ranges":     {func(e *federation.TunnelEndpoint) { e.Spec.Local = nil }, []string{"spec.local"}},
		"no remote ranges":    {func(e *federation.TunnelEndpoint) { e.Spec.Remote = nil }, []string{"spec.remote"}},
		"an invalid range":    {func(e *federation.TunnelEndpoint) { e.Spec.Remote[0].Mapped = "0.0.0.0/0" }, []string{"spec.remote[0].mapped"}},
		"an invalid key":      {func(e *federation.TunnelEndpoint) { e.Spec.PublicKey = "key" }, []string{"spec.publicKey"}},
		"an invalid endpoint": {func(e *federation.TunnelEndpoint) { e.Spec.Endpoints = []string{"localhost:1"} }, []string{"spec.endpoints[0]"}},
		"an invalid MTU":      {func(e *federation.TunnelEndpoint) { e.Spec.MTU = 1000 }, []string{"spec.mtu"}},
		"a reach":             {func(e *federation.TunnelEndpoint) { e.Spec.Reach = federation.ReachAll }, nil},
		"an unknown reach":    {func(e *federation.TunnelEndpoint) { e.Spec.Reach = "Few" }, []string{"spec.reach"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, fieldsOf(ValidateTunnelEndpoint(tunnelEndpoint(test.change)))); diff != "" {
				t.Error(diff)
			}
		})
	}
	other := tunnelEndpoint(
		func(e *federation.TunnelEndpoint) { e.Spec.ClusterID = "9f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11" })
	if diff := cmp.Diff([]string{"spec.clusterID"},
		fieldsOf(ValidateTunnelEndpointUpdate(other, tunnelEndpoint(nil)))); diff != "" {
		t.Errorf("another cluster: %s", diff)
	}
}

func TestValidateTunnelReach(t *testing.T) {
	reach := func(change func(*federation.TunnelReach)) *federation.TunnelReach {
		reach := &federation.TunnelReach{
			ObjectMeta: meta("milan", "liqo"),
			Spec:       federation.TunnelReachSpec{ClusterID: milanID, Addresses: []string{"10.244.1.2", "fd00::2"}},
		}
		reach.ResourceVersion = "1"
		change(reach)
		return reach
	}
	many := func(count int) func(*federation.TunnelReach) {
		return func(r *federation.TunnelReach) {
			r.Spec.Addresses = nil
			for i := range count {
				r.Spec.Addresses = append(r.Spec.Addresses, fmt.Sprintf("10.244.%d.%d", i>>8, i&255))
			}
		}
	}
	addresses := func(list ...string) func(*federation.TunnelReach) {
		return func(r *federation.TunnelReach) { r.Spec.Addresses = list }
	}
	for name, test := range map[string]struct {
		change func(*federation.TunnelReach)
		want   []string
	}{
		"addresses":               {func(*federation.TunnelReach) {}, nil},
		"none":                    {addresses(), nil},
		"the maximum":             {many(v1alpha1.MaxTunnelReachAddresses), nil},
		"more than the maximum":   {many(v1alpha1.MaxTunnelReachAddresses + 1), []string{"spec.addresses"}},
		"no cluster":              {func(r *federation.TunnelReach) { r.Spec.ClusterID = "" }, []string{"spec.clusterID"}},
		"a name that is too long": {func(r *federation.TunnelReach) { r.Name = strings.Repeat("m", 41) }, []string{"metadata.name"}},
		"an address twice":        {addresses("10.244.1.2", "10.244.1.2"), []string{"spec.addresses[1]"}},
		"a range":                 {addresses("10.244.0.0/16"), []string{"spec.addresses[0]"}},
		"a name":                  {addresses("db"), []string{"spec.addresses[0]"}},
		"loopback":                {addresses("127.0.0.1"), []string{"spec.addresses[0]"}},
		"link-local":              {addresses("fe80::1"), []string{"spec.addresses[0]"}},
		"another form":            {addresses("fd00:0::2"), []string{"spec.addresses[0]"}},
	} {
		t.Run(name, func(t *testing.T) {
			changed := reach(test.change)
			if diff := cmp.Diff(test.want, fieldsOf(ValidateTunnelReach(changed))); diff != "" {
				t.Error(diff)
			}
		})
	}
	other := reach(func(r *federation.TunnelReach) { r.Spec.ClusterID = "9f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11" })
	if diff := cmp.Diff([]string{"spec.clusterID"},
		fieldsOf(ValidateTunnelReachUpdate(other, reach(func(*federation.TunnelReach) {})))); diff != "" {
		t.Errorf("another cluster: %s", diff)
	}
}

func TestValidateTunnelEndpointStatus(t *testing.T) {
	for name, test := range map[string]struct {
		status federation.TunnelEndpointStatus
		want   []string
	}{
		"nothing": {},
		"connected": {status: federation.TunnelEndpointStatus{ObservedGeneration: 2, Phase: federation.TunnelConnected, Endpoint: "192.0.2.1:51820", Gateway: "node-1.example.org",
			PublicKey: wireGuardKey, Implementation: v1alpha1.WireGuardGo, LatencyMicroseconds: 4200, MTU: 1420, PathMTU: 1376}},
		"any source address":      {status: federation.TunnelEndpointStatus{Endpoint: "[fe80::1]:1"}},
		"an unknown phase":        {federation.TunnelEndpointStatus{Phase: "Great"}, []string{"status.phase"}},
		"no endpoint":             {federation.TunnelEndpointStatus{Endpoint: "milan:51820"}, []string{"status.endpoint"}},
		"an address with a zone":  {federation.TunnelEndpointStatus{Endpoint: "[fe80::1%\x1b]:1"}, []string{"status.endpoint"}},
		"no node":                 {federation.TunnelEndpointStatus{Gateway: "Node 1"}, []string{"status.gateway"}},
		"no key":                  {federation.TunnelEndpointStatus{PublicKey: "c2VjcmV0"}, []string{"status.publicKey"}},
		"another WireGuard":       {federation.TunnelEndpointStatus{Implementation: "boringtun"}, []string{"status.implementation"}},
		"a negative latency":      {federation.TunnelEndpointStatus{LatencyMicroseconds: -1}, []string{"status.latencyMicroseconds"}},
		"all packets lost":        {federation.TunnelEndpointStatus{LossPercent: 100}, nil},
		"more than all lost":      {federation.TunnelEndpointStatus{LossPercent: 101}, []string{"status.lossPercent"}},
		"an MTU below IPv6's":     {federation.TunnelEndpointStatus{MTU: 1279}, []string{"status.mtu"}},
		"a path MTU below IPv6's": {federation.TunnelEndpointStatus{PathMTU: 1279}, []string{"status.pathMTU"}},
		"a negative generation":   {federation.TunnelEndpointStatus{ObservedGeneration: -1}, []string{"status.observedGeneration"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := fieldsOf(
				ValidateTunnelEndpointStatusUpdate(tunnelEndpoint(func(e *federation.TunnelEndpoint) { e.Status = test.status }),
					tunnelEndpoint(nil)))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzNetworkConfig(f *testing.F) {
	served := &v1alpha1.NetworkConfig{ObjectMeta: meta(v1alpha1.NetworkConfigOfProvider, "liqo-tenant-rome"),
		Spec: v1alpha1.NetworkConfigSpec{
			ClusterID: milanID, PodCIDRs: []string{"10.244.0.0/16", "fd00::/56"}, ExternalCIDRs: []string{"10.70.0.0/16"},
			PublicKey: wireGuardKey, Endpoints: []string{"milan.example.org:51820", "[2001:db8::1]:1"}, MTU: 1420,
		}}
	answered := served.DeepCopy()
	answered.Status.CIDRs = []v1alpha1.CIDRMapping{{CIDR: "10.244.0.0/16", Mapped: "10.243.0.0/16"}}
	fuzzObject(f, func(t *testing.T, config *federation.NetworkConfig) field.ErrorList {
		errs := ValidateNetworkConfig(config)
		if len(errs) == 0 {
			var seen []netip.Prefix
			for _, text := range slices.Concat(config.Spec.PodCIDRs, config.Spec.ExternalCIDRs) {
				prefix := expectRoutable(t, text)
				if slices.ContainsFunc(seen, prefix.Overlaps) {
					t.Errorf("%s overlaps one of %v and is accepted", prefix, seen)
				}
				seen = append(seen, prefix)
			}
			if len(seen) > 64 || len(config.Spec.Endpoints) > 8 {
				t.Errorf("%d ranges and %d endpoints are accepted", len(seen), len(config.Spec.Endpoints))
			}
		}
		config.ResourceVersion = "1"
		answers := ValidateNetworkConfigStatusUpdate(config, config.DeepCopy())
		if len(answers) == 0 {
			for _, mapping := range config.Status.CIDRs {
				if from, to := expectRoutable(t, mapping.CIDR), expectRoutable(t, mapping.Mapped); from.Bits() != to.Bits() ||
					from.Addr().Is4() != to.Addr().Is4() {
					t.Errorf("%s is accepted for %s", to, from)
				}
			}
		}
		return append(errs, answers...)
	}, served, answered)
}
