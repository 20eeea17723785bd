// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

func TestAddressesAreTranslatedByTheVirtualNode(t *testing.T) {
	vn := &v1alpha1.VirtualNode{}
	n := &Network{VirtualNode: func() *v1alpha1.VirtualNode { return vn }}
	pod := &translate.RemotePod{
		Status: corev1.PodStatus{PodIP: "10.0.2.2", PodIPs: []corev1.PodIP{{IP: "10.0.2.2"}, {IP: "fd00::2"}}},
	}
	shadow := &v1alpha1.ShadowPod{Status: v1alpha1.ShadowPodStatus{Pod: pod.Status.DeepCopy()}}
	before := pod.Status.DeepCopy()
	for _, test := range []struct {
		name          string
		network       *v1alpha1.VirtualNodeNetwork
		deleted       bool
		changed       bool
		remoteAddress string
		local         []corev1.PodIP
	}{
		{name: "no tunnel", remoteAddress: "10.0.1.1", local: pod.Status.PodIPs},
		{name: "tunnel without agreed ranges", network: &v1alpha1.VirtualNodeNetwork{}, changed: true},
		{
			name: "tunnel", network: agreedNetwork(), changed: true, remoteAddress: "10.2.1.1",
			local: []corev1.PodIP{{IP: "10.1.2.2"}},
		},
		{
			name: "unchanged tunnel", network: agreedNetwork(), remoteAddress: "10.2.1.1",
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
		{name: "no tunnel any more", changed: true, remoteAddress: "10.0.1.1", local: pod.Status.PodIPs},
	} {
		vn = &v1alpha1.VirtualNode{Status: v1alpha1.VirtualNodeStatus{Network: test.network}}
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
