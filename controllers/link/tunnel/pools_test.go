// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/controllers/kit/kittest"
)

// reserved returns spec.reserved of AddressPool default.
func (w *world) reserved() []string {
	w.t.Helper()
	return kittest.Read(w.Cluster, "", v1alpha1.DefaultAddressPool, &v1alpha1.AddressPool{}).Spec.Reserved
}

func TestRangesOfTheClusterAreReserved(t *testing.T) {
	of := settingsOf("10.0.0.0/16")
	of.NodeCIDRs = []string{"192.168.1.0/24"}
	rome, _ := peers(t, of, settingsOf("10.0.0.0/16"))
	rome.own = []v1alpha1.ClusterRange{
		{Use: v1alpha1.RangeOfServices, CIDR: "10.96.0.0/12", Source: v1alpha1.SourceServiceCIDR},
		{Use: v1alpha1.RangeOfServices, CIDR: "fd00:96::/112", Source: v1alpha1.SourceServiceCIDR},
		{Use: v1alpha1.RangeOfNodes, CIDR: "192.168.1.1/32", Source: v1alpha1.SourceNode},
		{Use: v1alpha1.RangeOfNodes, CIDR: "172.18.0.9/32", Source: v1alpha1.SourceNode},
		{Use: v1alpha1.RangeReserved, CIDR: "10.200.1.0/24", Source: v1alpha1.SourceNode},
		{Use: v1alpha1.RangeReserved, CIDR: "192.168.7.53/32", Source: v1alpha1.SourceAPIServer},
	}
	rome.pass()
	want := []string{"10.96.0.0/12", "10.0.0.0/16", "10.200.1.0/24", "192.168.1.0/24", "172.18.0.9/32", "192.168.7.53/32",
		"fd00:96::/112"}
	if diff := cmp.Diff(want, rome.reserved()); diff != "" {
		t.Errorf("reserved (-want +got):\n%s", diff)
	}
	rome.own = rome.own[:2]
	rome.pass()
	want = []string{"10.96.0.0/12", "10.0.0.0/16", "192.168.1.0/24", "fd00:96::/112"}
	if diff := cmp.Diff(want, rome.reserved()); diff != "" {
		t.Errorf("reserved without the node (-want +got):\n%s", diff)
	}
}

func TestDetectedNodesDoNotFillAPool(t *testing.T) {
	rome, _ := peers(t, settingsOf("10.0.0.0/16"), settingsOf("10.0.0.0/16"))
	rome.pass()
	for i := range validation.MaxReservedCIDRs + 3 {
		rome.own = append(rome.own, v1alpha1.ClusterRange{
			Use: v1alpha1.RangeOfNodes, CIDR: fmt.Sprintf("172.18.%d.%d/32", i/250, i%250), Source: v1alpha1.SourceNode,
		})
	}
	rome.pass()
	if ranges := rome.reserved(); len(ranges) != validation.MaxReservedCIDRs {
		t.Errorf("%d ranges are reserved", len(ranges))
	}
	events := slices.DeleteFunc(rome.Recorded(),
		func(event string) bool { return !strings.Contains(event, ReasonTooManyRanges) })
	if all := strings.Join(events, "\n"); !strings.Contains(all, "4 more ranges and addresses") ||
		!strings.Contains(all, "network.nodeCIDRs") {
		t.Errorf("the events are %q", events)
	}
}
