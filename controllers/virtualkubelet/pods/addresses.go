// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"net/netip"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/equality"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// Network translates the addresses of both clusters, as the VirtualNode and AddressMappings define.
type Network struct {
	// VirtualNode returns the latest one; nil when it is gone.
	VirtualNode func() *v1alpha1.VirtualNode
	// Mapped returns the addresses that the provider uses for one that it does not reach by itself. It may
	// be nil.
	Mapped func(address string) []string

	last atomic.Pointer[networkTranslation]
	// seen is the network at the last call of Changed.
	seen *v1alpha1.VirtualNodeNetwork
}

// networkTranslation is the translation of one network of the status.
type networkTranslation struct {
	said        *v1alpha1.VirtualNodeNetwork
	translation netmap.Translation
}

// names returns the translation; nil if addresses are the same in both clusters. When the
// VirtualNode is gone, it stays as it was.
func (n *Network) names() *networkTranslation {
	last, vn := n.last.Load(), n.VirtualNode()
	switch {
	case vn == nil || last != nil && last.said == vn.Status.Network:
		return last
	case vn.Status.Network == nil:
		n.last.Store(nil)
		return nil
	}
	said := vn.Status.Network
	// An invalid network translates nothing, so nothing is reached.
	translation, _ := netmap.ParseTranslation(said.Local, said.Remote)
	last = &networkTranslation{said: said, translation: translation}
	n.last.Store(last)
	return last
}

// Changed reports whether the network has changed since the last call. It must not be called
// concurrently.
func (n *Network) Changed() bool {
	var said *v1alpha1.VirtualNodeNetwork
	if names := n.names(); names != nil {
		said = names.said
	}
	if (said == nil) == (n.seen == nil) && equality.Semantic.DeepEqual(said, n.seen) {
		return false
	}
	n.seen = said
	return true
}

// There returns the address at which the provider reaches an address; false if it does not. An
// AddressMapping comes before the range that contains the address.
func (n *Network) There(address string) (string, bool) {
	names := n.names()
	if names == nil {
		return translate.SameAddress(address)
	}
	if n.Mapped != nil {
		for _, mapped := range n.Mapped(address) {
			if theirs, ok := translateAddress(mapped, names.translation.Local.Translate); ok {
				return theirs, true
			}
		}
	}
	return translateAddress(address, names.translation.Local.Translate)
}

func translateAddress(address string, name func(netip.Addr) (netip.Addr, bool)) (string, bool) {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return "", false
	}
	named, ok := name(addr)
	return named.String(), ok
}

// here returns a shadow pod and its remote pod with the addresses at which this cluster reaches
// them. The arguments are not changed.
func (n *Network) here(
	shadow *v1alpha1.ShadowPod,
	pod *translate.RemotePod,
) (*v1alpha1.ShadowPod, *translate.RemotePod) {
	names := n.names()
	if names == nil {
		return shadow, pod
	}
	ours := func(address string) (string, bool) {
		return translateAddress(address, names.translation.Remote.Translate)
	}
	if shadow != nil && shadow.Status.Pod != nil {
		named, status := *shadow, translate.TranslateAddresses(shadow.Status.Pod, ours)
		named.Status.Pod = &status
		shadow = &named
	}
	if pod != nil {
		named := *pod
		named.Status = translate.TranslateAddresses(&pod.Status, ours)
		pod = &named
	}
	return shadow, pod
}
