// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
)

func TestAnnotationsStateWhatObjectsOfTheConsumerMayHave(t *testing.T) {
	none := map[string]*string{
		v1alpha1.AnnotationIngressClasses: nil, v1alpha1.AnnotationLoadBalancerClasses: nil,
		v1alpha1.AnnotationExternalNames: nil, v1alpha1.AnnotationNetworkAccess: nil,
		v1alpha1.AnnotationMaxObjectBytes: nil, v1alpha1.AnnotationMetadataKeys: nil,
	}
	for _, test := range []struct {
		name       string
		trust      v1alpha1.PeeringTrust
		policy     v1alpha1.IncomingPolicy
		reconciler Reconciler
		// want are the annotations that are set.
		want map[string]*string
	}{
		{name: "tenant", trust: v1alpha1.TrustTenant, want: map[string]*string{
			v1alpha1.AnnotationExternalNames: ptr.To(""), v1alpha1.AnnotationNetworkAccess: ptr.To("Isolated"),
			v1alpha1.AnnotationMaxObjectBytes: ptr.To("131072"), v1alpha1.AnnotationMetadataKeys: ptr.To(""),
		}},
		{name: "same owner", trust: v1alpha1.TrustSameOwner},
		{name: "version v0.1.0"},
		{name: "same owner and installation", trust: v1alpha1.TrustSameOwner, reconciler: Reconciler{
			MaxObjectBytes: 4096, Pods: trust.PodFlags{MetadataKeys: []string{"grafana_*", "metallb.io/*"}},
		}, want: map[string]*string{
			v1alpha1.AnnotationMaxObjectBytes: ptr.To("4096"),
			v1alpha1.AnnotationMetadataKeys:   ptr.To("grafana_*,metallb.io/*"),
		}},
		{name: "same owner, isolated by the installation", trust: v1alpha1.TrustSameOwner,
			reconciler: Reconciler{Network: Network{Access: v1alpha1.NetworkIsolated}},
			want:       map[string]*string{v1alpha1.AnnotationNetworkAccess: ptr.To("Isolated")}},
		{name: "same owner and external names of the installation", trust: v1alpha1.TrustSameOwner,
			reconciler: Reconciler{ExternalNames: []string{"*.example.com", "api.example.org"}},
			want:       map[string]*string{v1alpha1.AnnotationExternalNames: ptr.To("*.example.com,api.example.org")}},
		{name: "tenant and network and external names of the installation", trust: v1alpha1.TrustTenant,
			reconciler: Reconciler{Network: Network{Access: v1alpha1.NetworkOpen}, ExternalNames: []string{"*"}},
			want: map[string]*string{
				v1alpha1.AnnotationMaxObjectBytes: ptr.To("131072"), v1alpha1.AnnotationMetadataKeys: ptr.To(""),
			}},
		{name: "tenant and ForeignCluster", trust: v1alpha1.TrustTenant, policy: v1alpha1.IncomingPolicy{
			Network: v1alpha1.NetworkOpen, ExternalNames: []string{"*"}, MaxObjectBytes: ptr.To[int64](1 << 20),
			Pods: v1alpha1.PodPolicy{MetadataKeys: []string{"grafana_dashboard"}},
		}, reconciler: Reconciler{MaxObjectBytes: 4096}, want: map[string]*string{
			v1alpha1.AnnotationMaxObjectBytes: ptr.To("1048576"),
			v1alpha1.AnnotationMetadataKeys:   ptr.To("grafana_dashboard"),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			fc := &v1alpha1.ForeignCluster{
				Spec: v1alpha1.ForeignClusterSpec{Trust: test.trust, IncomingPolicy: test.policy},
			}
			want := maps.Clone(none)
			maps.Copy(want, test.want)
			if diff := cmp.Diff(want, test.reconciler.classesOf(fc)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
