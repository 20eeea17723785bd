// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestTunnelsLeaveSingleAddressesAlone(t *testing.T) {
	w := newWorld(t, "rome", romeID, "milan", milanID, settingsOf("10.0.0.0/16"))
	single := managed(w.fc(), installation, "single")
	single.Labels[v1alpha1.LabelOrigin] = romeID
	w.do(w.federation.FederationV1alpha1().AddressPools().Create(w.ctx(), &v1alpha1.AddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: ExternalAddressPool}, Spec: v1alpha1.AddressPoolSpec{CIDRs: []string{"10.70.0.0/24"}},
	}, createOptions))
	mappings := w.federation.FederationV1alpha1().AddressMappings(installation)
	for _, mapping := range []v1alpha1.AddressMapping{
		{ObjectMeta: single, Spec: v1alpha1.AddressMappingSpec{ClusterID: milanID, Pool: ExternalAddressPool, Address: "10.1.2.2"}},
		{ObjectMeta: managed(w.fc(), installation, "range"), Spec: v1alpha1.AddressMappingSpec{ClusterID: milanID, Pool: ExternalAddressPool, CIDR: "10.70.0.0/30"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}, Spec: v1alpha1.AddressMappingSpec{ClusterID: milanID, Pool: ExternalAddressPool, Address: "10.1.2.2"}},
	} {
		w.do(mappings.Create(w.ctx(), &mapping, createOptions))
	}
	w.refresh()
	w.do(nil, w.removeMappings(w.ctx(), "milan", nil))
	left := map[string]bool{}
	for _, mapping := range got(w, mappings.List).Items {
		left[mapping.Name] = true
		if len(byLabel(&mapping)) > 0 {
			t.Errorf("the tunnel is reconciled with mapping %s", mapping.Name)
		}
	}
	if len(left) != 2 || !left["single"] || !left["by-hand"] {
		t.Errorf("without the tunnel, mappings %v are left, want single and by-hand", left)
	}
}
