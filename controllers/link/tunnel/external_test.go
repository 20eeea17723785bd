// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

// taking returns the settings of a cluster that allocates external CIDRs from the pool.
func taking(pods ...string) settings {
	s := settingsOf(pods...)
	s.ExternalCIDRs = nil
	return s
}

// pooled returns the CIDRs of a pool.
func (w *world) pooled(name string) []string {
	w.t.Helper()
	pool := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.Has(pool)
	return pool.Spec.CIDRs
}

// announced returns the external CIDRs in the local NetworkConfig for the peer.
func (w *world) announced() []string {
	w.t.Helper()
	return kittest.Read(w.Cluster, naming.PeerNamespace(w.peer), v1alpha1.NetworkConfigOfConsumer,
		&v1alpha1.NetworkConfig{}).Spec.ExternalCIDRs
}

func TestAClusterTakesExternalCIDRsOfThePool(t *testing.T) {
	const v4, v6 = "10.255.192.0/18", "fd6c:6971:ffff:ffff:ffff:ffff:ffff:0/112"
	for name, test := range map[string]struct {
		settings func(*settings)
		before   []*v1alpha1.AddressPool
		want     []string
		message  string
	}{
		"one of the family of pods":              {want: []string{v4}},
		"one of each family":                     {settings: func(s *settings) { s.PodCIDRs = []string{"10.0.0.0/16", "fd00:10::/56"} }, want: []string{v4, v6}},
		"of IPv6 alone":                          {settings: func(s *settings) { s.PodCIDRs = []string{"fd00:10::/56"} }, want: []string{v6}},
		"another one where Services have that":   {settings: func(s *settings) { s.ServiceCIDRs = []string{"10.255.255.0/24"} }, want: []string{"10.255.128.0/18"}},
		"of the first CIDR that is large enough": {settings: func(s *settings) { s.PoolCIDRs = []string{"192.168.0.0/16", "172.16.0.0/12"} }, want: []string{"172.31.192.0/18"}},
		"none of a small pool": {settings: func(s *settings) { s.PoolCIDRs = []string{"192.168.0.0/16"} },
			message: "network.poolCIDRs have no CIDR of this family that is a /12 or larger"},
		"none of a pool without free ranges": {settings: func(s *settings) {
			s.PodCIDRs = []string{"10.1.0.0/16"}
			s.PoolCIDRs, s.ReservedCIDRs = []string{"172.16.0.0/12"}, []string{"172.16.0.0/12"}
		},
			message: "no free IPv4 range of the size /18"},
		"not when a value names one":                          {settings: func(s *settings) { s.ExternalCIDRs = []string{"10.70.0.0/24"} }, want: []string{"10.70.0.0/24"}},
		"not when a value excludes them":                      {settings: func(s *settings) { s.ExternalCIDRs = []string{NoExternalCIDRs} }},
		"not when an administrator created the pool external": {before: []*v1alpha1.AddressPool{poolOf(v1alpha1.ExternalAddressPool, false, "10.71.0.0/16")}},
		"not when an administrator created the pool default":  {before: []*v1alpha1.AddressPool{poolOf(v1alpha1.DefaultAddressPool, false, "192.168.0.0/16")}},
		"the one of a former value":                           {before: []*v1alpha1.AddressPool{poolOf(v1alpha1.ExternalAddressPool, true, "10.70.0.0/24")}, want: []string{"10.70.0.0/24"}},
		"another one when pods have that":                     {before: []*v1alpha1.AddressPool{poolOf(v1alpha1.ExternalAddressPool, true, "10.0.240.0/24")}, want: []string{v4}},
	} {
		t.Run(name, func(t *testing.T) {
			settings := taking("10.0.0.0/16")
			if test.settings != nil {
				test.settings(&settings)
			}
			other := settingsOf("10.0.0.0/16", "fd00:10::/56")
			rome, milan := peers(t, settings, other)
			for _, pool := range test.before {
				rome.put(pool.DeepCopy())
			}
			settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
			expectAgreement(t, rome, milan)
			if diff := cmp.Diff(test.want, rome.announced()); diff != "" {
				t.Errorf("announced (-want +got):\n%s", diff)
			}
			if pool := rome.pooled(v1alpha1.ExternalAddressPool); test.want != nil && !slices.Equal(pool, test.want) {
				t.Errorf("the pool has %v", pool)
			}
			for _, cidr := range test.want {
				if !slices.Contains(rome.reserved(), cidr) {
					t.Errorf("%s is not reserved: %v", cidr, rome.reserved())
				}
			}
			if rest := slices.DeleteFunc(left(rome),
				func(s string) bool { return !strings.HasPrefix(s, "AddressMapping") }); len(rest) != len(rome.te().Spec.Remote) {
				t.Errorf("there are the mappings %v", rest)
			}
			events := slices.DeleteFunc(rome.Recorded(),
				func(event string) bool { return !strings.Contains(event, ReasonNoExternalAddresses) })
			if all := strings.Join(events, "\n"); !strings.Contains(all, test.message) || len(events) > 1 ||
				test.message == "" && len(events) > 0 {
				t.Errorf("the events are %q", events)
			}
		})
	}
}

