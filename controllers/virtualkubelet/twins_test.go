// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	federationlisters "liqo.io/federation/generated/listers/federation/v1alpha1"
)

func TestAnAnswerIsAboutTheTwinThatItNames(t *testing.T) {
	type told struct {
		Wanted, Ready, Goes bool
		Twin, Message       string
	}
	const (
		ready   = v1alpha1.NamespaceMappingReady
		leaving = v1alpha1.NamespaceMappingTerminating
		taken   = v1alpha1.NamespaceMappingConflict
		notMade = "milan has not made the namespace shop-new yet"
	)
	for _, test := range []struct {
		name, asked, answered string
		phase                 v1alpha1.NamespaceMappingPhase
		want                  told
	}{
		{"the one that was asked for", "shop-new", "shop-new", ready, told{Wanted: true, Ready: true, Twin: "shop-new"}},
		{"none was answered yet", "shop-new", "", "", told{Wanted: true, Message: notMade}},
		{"one from before, which is still there, is watched", "shop-new", "shop-old", ready, told{Wanted: true, Goes: true, Twin: "shop-old", Message: notMade}},
		{"and while it goes", "shop-new", "shop-old", leaving, told{Wanted: true, Goes: true, Twin: "shop-old", Message: notMade}},
		{"one from before, which never was, says nothing", "shop-new", "shop-old", taken, told{Wanted: true, Goes: true, Message: notMade}},
		{"nothing is asked for any more", "", "shop-old", ready, told{Goes: true, Twin: "shop-old", Message: "the namespace is not offloaded to milan any more"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := &v1alpha1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-milan", Name: "rome"}}
			if test.asked != "" {
				m.Spec.Namespaces = []v1alpha1.NamespaceMapping{{Name: "shop", RemoteName: test.asked}}
			}
			if test.answered != "" {
				m.Status.Namespaces = []v1alpha1.NamespaceMappingStatus{{Name: "shop", RemoteName: test.answered, Phase: test.phase}}
			}
			maps := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			if err := maps.Add(m); err != nil {
				t.Fatal(err)
			}
			all := &twins{
				provider: "milan", maps: federationlisters.NewNamespaceMapLister(maps).NamespaceMaps("liqo-peer-milan"), changed: func(string) {},
				start: func(mapping v1alpha1.NamespaceMapping) (*twin, error) {
					return &twin{local: mapping.Name, remote: mapping.RemoteName, stop: func() {}}, nil
				},
			}
			if err := all.sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			e := all.extent("shop")
			got := told{Wanted: e.wanted, Ready: e.ready, Goes: e.goes(), Message: e.message}
			if e.twin != nil {
				got.Twin = e.twin.remote
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("the extent (-want +got):\n%s", diff)
			}
		})
	}
}
