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

// Network translates addresses between the clusters, by the network in the VirtualNode's status and AddressMappings.
type Network struct {
	// VirtualNode returns the cached VirtualNode; nil if it does not exist.
	VirtualNode func() *v1alpha1.VirtualNode
	// Mapped returns the addresses that AddressMappings map an address to, for addresses that are not in the pod network.
	// Nil means that there are no mappings.
	Mapped func(address string) []string

	last atomic.Pointer[networkTranslation]
	// reported is the network at the last call of Changed.
	reported *v1alpha1.VirtualNodeNetwork
}

// networkTranslation is a parsed network and the status that it was parsed from.
type networkTranslation struct {
	status      *v1alpha1.VirtualNodeNetwork
	translation netmap.Translation
}

// names returns the parsed network; nil if addresses are the same in both clusters. After the VirtualNode is deleted,
// it returns the last network.
func (n *Network) names() *networkTranslation {
	last, vn := n.last.Load(), n.VirtualNode()
	switch {
	case vn == nil || last != nil && last.status == vn.Status.Network:
		return last
	case vn.Status.Network == nil:
		n.last.Store(nil)
		return nil
	}
	status := vn.Status.Network
	// If the network is invalid, the translation is empty and translates no address.
	translation, _ := netmap.ParseTranslation(status.Local, status.Remote)
	last = &networkTranslation{status: status, translation: translation}
	n.last.Store(last)
	return last
}

// Changed reports whether the network changed since the last call. It must not be called concurrently.
func (n *Network) Changed() bool {
	var status *v1alpha1.VirtualNodeNetwork
	if names := n.names(); names != nil {
		status = names.status
	}
	if (status == nil) == (n.reported == nil) && equality.Semantic.DeepEqual(status, n.reported) {
		return false
	}
	n.reported = status
	return true
}

// ToRemote returns the address at which the provider reaches a local address; false if the provider cannot reach it. An
// AddressMapping takes precedence over the pod network that contains the address.
func (n *Network) ToRemote(address string) (string, bool) {
	names := n.names()
	if names == nil {
		return translate.SameAddress(address)
	}
	if n.Mapped != nil {
		for _, mapped := range n.Mapped(address) {
			if remoteAddress, ok := translateAddress(mapped, names.translation.Local.Translate); ok {
				return remoteAddress, true
			}
		}
	}
	return translateAddress(address, names.translation.Local.Translate)
}

func translateAddress(address string, to func(netip.Addr) (netip.Addr, bool)) (string, bool) {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return "", false
	}
	translated, ok := to(addr)
	return translated.String(), ok
}

// toLocal returns copies of a shadow pod and its remote pod, in which the addresses are the ones at which the local
// cluster reaches the remote pod. Either may be nil.
func (n *Network) toLocal(
	shadow *v1alpha1.ShadowPod,
	pod *translate.RemotePod,
) (*v1alpha1.ShadowPod, *translate.RemotePod) {
	names := n.names()
	if names == nil {
		return shadow, pod
	}
	toLocal := func(address string) (string, bool) {
		return translateAddress(address, names.translation.Remote.Translate)
	}
	if shadow != nil && shadow.Status.Pod != nil {
		status := translate.TranslateAddresses(shadow.Status.Pod, toLocal)
		translated := *shadow
		translated.Status.Pod = &status
		shadow = &translated
	}
	if pod != nil {
		translated := *pod
		translated.Status = translate.TranslateAddresses(&pod.Status, toLocal)
		pod = &translated
	}
	return shadow, pod
}
