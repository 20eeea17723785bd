// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestRangesAreThoseOfClusterInfoLocal(t *testing.T) {
	cluster := kittest.New(t)
	expect := func(when string, want netmap.Ranges) {
		t.Helper()
		got, err := Ranges(t.Context(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	expect("without a ClusterInfo", netmap.Ranges{})
	info := &v1alpha1.ClusterInfo{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterInfoName}}
	if err := cluster.Create(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	expect("before any is detected", netmap.Ranges{})
	kittest.Change(cluster, "", v1alpha1.ClusterInfoName, info, func(info *v1alpha1.ClusterInfo) {
		info.Status.Ranges = []v1alpha1.ClusterRange{{Use: v1alpha1.RangeOfPods, CIDR: "10.1.0.0/16",
			Source: v1alpha1.SourceNode}}
	})
	expect("once they are detected", netmap.Ranges{Pods: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
}

func TestClusterInfosWithOtherRangesAreSelected(t *testing.T) {
	of := func(cidr, version string) *v1alpha1.ClusterInfo {
		return &v1alpha1.ClusterInfo{Status: v1alpha1.ClusterInfoStatus{
			Version: version, Ranges: []v1alpha1.ClusterRange{{Use: v1alpha1.RangeOfPods, CIDR: cidr,
				Source: v1alpha1.SourceNode}},
		}}
	}
	for name, test := range map[string]struct {
		old, current *v1alpha1.ClusterInfo
		want         bool
	}{
		"another version": {of("10.1.0.0/16", "v1"), of("10.1.0.0/16", "v2"), false},
		"another range":   {of("10.1.0.0/16", "v1"), of("10.2.0.0/16", "v1"), true},
	} {
		if got := RangesChanged().Update(event.UpdateEvent{ObjectOld: test.old, ObjectNew: test.current}); got != test.want {
			t.Errorf("%s: selected %v, want %v", name, got, test.want)
		}
	}
}
