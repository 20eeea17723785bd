// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"slices"
	"strings"
	"testing"

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
