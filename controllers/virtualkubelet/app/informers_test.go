// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	federationlisters "liqo.io/federation/generated/listers/federation/v1alpha1"
)

func TestAPIAccessIsThatOfTheVirtualNodeOrItsStatus(t *testing.T) {
	const given, disabled = v1alpha1.APIAccessConsumer, v1alpha1.APIAccessDisabled
	for _, test := range []struct {
		name           string
		own, inherited v1alpha1.APIAccess
		want           bool
	}{
		{"not known yet", "", "", false},
		{"of the ForeignCluster", "", given, true},
		{"disabled in the ForeignCluster", "", disabled, false},
		{"of the VirtualNode", given, disabled, true},
		{"disabled in the VirtualNode", disabled, given, false},
		{"of a VirtualNode of version v0.1.0", given, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := cache.NewIndexer(cache.MetaNamespaceKeyFunc,
				cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			i := &informers{
				virtualNodeLister: federationlisters.NewVirtualNodeLister(store).VirtualNodes("liqo-peer-milan"), name: "milan",
			}
			if i.apiAccessAllowed() {
				t.Error("pods have access without a VirtualNode")
			}
			if err := store.Add(&v1alpha1.VirtualNode{
				ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-milan", Name: "milan"},
				Spec:       v1alpha1.VirtualNodeSpec{APIAccess: test.own},
				Status:     v1alpha1.VirtualNodeStatus{APIAccess: test.inherited},
			}); err != nil {
				t.Fatal(err)
			}
			if got := i.apiAccessAllowed(); got != test.want {
				t.Errorf("access %t, want %t", got, test.want)
			}
			if err := store.Update(&v1alpha1.VirtualNode{
				ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-milan", Name: "milan"},
				Spec:       v1alpha1.VirtualNodeSpec{APIAccess: test.own},
			}); err != nil {
				t.Fatal(err)
			}
			if got := i.apiAccessAllowed(); got != test.want {
				t.Errorf("access %t without a status, want %t as before", got, test.want)
			}
		})
	}
}
