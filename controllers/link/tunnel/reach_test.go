// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
)

func TestReachOfAPeerOverridesThatOfTheInstallation(t *testing.T) {
	const offloaded, all = v1alpha1.ReachOffloaded, v1alpha1.ReachAll
	for _, test := range []struct {
		peer, installation v1alpha1.ReachMode
		selected           v1alpha1.PeeringTrust
		want               v1alpha1.ReachMode
	}{
		{"", "", "", all},
		{"", "", v1alpha1.TrustSameOwner, all},
		{"", "", v1alpha1.TrustTenant, offloaded},
		{"", all, v1alpha1.TrustTenant, all},
		{"", offloaded, v1alpha1.TrustSameOwner, offloaded},
		{offloaded, "", v1alpha1.TrustSameOwner, offloaded},
		{offloaded, all, v1alpha1.TrustSameOwner, offloaded},
		{all, offloaded, v1alpha1.TrustTenant, all},
	} {
		fc := &v1alpha1.ForeignCluster{Spec: v1alpha1.ForeignClusterSpec{Reach: test.peer, Trust: test.selected}}
		if got := trust.Reach(fc, test.installation); got != test.want {
			t.Errorf("peer %q, installation %q, trust %q: %q, want %q",
				test.peer, test.installation, test.selected, got, test.want)
		}
	}
}

// Each cluster selects the reach of its peer, and a change affects the existing tunnel.
func TestReachIsWrittenToTheTunnel(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	rome.change(func(fc *v1alpha1.ForeignCluster) { fc.Spec.Reach = v1alpha1.ReachOffloaded })
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	if got := rome.te().Spec.Reach; got != v1alpha1.ReachOffloaded {
		t.Errorf("rome's tunnel has reach %q", got)
	}
	if got := milan.te().Spec.Reach; got != "" {
		t.Errorf("milan's tunnel has reach %q", got)
	}
	rome.change(func(fc *v1alpha1.ForeignCluster) { fc.Spec.Reach = v1alpha1.ReachAll })
	milan.r.Reach = v1alpha1.ReachOffloaded
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	if a, b := rome.te().Spec.Reach, milan.te().Spec.Reach; a != "" || b != v1alpha1.ReachOffloaded {
		t.Errorf("rome's tunnel has reach %q, milan's %q", a, b)
	}
}

// The trust that a cluster selects applies to its own pods, also if the peer selects another trust.
func TestEachClusterSelectsItsOwnTrust(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	rome.change(func(fc *v1alpha1.ForeignCluster) { fc.Spec.Trust = v1alpha1.TrustTenant })
	milan.change(func(fc *v1alpha1.ForeignCluster) { fc.Spec.Trust = v1alpha1.TrustSameOwner })
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	expectAgreement(t, rome, milan)
	if a, b := rome.te().Spec.Reach, milan.te().Spec.Reach; a != v1alpha1.ReachOffloaded || b != "" {
		t.Errorf("rome's tunnel has reach %q, milan's %q", a, b)
	}
}
