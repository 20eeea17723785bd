// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubeinformers "k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
)

// gateways are what leads to the active gateway from outside: a Service, and the
// nodes that have its port.
type gateways struct {
	services corelisters.ServiceNamespaceLister
	pods     corelisters.PodNamespaceLister
	nodes    corelisters.NodeLister

	mu sync.Mutex
	// learnt is where the gateway was called when it was looked at last, and
	// since when.
	learnt []string
	since  time.Time
}

func (i *GatewayInformers) gateways(namespace string) *gateways {
	return &gateways{
		services: i.Named.Core().V1().Services().Lister().Services(namespace),
		pods:     i.Pods.Core().V1().Pods().Lister().Pods(namespace),
		nodes:    i.Nodes.Core().V1().Nodes().Lister(),
	}
}

// GatewayInformers see what leads to the gateway.
type GatewayInformers struct {
	// Named sees what has its name: the Service, the EndpointSlice and the Lease.
	// Pods sees its pods, and Nodes every node.
	Named, Pods, Nodes kubeinformers.SharedInformerFactory
}

// Gateway returns the endpoints of the gateway in a namespace, by its Service.
func (i *GatewayInformers) Gateway(namespace string) *Gateway {
	// The listers need their informers to be running.
	i.Named.Core().V1().Services().Informer()
	i.Pods.Core().V1().Pods().Informer()
	i.Nodes.Core().V1().Nodes().Informer()
	return &Gateway{i.gateways(namespace)}
}

// Gateway has the endpoints of the gateway.
type Gateway struct{ *gateways }

// Endpoints returns the endpoints at which peers reach the gateway, the best first; none
// while there is no Service, or it is not reached.
func (g *Gateway) Endpoints() ([]string, error) {
	endpoints, _, err := g.endpoints()
	return endpoints, err
}

// endpoints tells where the gateway is called by its Service, the best first, and
// with which Service; nil if there is none.
func (g *gateways) endpoints() ([]string, *corev1.Service, error) {
	service, err := g.services.Get(v1alpha1.GatewayName)
	if apierrors.IsNotFound(err) || err == nil && service.DeletionTimestamp != nil {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	pods, err := g.pods.List(everything)
	if err != nil {
		return nil, nil, err
	}
	nodes, err := g.nodes.List(everything)
	if err != nil {
		return nil, nil, err
	}
	return endpointsOf(service, nodes, pods), service, nil
}

// settled is where peers are to call, who were told something before. Pods of
// the gateway come and go when they are restarted; nobody is told elsewhere
// before that has lasted, and left says when it will have.
func (g *gateways) settled(told, learnt []string, service *corev1.Service, now time.Time) (endpoints []string, left time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.since.IsZero() || !slices.Equal(g.learnt, learnt) {
		g.learnt, g.since = learnt, now
	}
	if len(told) == 0 || slices.Equal(told, learnt) || service == nil || service.Spec.Type != corev1.ServiceTypeNodePort {
		return learnt, 0
	}
	if left = g.since.Add(patience).Sub(now); left > 0 {
		return told, left
	}
	return learnt, 0
}

// endpointsOf are where a Service is reached from outside, in an order that
// depends on nothing but what is asked for.
func endpointsOf(service *corev1.Service, nodes []*corev1.Node, pods []*corev1.Pod) []string {
	port := gatewayPort(service)
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
		// Whoever gives out addresses may have given one that no peer would call.
		if len(validation.ValidateEndpoint(endpoint)) == 0 && !slices.Contains(endpoints, endpoint) {
			endpoints = append(endpoints, endpoint)
		}
	}
	return endpoints[:min(len(endpoints), validation.MaxTunnelEndpoints)]
}

// gatewayPort is the port of a Service that leads to the gateway; nil if none
// does.
func gatewayPort(service *corev1.Service) *corev1.ServicePort {
	at := slices.IndexFunc(service.Spec.Ports, func(port corev1.ServicePort) bool { return port.Protocol == corev1.ProtocolUDP })
	if at < 0 {
		return nil
	}
	return &service.Spec.Ports[at]
}

// nodeAddresses are those of the nodes that lead to a Service, the gateways'
// nodes first: their external ones, and their internal ones where none has any.
func nodeAddresses(service *corev1.Service, nodes []*corev1.Node, pods []*corev1.Pod) []string {
	runs := map[string]bool{}
	for _, pod := range pods {
		runs[runsOn(pod)] = true
	}
	var leading []*corev1.Node
	for _, node := range nodes {
		// Where the policy is Local, others drop what they get.
		if isReady(node) && (runs[node.Name] || service.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal) {
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

// familyOf is the IP family of a Service; the first one, if it has two.
func familyOf(service *corev1.Service) corev1.IPFamily {
	if len(service.Spec.IPFamilies) > 0 {
		return service.Spec.IPFamilies[0]
	}
	return corev1.IPv4Protocol
}

// addressOf is the first address of a node of a kind and family; an invalid one
// if there is none.
func addressOf(node *corev1.Node, kind corev1.NodeAddressType, family corev1.IPFamily) netip.Addr {
	for _, address := range node.Status.Addresses {
		parsed, err := netip.ParseAddr(address.Address)
		if err == nil && address.Type == kind && parsed.Is4() == (family == corev1.IPv4Protocol) {
			return parsed
		}
	}
	return netip.Addr{}
}

// isReady tells whether packets may be sent to a node: a virtual one has no
// ports.
func isReady(node *corev1.Node) bool {
	return node.DeletionTimestamp == nil && node.Labels[v1alpha1.LabelType] != v1alpha1.TypeVirtualNode &&
		slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
}

// runsOn is the node that a pod has not ended on; empty if there is none.
func runsOn(pod *corev1.Pod) string {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return ""
	}
	return pod.Spec.NodeName
}

// sameNode tells whether a node leads to Services as it did before.
func sameNode(a, b *corev1.Node) bool {
	return isReady(a) == isReady(b) && equality.Semantic.DeepEqual(a.Status.Addresses, b.Status.Addresses)
}

// samePlace tells whether a pod is where it was before.
func samePlace(a, b *corev1.Pod) bool { return runsOn(a) == runsOn(b) }

// unreachable says why nobody can call the gateway by its Service.
func unreachable(service *corev1.Service) string {
	name := fmt.Sprintf("Service %s/%s", service.Namespace, service.Name)
	switch service.Spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		return name + " has been given no address yet, so this cluster calls the others."
	case corev1.ServiceTypeNodePort:
		return "No node that is ready leads to " + name + ", so this cluster calls the others."
	}
	return name + " is of type " + string(service.Spec.Type) + ", which nobody outside reaches, so this cluster calls the others."
}
