// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit/kittest"
)

// A refused name is counted when it is refused, and not again while it remains refused.
func TestRefusedNamespacesAreCountedOnce(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	trust.RegisterMetrics(registry.MustRegister)
	for _, test := range []struct {
		name    string
		offered bool
		names   []string
		most    int32
		want    map[trust.RefusalReason]int
	}{
		{name: "permitted", offered: true, names: []string{"*"}, want: map[trust.RefusalReason]int{}},
		{name: "no offer", names: []string{"*"}, want: map[trust.RefusalReason]int{trust.RefusedByOffer: 2}},
		{name: "one name is not permitted", offered: true, names: []string{"bakery"},
			want: map[trust.RefusalReason]int{trust.RefusedByName: 1}},
		{name: "one is beyond the maximum", offered: true, names: []string{"*"}, most: 1,
			want: map[trust.RefusalReason]int{trust.RefusedByNumber: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := kittest.New(t, append(peered(), requesting("bakery", "mill"))...)
			kittest.Change(c, "", "milan", &v1alpha1.ForeignCluster{}, func(fc *v1alpha1.ForeignCluster) {
				fc.Spec.Trust, fc.Spec.IncomingPolicy.RemoteNamespaces = v1alpha1.TrustTenant, test.names
				if test.most > 0 {
					fc.Spec.IncomingPolicy.MaxRemoteNamespaces = ptr.To(test.most)
				}
			})
			if test.offered {
				c.Add(offer())
			}
			before := refusals(t, registry)
			r := newReconciler(c)
			for range 3 {
				pass(t, r)
			}
			got := refusals(t, registry)
			for reason, count := range before {
				if got[reason] -= count; got[reason] == 0 {
					delete(got, reason)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("refused namespaces by reason (-want +got):\n%s", diff)
			}
		})
	}
}

// refusals returns how many namespaces of the consumer milan were refused, by the reason.
func refusals(t *testing.T, registry metrics.KubeRegistry) map[trust.RefusalReason]int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[trust.RefusalReason]int{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["foreign_cluster"] == "milan" && labels["resource"] == "namespaces" {
				counts[trust.RefusalReason(labels["reason"])] += int(metric.GetCounter().GetValue())
			}
		}
	}
	return counts
}
