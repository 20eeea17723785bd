// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/controllers/kit"
)

// policyName is the name of the NetworkPolicy in each remote namespace whose pods are isolated.
const policyName = "federation"

// ofAPeer selects the NetworkPolicies that consumers reflected. The ValidatingAdmissionPolicy federation-peers
// ensures that they have LabelOrigin.
var ofAPeer = func() labels.Selector {
	reflected, err := labels.NewRequirement(v1alpha1.LabelOrigin, selection.Exists, nil)
	utilruntime.Must(err)
	return labels.NewSelector().Add(*reflected)
}()

// dnsPort permits port 53. dnsPorts also permits the ports of pods that have one of the names that are common for
// CoreDNS, because a NetworkPolicy applies to the port of the pod, and not to that of its Service.
var (
	dnsPort  = []networkingv1.NetworkPolicyPort{udp(intstr.FromInt32(53)), tcp(intstr.FromInt32(53))}
	dnsPorts = append(slices.Clone(dnsPort),
		udp(intstr.FromString("dns")), udp(intstr.FromString("dns-udp")), tcp(intstr.FromString("dns-tcp")))
)

// Network has the settings of the installation about what pods of consumers reach.
type Network struct {
	// Access applies to consumers without spec.incomingPolicy.network. Empty means the default of the trust in
	// them.
	Access v1alpha1.NetworkAccess
	// IngressFrom are the namespaces from which isolated pods are reached. DNS are addresses of DNS servers
	// that they reach in addition to those in kube-system.
	IngressFrom []string
	DNS         []netip.Prefix
	// Refused are ranges outside of the cluster that isolated pods must not reach.
	Refused []netip.Prefix
	// Namespace is the namespace of TunnelEndpoints.
	Namespace string
}

// reasonRangesUnknown of an event on a ForeignCluster means that ClusterInfo local has no ranges of pods, nodes or
// Services, so that isolated pods of the consumer reach no addresses outside of the cluster. Set network.podCIDRs,
// network.nodeCIDRs and network.serviceCIDRs.
const reasonRangesUnknown = "ClusterRangesUnknown"

const rangesUnknownMessage = "The NetworkPolicy of remote namespace %s permits no addresses outside of the cluster, " +
	"because ClusterInfo " + v1alpha1.ClusterInfoName + " has no ranges of pods, nodes or Services: " +
	"set network.podCIDRs, network.nodeCIDRs and network.serviceCIDRs in the values of the chart."

// family has the range of all addresses of an IP family, and the range of its link-local addresses, which most
// metadata services of clouds have.
type family struct{ all, linkLocal string }

var families = []family{{"0.0.0.0/0", "169.254.0.0/16"}, {"::/0", "fe80::/10"}}

// isolation returns the NetworkPolicy of the remote namespaces of a consumer whose pods are isolated.
func (r *Reconciler) isolation(
	ctx context.Context, fc *v1alpha1.ForeignCluster,
) (*networkingv1.NetworkPolicySpec, error) {
	info := &v1alpha1.ClusterInfo{}
	key := client.ObjectKey{Name: v1alpha1.ClusterInfoName}
	if err := r.Client.Get(ctx, key, info); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ClusterInfo %s: %w", v1alpha1.ClusterInfoName, err)
	}
	var tunnels v1alpha1.TunnelEndpointList
	if err := r.policies.List(ctx, &tunnels, client.InNamespace(r.Network.Namespace),
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing TunnelEndpoints: %w", err)
	}
	var peer, others []string
	for i := range tunnels.Items {
		tunnel := &tunnels.Items[i]
		// A TunnelEndpoint with another cluster ID is about to be deleted.
		own := tunnel.Name == fc.Name && tunnel.Spec.ClusterID == fc.Spec.ClusterID
		for _, mapping := range tunnel.Spec.Remote {
			if own {
				peer = append(peer, mapping.Mapped)
			} else {
				others = append(others, mapping.Mapped)
			}
		}
	}
	for _, own := range info.Status.Ranges {
		others = append(others, own.CIDR)
	}
	return r.Network.policy(fc.Name, peer, others, r.Network.knownFamilies(info.Status.Ranges)), nil
}

