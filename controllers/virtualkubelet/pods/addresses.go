// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// Network translates addresses between the clusters, by AddressMappings and status.network of the VirtualNode. It drops
// addresses that the provider may not report for remote pods, for example addresses of local nodes.
type Network struct {
	// VirtualNode returns the cached VirtualNode; nil if it does not exist.
	VirtualNode func() *v1alpha1.VirtualNode
	// ClusterInfo returns the cached ClusterInfo of the local cluster; nil if it does not exist.
	ClusterInfo func() *v1alpha1.ClusterInfo
	// Refused are CIDRs whose addresses are refused if the provider reports them for remote pods, in addition to the CIDRs
	// that netmap.NewAddressFilter reads from the ClusterInfo. They have no effect with a tunnel.
	Refused []netip.Prefix
	// Mapped returns the addresses that AddressMappings map a local address to, for example the address of an endpoint
	// that is not a pod. Nil means that there are no mappings.
	Mapped func(address string) []string

	last atomic.Pointer[networkState]
	// mutex guards reported, which is the network at the last call of Changed.
	mutex    sync.Mutex
	reported networkState
}

// networkState is the network between the clusters, with the objects that it was read from. The zero value is no
// network.
type networkState struct {
	// tunnel is status.network of the VirtualNode; nil without a tunnel.
	tunnel *v1alpha1.VirtualNodeNetwork
	// flat is true if the pods of both clusters reach each other without a tunnel.
	flat bool
	info *v1alpha1.ClusterInfo

	translation netmap.Translation
	// filter permits addresses of remote pods, after toLocal has translated them from those that the provider reports.
	filter netmap.AddressFilter
}

// state returns the network between the clusters as the cached VirtualNode and ClusterInfo describe it. After the
// VirtualNode is deleted, it returns the network that it returned last.
func (n *Network) state() *networkState {
	last, vn := n.last.Load(), n.VirtualNode()
	if last == nil {
		last = &networkState{}
	}
	if vn == nil {
		return last
	}
	current := &networkState{tunnel: vn.Status.Network}
	if current.tunnel == nil && meta.IsStatusConditionTrue(vn.Status.Conditions, v1alpha1.ConditionNetworkReady) {
		current.flat = true
		if n.ClusterInfo != nil {
			current.info = n.ClusterInfo()
		}
	}
	if last.tunnel == current.tunnel && last.flat == current.flat && last.info == current.info {
		return last
	}
	switch {
	case current.tunnel != nil:
		// If the network is invalid, the translation is empty and translates no address.
		current.translation, _ = netmap.ParseTranslation(current.tunnel.Local, current.tunnel.Remote)
		for _, mapping := range current.translation.Remote {
			current.filter.Tunnel = append(current.filter.Tunnel, mapping.Mapped)
		}
	case current.flat:
		current.filter = netmap.NewAddressFilter(current.info, n.Refused)
	}
	n.last.Store(current)
	return current
}

// equal reports whether both states translate addresses equally and refuse the same addresses.
func (s *networkState) equal(other *networkState) bool {
	return (s.tunnel == nil) == (other.tunnel == nil) && equality.Semantic.DeepEqual(s.tunnel, other.tunnel) &&
		s.filter.Complete == other.filter.Complete && slices.Equal(s.filter.Refused, other.filter.Refused)
}

// Changed reports whether the network changed since the last call.
func (n *Network) Changed() bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	current := n.state()
	if current.equal(&n.reported) {
		return false
	}
	n.reported = *current
	return true
}

// ToRemote returns the address at which the provider reaches a local address. With a tunnel, an AddressMapping takes
// precedence over the pod network that contains the address, and ToRemote returns false if neither has it. Without a
// tunnel, it returns the address itself and true.
func (n *Network) ToRemote(address string) (string, bool) {
	current := n.state()
	if current.tunnel == nil {
		return translate.SameAddress(address)
	}
	if n.Mapped != nil {
		for _, mapped := range n.Mapped(address) {
			if remoteAddress, ok := translateAddress(mapped, current.translation.Local.Translate); ok {
				return remoteAddress, true
			}
		}
	}
	return translateAddress(address, current.translation.Local.Translate)
}

func translateAddress(address string, to func(netip.Addr) (netip.Addr, bool)) (string, bool) {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return "", false
	}
	translated, ok := to(addr)
	return translated.String(), ok
}

// toLocal returns the address at which the local cluster reaches an address that the provider reported. It returns
// false if there is no such address, or if filter does not permit it.
func (s *networkState) toLocal(address string) (string, bool) {
	if s.tunnel != nil {
		var ok bool
		if address, ok = translateAddress(address, s.translation.Remote.Translate); !ok {
			return "", false
		}
	}
	return address, s.filter.Permits(address)
}

// toLocal returns copies of a shadow pod and its remote pod, in which the addresses are the ones at which the local
// cluster reaches the remote pod. Either may be nil.
func (n *Network) toLocal(
	shadow *v1alpha1.ShadowPod,
	pod *translate.RemotePod,
) (*v1alpha1.ShadowPod, *translate.RemotePod) {
	toLocal := n.state().toLocal
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

// permitted returns a copy of a local pod without the addresses that are not permitted any more, because the network
// changed or an earlier version of the virtual kubelet accepted them. If all are permitted, it returns the pod itself.
func (n *Network) permitted(pod *corev1.Pod) *corev1.Pod {
	filter := n.state().filter
	if !slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return !filter.Permits(ip.IP) }) {
		return pod
	}
	permitted := *pod
	permitted.Status = translate.TranslateAddresses(&pod.Status, func(address string) (string, bool) {
		return address, filter.Permits(address)
	})
	return &permitted
}
