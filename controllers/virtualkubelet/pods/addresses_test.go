// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

func TestAddressesAreTranslatedByTheVirtualNode(t *testing.T) {
	vn := &v1alpha1.VirtualNode{}
	n := &Network{
		VirtualNode: func() *v1alpha1.VirtualNode { return vn },
		ClusterInfo: func() *v1alpha1.ClusterInfo { return localRanges("10.9.0.0/16") },
	}
	pod := &translate.RemotePod{
		Status: corev1.PodStatus{PodIP: "10.0.2.2", PodIPs: []corev1.PodIP{{IP: "10.0.2.2"}, {IP: "fd00::2"}}},
	}
	shadow := &v1alpha1.ShadowPod{Status: v1alpha1.ShadowPodStatus{Pod: pod.Status.DeepCopy()}}
	before := pod.Status.DeepCopy()
	for _, test := range []struct {
		name          string
		network       *v1alpha1.VirtualNodeNetwork
		flat          bool
		deleted       bool
		changed       bool
		remoteAddress string
		local         []corev1.PodIP
	}{
		{name: "no network", remoteAddress: "10.0.1.1"},
		{name: "flat network", flat: true, changed: true, remoteAddress: "10.0.1.1", local: pod.Status.PodIPs},
		{name: "tunnel without agreed ranges", network: &v1alpha1.VirtualNodeNetwork{}, changed: true},
		{
			name: "tunnel", network: agreedNetwork(), changed: true, remoteAddress: "10.2.1.1",
			local: []corev1.PodIP{{IP: "10.1.2.2"}},
		},
		{
			name: "unchanged tunnel that is connected", network: agreedNetwork(), flat: true, remoteAddress: "10.2.1.1",
			local: []corev1.PodIP{{IP: "10.1.2.2"}},
		},
		{
			name: "deleted VirtualNode", deleted: true, remoteAddress: "10.2.1.1",
			local: []corev1.PodIP{{IP: "10.1.2.2"}},
		},
		{
			name:    "invalid ranges",
			network: &v1alpha1.VirtualNodeNetwork{Local: []v1alpha1.CIDRMapping{{CIDR: "x", Mapped: "y"}}},
			changed: true,
		},
		{name: "no tunnel any more", changed: true, remoteAddress: "10.0.1.1"},
	} {
		vn = virtualNodeOf(test.network, test.flat)
		if test.deleted {
			vn = nil
		}
		if changed := n.Changed(); changed != test.changed {
			t.Errorf("%s: changed %v", test.name, changed)
		}
		if remoteAddress, ok := n.ToRemote("10.0.1.1"); ok != (test.remoteAddress != "") || ok &&
			remoteAddress != test.remoteAddress {
			t.Errorf("%s: remote address %s, %v", test.name, remoteAddress, ok)
		}
		namedShadow, named := n.toLocal(shadow, pod)
		if diff := cmp.Diff(test.local, named.Status.PodIPs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if diff := cmp.Diff(test.local, namedShadow.Status.Pod.PodIPs); diff != "" {
			t.Errorf("%s, last status (-want +got):\n%s", test.name, diff)
		}
		if len(test.local) > 0 != (named.Status.PodIP != "") {
			t.Errorf("%s: the address is %q", test.name, named.Status.PodIP)
		}
		if s, p := n.toLocal(nil, nil); s != nil || p != nil {
			t.Errorf("%s: there is an address without a remote pod", test.name)
		}
	}
	if diff := cmp.Diff(before, &pod.Status); diff != "" {
		t.Errorf("the cached pod was changed:\n%s", diff)
	}
}

// A provider that reports addresses of the local cluster as addresses of its pods cannot direct local traffic to them.
func TestProviderDirectsNoTrafficToAddressesOutsideOfItsNetwork(t *testing.T) {
	refused := []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16")}
	for _, test := range []struct {
		name     string
		network  *v1alpha1.VirtualNodeNetwork
		flat     bool
		info     *v1alpha1.ClusterInfo
		refused  []netip.Prefix
		reported []string
		want     []string
	}{
		{name: "no network", info: localRanges("10.9.0.0/16"), reported: []string{"10.0.2.2"}},
		{
			name: "flat network", flat: true, info: localRanges("10.9.0.0/16"), reported: []string{"10.0.2.2", "fd00::2"},
			want: []string{"10.0.2.2", "fd00::2"},
		},
		{name: "flat network, a local pod", flat: true, info: localRanges("10.9.0.0/16"), reported: []string{"10.9.2.2"}},
		{name: "flat network, a local Service", flat: true, info: localRanges(), reported: []string{"10.96.0.1"}},
		{
			name: "flat network, a local pod and a remote pod", flat: true, info: localRanges("10.9.0.0/16"),
			reported: []string{"10.9.2.2", "fd00::2"}, want: []string{"fd00::2"},
		},
		{
			name: "flat network, a configured CIDR", flat: true, info: localRanges(), refused: refused,
			reported: []string{"10.5.0.1"},
		},
		{name: "flat network, loopback", flat: true, info: localRanges(), reported: []string{"127.0.0.1", "::1"}},
		{name: "flat network, metadata", flat: true, info: localRanges(), reported: []string{"169.254.169.254"}},
		{name: "flat network, unknown Services", flat: true, reported: []string{"10.0.2.2"}},
		{
			name: "flat network, unknown Services and a configured CIDR", flat: true, refused: refused,
			reported: []string{"10.0.2.2"}, want: []string{"10.0.2.2"},
		},
		{name: "tunnel", network: agreedNetwork(), reported: []string{"10.0.2.2"}, want: []string{"10.1.2.2"}},
		{name: "tunnel, outside of its CIDRs", network: agreedNetwork(), reported: []string{"10.9.2.2"}},
		{name: "tunnel, in a remapped CIDR", network: agreedNetwork(), reported: []string{"10.1.2.2"}},
		{name: "tunnel before the agreement", network: &v1alpha1.VirtualNodeNetwork{}, reported: []string{"10.0.2.2"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			vn := virtualNodeOf(test.network, test.flat)
			n := &Network{
				VirtualNode: func() *v1alpha1.VirtualNode { return vn },
				ClusterInfo: func() *v1alpha1.ClusterInfo { return test.info },
				Refused:     test.refused,
			}
			var reported, want []corev1.PodIP
			for _, address := range test.reported {
				reported = append(reported, corev1.PodIP{IP: address})
			}
			for _, address := range test.want {
				want = append(want, corev1.PodIP{IP: address})
			}
			_, pod := n.toLocal(nil, &translate.RemotePod{Status: corev1.PodStatus{PodIPs: reported}})
			if diff := cmp.Diff(want, pod.Status.PodIPs); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChangedRangesOfTheLocalClusterChangeAFlatNetwork(t *testing.T) {
	vn, info := virtualNodeOf(nil, true), localRanges("10.9.0.0/16")
	n := &Network{
		VirtualNode: func() *v1alpha1.VirtualNode { return vn },
		ClusterInfo: func() *v1alpha1.ClusterInfo { return info },
	}
	for _, step := range []struct {
		name string
		vn   *v1alpha1.VirtualNode
		info *v1alpha1.ClusterInfo
		want bool
	}{
		{"flat network", vn, info, true},
		{"the same ranges", virtualNodeOf(nil, true), localRanges("10.9.0.0/16"), false},
		{"another range", vn, localRanges("10.9.0.0/16", "10.10.0.0/16"), true},
		{"no ranges", vn, nil, true},
		{"no network", virtualNodeOf(nil, false), nil, false},
		{"ranges without a network", virtualNodeOf(nil, false), info, false},
		{"tunnel", virtualNodeOf(agreedNetwork(), false), info, true},
		{"other ranges with a tunnel", virtualNodeOf(agreedNetwork(), true), nil, false},
	} {
		vn, info = step.vn, step.info
		if diff := cmp.Diff(step.want, n.Changed()); diff != "" {
			t.Errorf("%s, changed (-want +got):\n%s", step.name, diff)
		}
	}
}

// virtualNodeOf returns a VirtualNode with a network, whose pods reach the local cluster if ready is true.
func virtualNodeOf(network *v1alpha1.VirtualNodeNetwork, ready bool) *v1alpha1.VirtualNode {
	vn := &v1alpha1.VirtualNode{Status: v1alpha1.VirtualNodeStatus{Network: network}}
	if ready {
		vn.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ConditionNetworkReady, Status: metav1.ConditionTrue},
		}
	}
	return vn
}

// localRanges returns the ClusterInfo of a cluster with the Service CIDR 10.96.0.0/12 and pod CIDRs.
func localRanges(pods ...string) *v1alpha1.ClusterInfo {
	info := &v1alpha1.ClusterInfo{Status: v1alpha1.ClusterInfoStatus{Ranges: []v1alpha1.ClusterRange{
		{Use: v1alpha1.RangeOfServices, CIDR: "10.96.0.0/12", Source: v1alpha1.SourceServiceCIDR},
	}}}
	for _, cidr := range pods {
		info.Status.Ranges = append(info.Status.Ranges, v1alpha1.ClusterRange{
			Use: v1alpha1.RangeOfPods, CIDR: cidr, Source: v1alpha1.SourceNode,
		})
	}
	return info
}

func agreedNetwork() *v1alpha1.VirtualNodeNetwork {
	return &v1alpha1.VirtualNodeNetwork{
		Local:  []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.2.0.0/16"}},
		Remote: []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.1.0.0/16"}},
	}
}

// mappedNetwork returns a network with a remapped external CIDR in addition to agreedNetwork.
func mappedNetwork() *v1alpha1.VirtualNodeNetwork {
	agreed := agreedNetwork()
	agreed.Local = append(agreed.Local, v1alpha1.CIDRMapping{CIDR: "10.70.0.0/24", Mapped: "10.71.0.0/24"})
	return agreed
}

func TestMappedAddressIsTranslatedByItsMapping(t *testing.T) {
	for name, test := range map[string]struct {
		network *v1alpha1.VirtualNodeNetwork
		mapped  []string
		address string
		want    string
	}{
		"mapped address in an external CIDR":     {mappedNetwork(), []string{"10.70.0.9"}, "10.3.0.1", "10.71.0.9"},
		"no mapping":                             {mappedNetwork(), nil, "10.3.0.1", ""},
		"mapped address without a remapped CIDR": {agreedNetwork(), []string{"10.70.0.9"}, "10.3.0.1", ""},
		"invalid mapped address":                 {mappedNetwork(), []string{"x"}, "10.3.0.1", ""},
		"several mappings, the first one that is reachable": {
			mappedNetwork(), []string{"10.69.0.1", "10.70.0.9"}, "10.3.0.1", "10.71.0.9",
		},
		"mapping and range of the same address": {mappedNetwork(), []string{"10.70.0.9"}, "10.0.1.1", "10.71.0.9"},
		"flat network":                          {nil, []string{"10.70.0.9"}, "10.3.0.1", "10.3.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			vn := &v1alpha1.VirtualNode{Status: v1alpha1.VirtualNodeStatus{Network: test.network}}
			n := &Network{
				VirtualNode: func() *v1alpha1.VirtualNode { return vn },
				Mapped:      func(string) []string { return test.mapped },
			}
			if got, ok := n.ToRemote(test.address); ok != (test.want != "") || ok && got != test.want {
				t.Errorf("remote address %s, %v; want %q", got, ok, test.want)
			}
		})
	}
}
