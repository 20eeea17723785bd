// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestTunnelsLeaveSingleAddressesAlone(t *testing.T) {
	w := newWorld(t, "rome", romeID, "milan", milanID, settingsOf("10.0.0.0/16"))
	single := managed(w.fc(), installation, "single")
	single.Labels[v1alpha1.LabelOrigin] = romeID
	address := v1alpha1.AddressMappingSpec{ClusterID: milanID, Pool: v1alpha1.ExternalAddressPool, Address: "10.1.2.2",
		Mapped: "10.70.0.5"}
	w.put(&v1alpha1.AddressMapping{ObjectMeta: single, Spec: address},
		&v1alpha1.AddressMapping{ObjectMeta: managed(w.fc(), installation, "range"), Spec: v1alpha1.AddressMappingSpec{
			ClusterID: milanID, Pool: v1alpha1.ExternalAddressPool, CIDR: "10.70.0.0/30", Mapped: "10.70.0.0/30",
		}},
		&v1alpha1.AddressMapping{ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: "by-hand"}, Spec: address})
	if err := w.r.deleteMappings(t.Context(), "milan", nil); err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, mapping := range w.mappings() {
		left[mapping.Name] = true
		if len(ofRange(t.Context(), &mapping)) > 0 {
			t.Errorf("mapping %s requests a pass", mapping.Name)
		}
	}
	if len(left) != 2 || !left["single"] || !left["by-hand"] {
		t.Errorf("without the tunnel, mappings %v are left, want single and by-hand", left)
	}
}

// Of two ranges of the peer, only the first one can be allocated. The creation and deletion of its
// AddressMapping must not trigger the next attempt.
func TestAFailedAttemptIsNotRepeatedAtOnce(t *testing.T) {
	settings := settingsOf("10.1.0.0/16")
	settings.PoolCIDRs, settings.ReservedCIDRs = []string{"10.9.0.0/24"}, []string{"10.3.0.0/24"}
	rome, _ := peers(t, settings, settingsOf("10.2.0.0/16"))
	config := ofMilan(v1alpha1.NetworkConfigSpec{ClusterID: milanID, PodCIDRs: []string{"10.2.0.0/16", "10.3.0.0/16"},
		PublicKey: examplePublicKey})
	rome.put(config)
	attempts := func() int {
		if slices.ContainsFunc(rome.pass(),
			func(write string) bool { return strings.HasPrefix(write, "create AddressMapping") }) {
			return 1
		}
		return 0
	}
	none := func() {
		t.Helper()
		if rest := rome.mappings(); len(rest) > 0 {
			t.Errorf("it keeps %v", rest)
		}
	}
	count := 0
	for range 10 {
		count += attempts()
	}
	if count != 1 {
		t.Errorf("%d attempts, want 1", count)
	}
	expectStatus(t, rome, v1alpha1.PeeringError, ReasonAddressesExhausted, "no free IPv4 range")
	if rome.after <= 0 || rome.after > exhaustedRetry {
		t.Errorf("requeued after %s", rome.after)
	}
	none()
	rome.Clock.Step(exhaustedRetry)
	if count = attempts() + attempts(); count != 1 {
		t.Errorf("%d attempts in the next minute, want 1", count)
	}
	none()
	// The peer has fewer ranges now.
	kittest.Change(rome.Cluster, config.Namespace, config.Name, config, func(config *v1alpha1.NetworkConfig) {
		config.Generation++
		config.Spec.PodCIDRs = config.Spec.PodCIDRs[:1]
	})
	if count = attempts() + attempts(); count != 1 {
		t.Errorf("%d attempts for other ranges, want 1", count)
	}
	if rest := rome.mappings(); len(rest) != 1 {
		t.Errorf("%d mappings, want 1", len(rest))
	}
}

// A failed attempt is forgotten when its ForeignCluster is deleted, and all are when an AddressPool changes.
func TestFailedAttemptsAreForgotten(t *testing.T) {
	for name, end := range map[string]func(*world){
		"when the ForeignCluster is deleted": func(w *world) { w.remove(w.fc()); w.pass() },
		"when an AddressPool changes":        func(w *world) { w.r.afterPool(w.t.Context(), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			rome, _ := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
			rome.r.remapAttempts.Store(rome.peer, attempt{})
			end(rome)
			if _, ok := rome.r.remapAttempts.Load(rome.peer); ok {
				t.Error("it is kept")
			}
		})
	}
}

// Local packets to a kept range are sent to the peer, so a tenant must not select it.
func TestRangesOfATenantAreKeptOnlyWithinKeepCIDRs(t *testing.T) {
	const tenant, owner = v1alpha1.TrustTenant, v1alpha1.TrustSameOwner
	for _, test := range []struct {
		name               string
		trust              v1alpha1.PeeringTrust
		peer, installation []string
		pods               string
		kept               bool
	}{
		{"version v0.1.0", "", nil, nil, "10.2.0.0/16", true},
		{"same owner", owner, nil, nil, "fd00:2::/56", true},
		{"tenant", tenant, nil, nil, "10.2.0.0/16", false},
		{"tenant with an IPv6 range", tenant, nil, nil, "fd00:2::/56", false},
		{"tenant within a CIDR", tenant, []string{"10.64.0.0/10", "10.0.0.0/14"}, nil, "10.2.0.0/16", true},
		{"tenant with exactly a CIDR", tenant, []string{"10.2.0.0/16"}, nil, "10.2.0.0/16", true},
		{"tenant with more than a CIDR", tenant, []string{"10.2.0.0/17"}, nil, "10.2.0.0/16", false},
		{"tenant with two CIDRs together", tenant, []string{"10.2.0.0/17", "10.2.128.0/17"}, nil, "10.2.0.0/16", false},
		{"tenant outside of the CIDRs", tenant, []string{"10.64.0.0/10", "fd00::/16"}, nil, "192.168.1.53/32", false},
		{"tenant within a CIDR of the installation", tenant, nil, []string{"10.0.0.0/14"}, "10.2.0.0/16", true},
		{"same owner outside of the CIDRs", owner, nil, []string{"10.64.0.0/10"}, "10.2.0.0/16", false},
		{"in use within a CIDR", tenant, []string{"10.0.0.0/8"}, nil, "10.1.0.0/16", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			local := settingsOf("10.1.0.0/16", "fd00:1::/56")
			local.KeepCIDRs = test.installation
			rome, milan := peers(t, local, settingsOf(test.pods))
			rome.change(func(fc *v1alpha1.ForeignCluster) {
				fc.Spec.Trust, fc.Spec.KeepCIDRs = test.trust, test.peer
			})
			settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
			list := rome.mappings()
			if len(list) != 1 {
				t.Fatalf("mappings %v, want one", list)
			}
			if spec := list[0].Spec; spec.CIDR != test.pods || (spec.Mapped == spec.CIDR) != test.kept {
				t.Errorf("%s is mapped to %s, want kept: %t", spec.CIDR, spec.Mapped, test.kept)
			}
		})
	}
}

func TestExistingMappingsIgnoreAChangeOfKeepCIDRs(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	before := rome.mappings()
	rome.change(func(fc *v1alpha1.ForeignCluster) {
		fc.Spec.Trust, fc.Spec.KeepCIDRs = v1alpha1.TrustTenant, []string{"10.64.0.0/10"}
	})
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	diff := cmp.Diff(before, rome.mappings())
	if diff != "" || len(before) != 1 || before[0].Spec.Mapped != "10.2.0.0/16" {
		t.Errorf("mappings (-before +after):\n%s", diff)
	}
}
