// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestAPIServerHasAnAddressForEachProviderWithATunnel(t *testing.T) {
	of := origin{kind: ofAPIServer, key: milan.NamespacedName}
	for name, test := range map[string]struct {
		change func(w *world)
		want   int
	}{
		"nothing changes": {func(*world) {}, 1},
		"no tunnel":       {func(w *world) { w.disconnect("milan") }, 0},
		"mapped without ports by an earlier version": {func(w *world) { w.withoutPorts(of) }, 1},
		"switched off":     {func(w *world) { w.apiServer.Address = netip.AddrPort{} }, 0},
		"no virtual nodes": {func(w *world) { w.withoutNode("milan") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Pass(w.apiServer, milan)
			if _, writes := w.Pass(w.apiServer, milan); len(writes) > 0 {
				t.Errorf("a pass with nothing to change writes %v", writes)
			}
			test.change(w)
			w.Pass(w.apiServer, milan)
			found, err := w.mappingsOf(t.Context(), of)
			if err != nil || len(found) != test.want {
				t.Fatalf("mapped: %v, error %v", found, err)
			}
			for i := range found {
				want := v1alpha1.AddressMappingSpec{
					ClusterID: milanID, Pool: v1alpha1.ExternalAddressPool, Address: "10.96.0.1", Mapped: "10.70.0.255",
					Ports: []v1alpha1.AddressMappingPort{{Protocol: corev1.ProtocolTCP, Port: 6443}},
				}
				if diff := cmp.Diff(want, found[i].Spec); diff != "" {
					t.Errorf("mapping (-want +got):\n%s", diff)
				}
				if got := originOf(&found[i]); got != of {
					t.Errorf("its origin is %v, want %v", got, of)
				}
			}
		})
	}
}

func TestMissingAddressOfTheAPIServerIsReportedOnceToTheForeignCluster(t *testing.T) {
	w := newWorld(t)
	w.pool()
	w.Pass(w.apiServer, milan)
	w.Pass(w.apiServer, milan)
	if events := w.Recorded(); len(events) != 1 || !strings.Contains(events[0], ReasonNoExternalAddresses) {
		t.Errorf("events %q, want one with reason %s", events, ReasonNoExternalAddresses)
	}
}

func TestForeignClustersWithATunnelOrAMappingAreReconciledWithThePool(t *testing.T) {
	w := newWorld(t)
	w.Pass(w.apiServer, milan)
	w.disconnect("milan")
	if diff := cmp.Diff([]string{"/milan", "/naples"}, texts(w.apiServer.all(t.Context(), nil))); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
