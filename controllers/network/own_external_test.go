// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

// taking are the settings of a cluster that takes external CIDRs for itself.
func taking(pods ...string) settings {
	s := settingsOf(pods...)
	s.ExternalCIDRs = nil
	return s
}

// pooled are the CIDRs of a pool.
func (w *world) pooled(name string) []string {
	w.t.Helper()
	pool, err := w.federation.FederationV1alpha1().AddressPools().Get(w.ctx(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.do(nil, err)
	return pool.Spec.CIDRs
}

// told are the external CIDRs that the other cluster is told of.
func (w *world) told() []string {
	w.t.Helper()
	config, err := w.federation.FederationV1alpha1().NetworkConfigs(naming.PeerNamespace(w.peer)).Get(w.ctx(), v1alpha1.NetworkConfigOfConsumer, metav1.GetOptions{})
	w.do(nil, err)
	return config.Spec.ExternalCIDRs
}

func TestAClusterTakesExternalCIDRsForItself(t *testing.T) {
	const v4, v6 = "10.255.192.0/18", "fd6c:6971:ffff:ffff:ffff:ffff:ffff:0/112"
	for name, test := range map[string]struct {
		settings func(*settings)
		before   []*v1alpha1.AddressPool
		want     []string
		says     string
	}{
		"one that pods have a family for":        {want: []string{v4}},
		"one of each family":                     {settings: func(s *settings) { s.PodCIDRs = []string{"10.0.0.0/16", "fd00:10::/56"} }, want: []string{v4, v6}},
		"of IPv6 alone":                          {settings: func(s *settings) { s.PodCIDRs = []string{"fd00:10::/56"} }, want: []string{v6}},
		"another one where that is a Service's":  {settings: func(s *settings) { s.ServiceCIDRs = []string{"10.255.255.0/24"} }, want: []string{"10.255.128.0/18"}},
		"of the first CIDR that is large enough": {settings: func(s *settings) { s.PoolCIDRs = []string{"192.168.0.0/16", "172.16.0.0/12"} }, want: []string{"172.31.192.0/18"}},
		"none of a pool that others need": {settings: func(s *settings) { s.PoolCIDRs = []string{"192.168.0.0/16"} },
			says: "network.poolCIDRs have no CIDR of it that is a /12 or larger"},
		"none of a pool of which nothing is left": {settings: func(s *settings) {
			s.PodCIDRs = []string{"10.1.0.0/16"}
			s.PoolCIDRs, s.ReservedCIDRs = []string{"172.16.0.0/12"}, []string{"172.16.0.0/12"}
		},
			says: "no free IPv4 range of the size /18"},
		"not when a value names one":                       {settings: func(s *settings) { s.ExternalCIDRs = []string{"10.70.0.0/24"} }, want: []string{"10.70.0.0/24"}},
		"not when a value excludes them":                   {settings: func(s *settings) { s.ExternalCIDRs = []string{NoExternalCIDRs} }},
		"not when the pool external is an administrator's": {before: []*v1alpha1.AddressPool{poolOf(ExternalAddressPool, false, "10.71.0.0/16")}},
		"not when the pool default is":                     {before: []*v1alpha1.AddressPool{poolOf(v1alpha1.DefaultAddressPool, false, "192.168.0.0/16")}},
		"the one that somebody named before":               {before: []*v1alpha1.AddressPool{poolOf(ExternalAddressPool, true, "10.70.0.0/24")}, want: []string{"10.70.0.0/24"}},
		"another one when pods have got that":              {before: []*v1alpha1.AddressPool{poolOf(ExternalAddressPool, true, "10.0.240.0/24")}, want: []string{v4}},
	} {
		t.Run(name, func(t *testing.T) {
			settings := taking("10.0.0.0/16")
			if test.settings != nil {
				test.settings(&settings)
			}
			other := settingsOf("10.0.0.0/16", "fd00:10::/56")
			rome, milan := peers(t, settings, other)
			for _, pool := range test.before {
				rome.do(rome.federation.FederationV1alpha1().AddressPools().Create(t.Context(), pool, createOptions))
			}
			settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
			expectAgreement(t, rome, milan)
			if diff := cmp.Diff(test.want, rome.told()); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			if pool := rome.pooled(ExternalAddressPool); test.want != nil && !slices.Equal(pool, test.want) {
				t.Errorf("the pool has %v", pool)
			}
			for _, cidr := range test.want {
				if !slices.Contains(rome.reserved(), cidr) {
					t.Errorf("%s is not reserved: %v", cidr, rome.reserved())
				}
			}
			if rest := slices.DeleteFunc(left(rome), func(s string) bool { return !strings.HasPrefix(s, "AddressMapping") }); len(rest) != len(rome.te().Spec.Remote) {
				t.Errorf("there are the mappings %v", rest)
			}
			events := ""
			for len(rome.events.Events) > 0 {
				if event := <-rome.events.Events; strings.Contains(event, ReasonNoExternalAddresses) {
					events += event + "\n"
				}
			}
			if !strings.Contains(events, test.says) || strings.Count(events, "\n") > 1 || test.says == "" && events != "" {
				t.Errorf("told %q", events)
			}
		})
	}
}

// poolOf is a pool that these controllers made, or an administrator.
func poolOf(name string, ours bool, cidrs ...string) *v1alpha1.AddressPool {
	pool := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.AddressPoolSpec{CIDRs: cidrs}}
	if ours {
		pool.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	}
	return pool
}

func TestTwoClustersThatTakeTheSameExternalCIDRCallItOtherwise(t *testing.T) {
	rome, milan := peers(t, taking("10.0.0.0/16"), taking("10.0.0.0/16"))
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	expectAgreement(t, rome, milan)
	want := []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.254.0.0/16"}, {CIDR: "10.255.192.0/18", Mapped: "10.255.128.0/18"}}
	if diff := cmp.Diff(want, rome.te().Spec.Remote); diff != "" {
		t.Errorf("the ranges of the other cluster (-want +got):\n%s", diff)
	}
}

func TestAnExternalCIDRStaysWhatItIs(t *testing.T) {
	rome, milan := peers(t, taking("10.0.0.0/16"), taking("10.0.0.0/16"))
	all := func() bool { return replicate(rome, milan) }
	settle(t, all, rome, milan)
	before := rome.te().Spec
	for name, change := range map[string]func(){
		"when its Services get that range": func() { rome.Settings.ServiceCIDRs = []string{"10.255.0.0/16"} },
		"when its nodes have addresses in it": func() {
			rome.own = []v1alpha1.ClusterRange{{Use: v1alpha1.RangeOfNodes, CIDR: "10.255.200.1/32", Source: v1alpha1.SourceNode}}
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
	if told := rome.told(); len(told) != 2 || told[0] != "10.255.192.0/18" {
		t.Errorf("with pods of both families, %v are told", told)
	}
}

func TestWhoStopsWhileItTakesAnExternalCIDRGoesOn(t *testing.T) {
	for name, fails := range map[string]struct{ verb, resource string }{
		"before it is reserved":         {"patch", "addresspools"},
		"before the mapping goes":       {"delete", "addressmappings"},
		"before the pool is made of it": {"create", "addresspools"},
	} {
		t.Run(name, func(t *testing.T) {
			rome, milan := peers(t, taking("10.0.0.0/16"), settingsOf("10.0.0.0/16"))
			failed := false
			rome.federation.PrependReactor(fails.verb, fails.resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
				if create, ok := action.(clienttesting.CreateAction); ok && create.GetObject().(metav1.Object).GetName() != ExternalAddressPool || failed {
					return false, nil, nil
				}
				failed = true
				return true, nil, errors.New("it stops")
			})
			rome.refresh()
			if _, err := rome.reconcile(rome.ctx(), cache.ObjectName{Name: rome.peer}); err == nil || !failed {
				t.Fatalf("it does not stop: %v", err)
			}
			settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
			if told := rome.told(); !slices.Equal(told, []string{"10.255.192.0/18"}) || !slices.Equal(told, rome.pooled(ExternalAddressPool)) || !slices.Contains(rome.reserved(), told[0]) {
				t.Errorf("%v is told, %v in the pool, and %v reserved", told, rome.pooled(ExternalAddressPool), rome.reserved())
			}
			if rest := slices.DeleteFunc(left(rome), func(s string) bool { return !strings.HasPrefix(s, "AddressMapping") }); len(rest) != 1 {
				t.Errorf("there are the mappings %v", rest)
			}
		})
	}
}