// poolOf returns an AddressPool of the controller or, if managed is false, of an administrator.
func poolOf(name string, managed bool, cidrs ...string) *v1alpha1.AddressPool {
	pool := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.AddressPoolSpec{CIDRs: cidrs}}
	if managed {
		pool.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	}
	return pool
}

func TestEqualExternalCIDRsAreRemapped(t *testing.T) {
	rome, milan := peers(t, taking("10.0.0.0/16"), taking("10.0.0.0/16"))
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	expectAgreement(t, rome, milan)
	want := []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.254.0.0/16"},
		{CIDR: "10.255.192.0/18", Mapped: "10.255.128.0/18"}}
	if diff := cmp.Diff(want, rome.te().Spec.Remote); diff != "" {
		t.Errorf("the ranges of the other cluster (-want +got):\n%s", diff)
	}
}

func TestAnExternalCIDRStays(t *testing.T) {
	rome, milan := peers(t, taking("10.0.0.0/16"), taking("10.0.0.0/16"))
	all := func() bool { return replicate(rome, milan) }
	settle(t, all, rome, milan)
	before := rome.te().Spec
	for name, change := range map[string]func(){
		"when its Services get that range": func() { rome.Settings.ServiceCIDRs = []string{"10.255.0.0/16"} },
		"when its nodes have addresses in it": func() {
			rome.own = []v1alpha1.ClusterRange{{Use: v1alpha1.RangeOfNodes, CIDR: "10.255.200.1/32",
				Source: v1alpha1.SourceNode}}
		},
		"when the pool is another one": func() { rome.Settings.PoolCIDRs = []string{"172.16.0.0/12", poolIPv6} },
	} {
		change()
		settle(t, all, rome, milan)
		if diff := cmp.Diff(before, rome.te().Spec); diff != "" || !slices.Contains(rome.reserved(), "10.255.192.0/18") {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	rome.Settings.PodCIDRs = []string{"10.0.0.0/16", "fd00:10::/56"}
	settle(t, all, rome, milan)
	if announced := rome.announced(); len(announced) != 2 || announced[0] != "10.255.192.0/18" {
		t.Errorf("with pods of both families, %v are announced", announced)
	}
}

// The process ends at any write, and the next reconciles complete the allocation.
func TestAnExternalCIDRIsTakenAfterDeathAtEachWrite(t *testing.T) {
	for _, done := range []bool{false, true} {
		for number := 0; ; number++ {
			rome, milan := peers(t, taking("10.0.0.0/16"), settingsOf("10.0.0.0/16"))
			rome.Kill(number, done)
			rome.publish()
			_, err := rome.r.Reconcile(t.Context(), kit.Request("", rome.peer))
			if err == nil {
				// All writes were tried.
				break
			}
			if !errors.Is(err, kittest.ErrKilled) {
				t.Fatal(err)
			}
			rome.Fault = nil
			settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
			announced, pooled := rome.announced(), rome.pooled(v1alpha1.ExternalAddressPool)
			if !slices.Equal(announced, []string{"10.255.192.0/18"}) || !slices.Equal(announced, pooled) ||
				!slices.Contains(rome.reserved(), announced[0]) {
				t.Errorf("write %d: %v is announced, %v in the pool, and %v reserved", number, announced, pooled, rome.reserved())
			}
			if rest := rome.mappings(); len(rest) != 1 {
				t.Errorf("write %d: the mappings are %v", number, rest)
			}
			expectAgreement(t, rome, milan)
		}
	}
}