// knownFamilies returns the IP families in which addresses outside of the cluster can be distinguished from
// those inside. It requires a range of pods of the family, a range of nodes, and a range of Services or a
// refused CIDR. If a family has no range of pods, pods have no addresses of that family, or their range was not
// detected.
func (n *Network) knownFamilies(ranges []v1alpha1.ClusterRange) []family {
	nodes, services := false, len(n.Refused) > 0
	for _, r := range ranges {
		nodes = nodes || r.Use == v1alpha1.RangeOfNodes
		services = services || r.Use == v1alpha1.RangeOfServices
	}
	return slices.DeleteFunc(slices.Clone(families), func(f family) bool {
		is4 := netip.MustParsePrefix(f.all).Addr().Is4()
		return !nodes || !services || !slices.ContainsFunc(ranges, func(r v1alpha1.ClusterRange) bool {
			prefix, err := netip.ParsePrefix(r.CIDR)
			return r.Use == v1alpha1.RangeOfPods && err == nil && prefix.Addr().Is4() == is4
		})
	})
}

// policy returns a NetworkPolicy for the pods of a consumer. peer are the ranges by which this cluster reaches
// the consumer's pods, and others are the ranges of this cluster and of its other peers. outside are the IP
// families in which all addresses outside of these ranges are permitted.
func (n *Network) policy(consumer string, peer, others []string, outside []family) *networkingv1.NetworkPolicySpec {
	same := []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
		v1alpha1.LabelRole: v1alpha1.RoleRemoteNamespace, v1alpha1.LabelForeignCluster: consumer,
	}}}}
	for _, cidr := range peer {
		same = append(same, block(cidr))
	}
	ingress := []networkingv1.NetworkPolicyIngressRule{{From: same}}
	if len(n.IngressFrom) > 0 {
		ingress = append(ingress, networkingv1.NetworkPolicyIngressRule{
			From: []networkingv1.NetworkPolicyPeer{namespaces(n.IngressFrom...)},
		})
	}
	spec := &networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		Ingress:     ingress,
		Egress: []networkingv1.NetworkPolicyEgressRule{
			{To: same}, {To: []networkingv1.NetworkPolicyPeer{namespaces(metav1.NamespaceSystem)},
				Ports: slices.Clone(dnsPorts)},
		},
	}
	var servers []networkingv1.NetworkPolicyPeer
	for _, cidr := range n.DNS {
		servers = append(servers, block(cidr.String()))
	}
	if len(servers) > 0 {
		spec.Egress = append(spec.Egress, networkingv1.NetworkPolicyEgressRule{To: servers, Ports: slices.Clone(dnsPort)})
	}
	// A rule without peers would permit all addresses.
	if len(outside) > 0 {
		var blocks []networkingv1.NetworkPolicyPeer
		for _, f := range outside {
			blocks = append(blocks, block(f.all, n.inside(f, others)...))
		}
		spec.Egress = append(spec.Egress, networkingv1.NetworkPolicyEgressRule{To: blocks})
	}
	return spec
}

// closed reports whether a NetworkPolicy that the method policy returned permits no addresses outside of the
// cluster: all rules after the first, which permits the consumer's pods, are limited to ports.
func closed(spec *networkingv1.NetworkPolicySpec) bool {
	return !slices.ContainsFunc(spec.Egress[1:], func(rule networkingv1.NetworkPolicyEgressRule) bool {
		return len(rule.Ports) == 0
	})
}

