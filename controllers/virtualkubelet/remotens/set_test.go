// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remotens

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
	federationlisters "liqo.io/federation/generated/listers/federation/v1alpha1"
)

func TestStatusIsAboutTheRemoteNamespaceThatItNames(t *testing.T) {
	type result struct {
		Offloaded, Ready, Leaving bool
		Remote, Message           string
	}
	const (
		ready   = v1alpha1.NamespaceMappingReady
		leaving = v1alpha1.NamespaceMappingTerminating
		taken   = v1alpha1.NamespaceMappingConflict
		notMade = "milan has not created namespace shop-new yet."
	)
	for _, test := range []struct {
		name, requested, status string
		phase                   v1alpha1.NamespaceMappingPhase
		want                    result
	}{
		{
			"the requested namespace", "shop-new", "shop-new", ready,
			result{Offloaded: true, Ready: true, Remote: "shop-new"},
		},
		{"no status yet", "shop-new", "", "", result{Offloaded: true, Message: notMade}},
		{
			"a former namespace that exists is watched", "shop-new", "shop-old", ready,
			result{Offloaded: true, Leaving: true, Remote: "shop-old", Message: notMade},
		},
		{
			"a former namespace that is being deleted is watched", "shop-new", "shop-old", leaving,
			result{Offloaded: true, Leaving: true, Remote: "shop-old", Message: notMade},
		},
		{
			"a former status that never became Ready", "shop-new", "shop-old", taken,
			result{Offloaded: true, Leaving: true, Message: notMade},
		},
		{
			"no requested namespace", "", "shop-old", ready,
			result{Leaving: true, Remote: "shop-old", Message: "The namespace is no longer offloaded to milan."},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := &v1alpha1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-milan", Name: "rome"}}
			if test.requested != "" {
				m.Spec.Namespaces = []v1alpha1.NamespaceMapping{{Name: "shop", RemoteName: test.requested}}
			}
			if test.status != "" {
				m.Status.Namespaces = []v1alpha1.NamespaceMappingStatus{
					{Name: "shop", RemoteName: test.status, Phase: test.phase},
				}
			}
			all := &Set{
				Provider: "milan",
				Maps:     federationlisters.NewNamespaceMapLister(kittest.Indexer(m)).NamespaceMaps("liqo-peer-milan"),
				Changed:  func(string) {},
				Start: func(mapping v1alpha1.NamespaceMapping) (*Namespace, error) {
					return &Namespace{Local: mapping.Name, Remote: mapping.RemoteName, stop: func() {}}, nil
				},
			}
			if err := all.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			e := all.State("shop")
			got := result{Offloaded: e.Offloaded, Ready: e.Ready, Leaving: e.Leaving(), Message: e.Message}
			if e.Namespace != nil {
				got.Remote = e.Namespace.Remote
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("the state (-want +got):\n%s", diff)
			}
		})
	}
}
