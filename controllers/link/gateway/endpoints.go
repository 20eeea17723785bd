// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
)

// endpointsOf returns at most validation.MaxTunnelEndpoints endpoints at which a Service is reached from outside of
// the cluster, the preferred one first. The result does not depend on the order of nodes and pods.
func endpointsOf(service *corev1.Service, nodes []corev1.Node, pods []corev1.Pod) []string {
	port := portOf(service)
	if port == nil {
		return nil
	}
	var hosts []string
	number := port.Port
	switch service.Spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			hosts = append(hosts, cmp.Or(ingress.IP, ingress.Hostname))
		}
		slices.Sort(hosts)
	case corev1.ServiceTypeNodePort:
		number = port.NodePort
		hosts = nodeAddresses(service, nodes, pods)
	}
	var endpoints []string
	for _, host := range hosts {
		if address, err := netip.ParseAddr(host); err == nil {
			host = address.String()
		}
		endpoint := net.JoinHostPort(host, strconv.Itoa(int(number)))
		// A load balancer may have an address that is not valid as an endpoint in a NetworkConfig.
		if len(validation.ValidateEndpoint(endpoint)) == 0 && !slices.Contains(endpoints, endpoint) {
			endpoints = append(endpoints, endpoint)
		}
	}
	return endpoints[:min(len(endpoints), validation.MaxTunnelEndpoints)]
}

// portOf returns the first UDP port of the gateway's Service; nil if it has none.
func portOf(service *corev1.Service) *corev1.ServicePort {
	at := slices.IndexFunc(service.Spec.Ports, func(port corev1.ServicePort) bool {
		return port.Protocol == corev1.ProtocolUDP
	})
	if at < 0 {
		return nil
	}
	return &service.Spec.Ports[at]
}

// nodeAddresses returns an address of each node that forwards packets to the gateway's Service: external addresses
// or, if no node has one, internal addresses. Nodes of pods, the gateway's pods, come first.
func nodeAddresses(service *corev1.Service, nodes []corev1.Node, pods []corev1.Pod) []string {
	runs := map[string]bool{}
	for i := range pods {
		runs[nodeOf(&pods[i])] = true
	}
	var leading []*corev1.Node
	for i := range nodes {
		// With externalTrafficPolicy Local, nodes without a gateway drop packets.
		if node := &nodes[i]; isReady(node) &&
			(runs[node.Name] || service.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal) {
			leading = append(leading, node)
		}
	}
	slices.SortFunc(leading, func(a, b *corev1.Node) int {
		if runs[a.Name] != runs[b.Name] {
			return map[bool]int{true: -1, false: 1}[runs[a.Name]]
		}
		return strings.Compare(a.Name, b.Name)
	})
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		var addresses []string
		for _, node := range leading {
			if address := addressOf(node, kind, familyOf(service)); address.IsValid() {
				addresses = append(addresses, address.String())
			}
		}
		if len(addresses) > 0 {
			return addresses
		}
	}
	return nil
}

// familyOf returns the IP family of a Service; the first one, if it has two.
func familyOf(service *corev1.Service) corev1.IPFamily {
	if len(service.Spec.IPFamilies) > 0 {
		return service.Spec.IPFamilies[0]
	}
	return corev1.IPv4Protocol
}

// addressOf returns the first address of a node with this type and family; an invalid address if the
// node has none.
func addressOf(node *corev1.Node, kind corev1.NodeAddressType, family corev1.IPFamily) netip.Addr {
	for _, address := range node.Status.Addresses {
		parsed, err := netip.ParseAddr(address.Address)
		if err == nil && address.Type == kind && parsed.Is4() == (family == corev1.IPv4Protocol) {
			return parsed
		}
	}
	return netip.Addr{}
}

// isReady reports whether a node forwards packets to Services. A virtual node does not.
func isReady(node *corev1.Node) bool {
	return node.DeletionTimestamp == nil && node.Labels[v1alpha1.LabelType] != v1alpha1.TypeVirtualNode &&
		slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
}

// nodeOf returns the node that a pod runs on; empty if it is finished, or not scheduled.
func nodeOf(pod *corev1.Pod) string {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return ""
	}
	return pod.Spec.NodeName
}

// Unreachable returns sentences about why the gateway's Service has no endpoint for peers, depending on its
// type.
func Unreachable(service *corev1.Service) string {
	const consequence = ", so peers cannot connect to the local gateway. Only the local gateway can connect to peers."
	name := fmt.Sprintf("Service %s/%s", service.Namespace, service.Name)
	switch service.Spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		return name + " has no address of a load balancer yet" + consequence
	case corev1.ServiceTypeNodePort:
		return "No ready node has an address for " + name + consequence
	}
	return name + " has the type " + string(service.Spec.Type) +
		", which is not reachable from other clusters" + consequence
}