// inside returns the CIDRs of a family, sorted, that do not count as outside of the cluster: others, link-local
// addresses, addresses of metadata services, and refused CIDRs.
func (n *Network) inside(f family, others []string) []string {
	of := netip.MustParsePrefix(f.all).Addr()
	cidrs := []string{f.linkLocal}
	add := func(prefix netip.Prefix) {
		if prefix.Addr().Is4() == of.Is4() && prefix.Bits() > 0 {
			cidrs = append(cidrs, prefix.Masked().String())
		}
	}
	for _, prefix := range slices.Concat(netmap.ParseCIDRs(others), netmap.MetadataServices, n.Refused) {
		add(prefix)
	}
	slices.Sort(cidrs)
	return slices.Compact(cidrs)
}

func block(cidr string, except ...string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}
}

func namespaces(names ...string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: slices.Sorted(slices.Values(names)),
		}},
	}}
}

func udp(port intstr.IntOrString) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: ptr.To(corev1.ProtocolUDP), Port: &port}
}

func tcp(port intstr.IntOrString) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: ptr.To(corev1.ProtocolTCP), Port: &port}
}

// ensureIsolation ensures the NetworkPolicy of a remote namespace whose pods are isolated, and deletes the
// NetworkPolicies that the consumer reflected to it. If the pods are not isolated, it deletes only the NetworkPolicy
// named policyName.
func (r *Reconciler) ensureIsolation(ctx context.Context, t tenant, namespace string) error {
	if t.isolation != nil {
		if err := r.deleteReflected(ctx, namespace); err != nil {
			return err
		}
	}
	current := &networkingv1.NetworkPolicy{}
	err := r.policies.Get(ctx, client.ObjectKey{Namespace: namespace, Name: policyName}, current)
	switch {
	case apierrors.IsNotFound(err) && t.isolation == nil:
		return nil
	case apierrors.IsNotFound(err):
		err := r.Client.Create(ctx, &networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{
				Name: policyName, Namespace: namespace,
				Labels: map[string]string{
					v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: t.foreignCluster,
				},
			},
			Spec: *t.isolation,
		})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating the NetworkPolicy of remote namespace %s: %w", namespace, err)
		}
		r.warnIfClosed(t, namespace)
		return nil
	case err != nil:
		return fmt.Errorf("reading the NetworkPolicy of remote namespace %s: %w", namespace, err)
	case t.isolation == nil:
		return kit.Delete(ctx, r.Client, current)
	case equality.Semantic.DeepEqual(&current.Spec, t.isolation):
		return nil
	}
	changed := current.DeepCopy()
	changed.Spec = *t.isolation
	// RBAC allows update, and not patch.
	if err := r.Client.Update(ctx, changed); err != nil {
		return fmt.Errorf("updating the NetworkPolicy of remote namespace %s: %w", namespace, err)
	}
	r.warnIfClosed(t, namespace)
	return nil
}

// warnIfClosed emits an event if the NetworkPolicy of a remote namespace permits no addresses outside of the cluster.
func (r *Reconciler) warnIfClosed(t tenant, namespace string) {
	if closed(t.isolation) {
		r.Events.Eventf(t.cluster, corev1.EventTypeWarning, reasonRangesUnknown, rangesUnknownMessage, namespace)
	}
}

// deleteReflected deletes the NetworkPolicies that a consumer reflected to a remote namespace. They add up, so
// that each could permit what the isolation does not. The ValidatingAdmissionPolicy federation-peers refuses new ones,
// because of the annotation AnnotationNetworkAccess of the namespace.
func (r *Reconciler) deleteReflected(ctx context.Context, namespace string) error {
	var reflected networkingv1.NetworkPolicyList
	err := r.reflected.List(ctx, &reflected, client.InNamespace(namespace),
		client.MatchingLabelsSelector{Selector: ofAPeer})
	if err != nil {
		return fmt.Errorf("listing the NetworkPolicies of remote namespace %s: %w", namespace, err)
	}
	for i := range reflected.Items {
		if policy := &reflected.Items[i]; policy.DeletionTimestamp.IsZero() {
			if err := kit.Delete(ctx, r.Client, policy); err != nil {
				return err
			}
		}
	}
	return nil
}
