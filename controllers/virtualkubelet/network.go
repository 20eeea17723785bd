// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"net/netip"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/equality"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// network knows what addresses are called on both sides, as the VirtualNode and
// AddressMappings say it.
type network struct {
	virtualNode func() *v1alpha1.VirtualNode
	// mapped are the addresses that the provider was given for one that it does
	// not reach by itself. It may be nil.
	mapped func(address string) []string
	last   atomic.Pointer[networkTranslation]
	// seen is what everything was looked at with last.
	seen *v1alpha1.VirtualNodeNetwork
}

// networkTranslation translates the addresses of both sides of a tunnel, as a status
// describes them.
type networkTranslation struct {
	said        *v1alpha1.VirtualNodeNetwork
	translation netmap.Translation
}

// names is nil where each address is the same on both sides. When the
// VirtualNode is gone, they are as they were.
func (n *network) names() *networkTranslation {
	last, vn := n.last.Load(), n.virtualNode()
	switch {
	case vn == nil || last != nil && last.said == vn.Status.Network:
		return last
	case vn.Status.Network == nil:
		n.last.Store(nil)
		return nil
	}
	said := vn.Status.Network
	// What cannot be read has no names, and so nothing is reached.
	translation, _ := netmap.NewTranslation(&v1alpha1.TunnelEndpointSpec{Local: said.Local, Remote: said.Remote}, nil)
	last = &networkTranslation{said: said, translation: translation}
	n.last.Store(last)
	return last
}

// changed tells whether addresses are called otherwise than the last time. It is
// called by one goroutine at a time.
func (n *network) changed() bool {
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

// there is what an address is reached at from the provider; false if it is not.
// A mapping of the address goes before the range that it is in.
func (n *network) there(address string) (string, bool) {
	names := n.names()
	if names == nil {
		return translate.SameAddress(address)
	}
	if n.mapped != nil {
		for _, mapped := range n.mapped(address) {
			if theirs, ok := translateAddress(mapped, names.translation.Theirs); ok {
				return theirs, true
			}
		}
	}
	return translateAddress(address, names.translation.Theirs)
}

func translateAddress(address string, name func(netip.Addr) (netip.Addr, bool)) (string, bool) {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return "", false
	}
	named, ok := name(addr)
	return named.String(), ok
}

// here are a shadow pod and the pod of it with the addresses that they are
// reached at from this cluster. Those that came are not changed.
func (n *network) here(shadow *v1alpha1.ShadowPod, pod *translate.RemotePod) (*v1alpha1.ShadowPod, *translate.RemotePod) {
	names := n.names()
	if names == nil {
		return shadow, pod
	}
	ours := func(address string) (string, bool) { return translateAddress(address, names.translation.Ours) }
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
