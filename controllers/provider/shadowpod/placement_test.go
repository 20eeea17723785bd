// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/provider/offer"
)

func TestPodsRunOnSharedNodesWithTheLabelsOfTheOffer(t *testing.T) {
	const node = "0a1b2c3d4e5f6071"
	rome := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}, Spec: v1alpha1.ForeignClusterSpec{
		IncomingPolicy: v1alpha1.IncomingPolicy{NodeSelector: map[string]string{"shared": "rome"}},
	}}
	offered := &v1alpha1.ResourceOffer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "offer"},
		Spec: v1alpha1.ResourceOfferSpec{Nodes: []v1alpha1.OfferedNode{
			{Name: node, Labels: map[string]string{corev1.LabelTopologyZone: "north"}},
		}},
	}
	nodes := &Nodes{
		cluster: kittest.New(t, rome, offered, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}),
		policy:  &offer.Policy{NodeSelector: map[string]string{"shared": "all"}},
	}
	for _, test := range []struct {
		name, foreignCluster, offeredNode string
		want                              Placement
	}{
		{"no offered node", "rome", "", Placement{Labels: map[string]string{"shared": "rome"}}},
		{"an offered node", "rome", node,
			Placement{Labels: map[string]string{"shared": "rome", corev1.LabelTopologyZone: "north"}}},
		{"a node that is not offered any more", "rome", "ffffffffffffffff", Placement{Labels: map[string]string{"shared": "rome"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := nodes.Place(t.Context(), test.foreignCluster, test.offeredNode)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("placement (-want +got):\n%s", diff)
			}
		})
	}
}

// A ForeignCluster may be deleted before the last pods of its consumer. Without it, the trust in the consumer is
// unknown.
func TestDeletedConsumerRunsNoNewPods(t *testing.T) {
	nodes := &Nodes{cluster: kittest.New(t), policy: &offer.Policy{}}
	if place, err := nodes.Place(t.Context(), "naples", ""); err == nil {
		t.Errorf("a pod is placed on nodes with labels %v", place.Labels)
	}
	limits, err := nodes.Limits(t.Context(), "naples")
	if err != nil {
		t.Fatal(err)
	}
	strictest := trust.Strictest()
	strictest.Limits = ""
	if diff := cmp.Diff(Limits{Policy: strictest}, limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}
