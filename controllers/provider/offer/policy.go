// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"net/netip"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/apiserver/reflection"
	"liqo.io/federation/apiserver/trust"
)

// Policy limits what a provider offers to consumers.
type Policy struct {
	// SharePercent is the percentage of the allocatable resources of the shared nodes that is offered to
	// each consumer, 1 to 100.
	SharePercent int
	// AutoAccept accepts resource requests of consumers, and offers of providers, for which the
	// ForeignCluster has no decision.
	AutoAccept bool
	// Trust is Tenant or SameOwner: the trust in consumers whose PeeringToken does not set spec.trust.
	Trust string
	// Limits has the maximum quantity of resources that each consumer is offered, by the name of the
	// resource. A limit of 0 means that the resource is not offered.
	Limits map[string]string
	// NodeSelector has the labels of the shared nodes. If it is empty, all nodes are shared.
	NodeSelector map[string]string
	// Shape is Aggregate to offer the sum of all shared nodes, or PerNode to offer each shared node by
	// itself.
	Shape string
	// NodeLabels are the keys of labels of nodes that offers of shape PerNode include, in addition to
	// architecture, operating system, region and zone.
	NodeLabels []string
	// ChangePercent is the minimum change of a resource, in percent from 0 to 100, for which an
	// existing offer is updated.
	ChangePercent int
	// ClusterLabels are set on the consumers' virtual nodes.
	ClusterLabels map[string]string
	// StorageClasses, IngressClasses and LoadBalancerClasses are the classes that
	// consumers' objects may name; the first of each is the default. Storage classes
	// are offered only with a limit for requests.storage.
	StorageClasses, IngressClasses, LoadBalancerClasses []string
	// ExternalVolumesTypes and ExternalVolumesCSIDrivers are the volume types and CSI drivers of the volumes that
	// consumers' pods may mount without a claim. Empty means none.
	ExternalVolumesTypes, ExternalVolumesCSIDrivers []string
	// ReflectedKinds are the kinds, in addition to the built-in ones, that consumers may reflect, for
	// example certificates.v1.cert-manager.io.
	ReflectedKinds []string
	// RemoteNamespaces are patterns of the names that consumers may select for their remote namespaces. If it is empty,
	// consumers with trust Tenant may select none, and others any.
	RemoteNamespaces []string
	// MaxRemoteNamespaces is the maximum number of remote namespaces of each consumer. If it is 0, the trust in the
	// consumer determines it.
	MaxRemoteNamespaces int32
	// Objects is the maximum number of objects of a consumer in each remote namespace, by the names of a ResourceQuota.
	// The trust in the consumer determines those that are not listed.
	Objects map[string]string
	// MaxObjectBytes is the maximum size of an object of a consumer, in bytes. If it is 0, the trust in the consumer
	// determines it.
	MaxObjectBytes int64
	// ExternalNames are patterns of the names that Services of type ExternalName of consumers may have. If it is empty,
	// consumers with trust Tenant may have none, and others any.
	ExternalNames []string
	// NetworkAccess is Isolated or Open; if it is empty, the trust in a consumer determines what its pods reach.
	// NetworkIngressFrom are the namespaces from which isolated pods are reached, and NetworkDNS are CIDRs of DNS servers
	// that they reach in addition to those in kube-system.
	NetworkAccess                  string
	NetworkIngressFrom, NetworkDNS []string
	// PodFlags limit what pods of consumers may set.
	trust.PodFlags
}

// alwaysOffered are the keys of the node labels that offers of shape PerNode always include.
var alwaysOffered = []string{corev1.LabelArchStable, corev1.LabelOSStable, corev1.LabelTopologyRegion,
	corev1.LabelTopologyZone}

// maxNodeLabels is the maximum length of Policy.NodeLabels. It keeps offers small.
const maxNodeLabels = 8

// flagOfferKinds is the name of the flag that sets Policy.ReflectedKinds.
const flagOfferKinds = "policy-reflected-kinds"

// Names of the flags that set Policy.RemoteNamespaces and other limits.
const (
	flagRemoteNamespaces = "policy-remote-namespaces"
	flagMaxNamespaces    = "policy-max-remote-namespaces"
	flagNetworkAccess    = "policy-network-access"
	flagIngressFrom      = "policy-network-ingress-from"
	flagDNS              = "policy-network-dns"
	flagMaxObjectBytes   = "policy-max-object-bytes"
	flagObjects          = "policy-objects"
	flagExternalNames    = "policy-external-names"
)

// flagExternalVolumesTypes and flagExternalVolumesCSIDrivers are the names of the flags that set
// Policy.ExternalVolumesTypes and Policy.ExternalVolumesCSIDrivers.
const (
	flagExternalVolumesTypes      = "policy-external-volumes-types"
	flagExternalVolumesCSIDrivers = "policy-external-volumes-csi-drivers"
)

// Kinds returns the parsed ReflectedKinds. Validate has reported invalid ones.
func (p *Policy) Kinds() []metav1.GroupVersionResource {
	kinds, _ := reflection.ParseKinds(flagOfferKinds, p.ReflectedKinds)
	return kinds
}

// DNS returns the parsed NetworkDNS. Validate has reported invalid ones.
func (p *Policy) DNS() []netip.Prefix {
	return netmap.ParseCIDRs(p.NetworkDNS)
}

// ObjectLimits returns the parsed Objects. Validate has reported invalid ones.
func (p *Policy) ObjectLimits() corev1.ResourceList {
	limits := corev1.ResourceList{}
	for name, value := range p.Objects {
		// Validation has ensured that the numbers can be parsed.
		if quantity, err := resource.ParseQuantity(value); err == nil {
			limits[corev1.ResourceName(name)] = quantity
		}
	}
	return limits
}

// DefaultPolicy returns the defaults of the flags: each invited consumer is offered 90 percent of the
// allocatable resources.
func DefaultPolicy() Policy {
	return Policy{
		SharePercent: 90, AutoAccept: true, ChangePercent: 5, Shape: string(v1alpha1.OfferAggregate),
		Trust: string(v1alpha1.TrustTenant),
	}
}

// AddFlags adds the flags that set p.
func (p *Policy) AddFlags(fs *pflag.FlagSet) {
	fs.IntVar(&p.SharePercent, "policy-share-percent", p.SharePercent,
		"Share of the allocatable resources of the shared nodes that each consumer is offered, in percent, 1 to 100.")
	fs.StringToStringVar(&p.Limits, "policy-limits", p.Limits,
		"Maximum of each resource that a consumer is offered, for example cpu=16,memory=64Gi,nvidia.com/gpu=0; 0 offers "+
			"none of it. requests.storage in bytes, persistentvolumeclaims and "+
			"<class>.storageclass.storage.k8s.io/requests.storage limit the claims of each consumer; without "+
			"requests.storage no storage is offered. spec.incomingPolicy.limits of a ForeignCluster has precedence.")
	fs.StringToStringVar(&p.NodeSelector, "policy-node-selector", p.NodeSelector,
		"Labels of the nodes that are shared, for example pool=shared: only their resources are offered, and "+
			"consumers' pods run only on them. Empty shares all nodes. spec.incomingPolicy.nodeSelector of a "+
			"ForeignCluster overrides it.")
	fs.StringVar(&p.Shape, "policy-shape", p.Shape,
		"Aggregate offers the sum of all shared nodes. PerNode offers each shared node by itself, from which the "+
			"consumer creates a virtual node with the architecture, operating system, region and zone of the shared node. "+
			"spec.incomingPolicy.shape of a ForeignCluster overrides it.")
	fs.StringSliceVar(&p.NodeLabels, "policy-node-labels", p.NodeLabels,
		"Keys of at most 8 node labels that offers of shape PerNode contain in addition to architecture, operating "+
			"system, region and zone, for example nvidia.com/gpu.product. Pods of a virtual node run on nodes with the same "+
			"values of these labels.")
	fs.IntVar(&p.ChangePercent, "policy-change-percent", p.ChangePercent,
		"Minimum change of a resource, in percent, 0 to 100, for which an existing offer is updated. It prevents updates "+
			"for the small changes of allocatable resources.")
	fs.BoolVar(&p.AutoAccept, "policy-auto-accept", p.AutoAccept,
		"Accept requests of invited consumers and offers of providers automatically. If false, an administrator must "+
			"decide in spec.incomingPolicy and spec.outgoingPolicy of each ForeignCluster.")
	fs.StringToStringVar(&p.ClusterLabels, "cluster-labels", p.ClusterLabels,
		"Labels of the virtual nodes that represent this cluster at consumers, for example topology.liqo.io/region=north.")
	fs.StringSliceVar(&p.StorageClasses, "policy-storage-classes", p.StorageClasses,
		"Storage classes that consumers' claims may use, the default first. They are offered only with requests.storage in "+
			"--policy-limits.")
	fs.StringSliceVar(&p.ExternalVolumesTypes, flagExternalVolumesTypes, p.ExternalVolumesTypes,
		"Volume types that consumers' pods may mount without a claim: fc, iscsi or nfs. Empty offers none. "+
			"spec.incomingPolicy.externalVolumes of a ForeignCluster overrides this flag and "+
			"--policy-external-volumes-csi-drivers.")
	fs.StringSliceVar(&p.ExternalVolumesCSIDrivers, flagExternalVolumesCSIDrivers, p.ExternalVolumesCSIDrivers,
		"CSI drivers that inline volumes of consumers' pods may use, for example secrets-store.csi.k8s.io. "+
			"Empty offers none.")
	fs.StringSliceVar(&p.IngressClasses, "policy-ingress-classes", p.IngressClasses,
		"Ingress classes that consumers may use, the default first. All other classes are refused. "+
			"If empty, consumers may use all classes, and the default is the default IngressClass of this cluster.")
	fs.StringSliceVar(&p.LoadBalancerClasses, "policy-load-balancer-classes", p.LoadBalancerClasses,
		"Load balancer classes that Services of consumers may use, the default first. All other classes are refused. "+
			"If empty, they may use all classes, and the default is the default load balancer of this cluster.")
	fs.StringSliceVar(&p.ReflectedKinds, flagOfferKinds, p.ReflectedKinds,
		"Kinds, in addition to the built-in ones, that consumers may reflect into their namespaces on this cluster, for "+
			"example certificates.v1.cert-manager.io. ClusterRole federation-remote-namespace must permit writing them.")
	fs.StringVar(&p.Trust, "policy-trust", p.Trust,
		"What consumers with a new invitation, and pods of their users, may do in this cluster, unless spec.trust of the "+
			"PeeringToken is set: Tenant (consumers of other owners) or SameOwner. With Tenant, requests of a consumer "+
			"whose PeeringToken has no spec.consumerClusterID wait for spec.incomingPolicy.decision of its ForeignCluster.")
	fs.StringSliceVar(&p.RemoteNamespaces, flagRemoteNamespaces, p.RemoteNamespaces,
		"Names that consumers may select for their remote namespaces, each with at most one *, which stands for any "+
			"characters, for example team-a-*. If empty, trust Tenant permits only the names of the namespace mapping "+
			"strategy DefaultName, and SameOwner any.")
	fs.Int32Var(&p.MaxRemoteNamespaces, flagMaxNamespaces, p.MaxRemoteNamespaces,
		"Maximum number of remote namespaces of each consumer. If 0, trust Tenant permits 20, and SameOwner any number.")
	fs.StringVar(&p.NetworkAccess, flagNetworkAccess, p.NetworkAccess,
		"What pods of consumers reach: Isolated (the consumer and its remote namespaces, DNS, and addresses outside of "+
			"this cluster) or Open (no restriction). If empty, Isolated with trust Tenant, and Open with SameOwner.")
	fs.StringSliceVar(&p.NetworkIngressFrom, flagIngressFrom, p.NetworkIngressFrom,
		"Namespaces from which isolated pods of consumers are reached, for example of ingress controllers and monitoring.")
	fs.StringSliceVar(&p.NetworkDNS, flagDNS, p.NetworkDNS,
		"CIDRs of DNS servers that isolated pods reach at port 53, in addition to those in namespace kube-system, for "+
			"example 169.254.20.10/32 of NodeLocal DNSCache.")
	fs.StringToStringVar(&p.Objects, flagObjects, p.Objects,
		"Maximum number of objects of a consumer in each remote namespace, by the names of a ResourceQuota, for example "+
			"count/configmaps=500,services.nodeports=10. For what is not listed, trust Tenant permits 100 ConfigMaps, 100 "+
			"Secrets, 100 Services, 20 Ingresses, 100 objects of each other kind in --policy-reflected-kinds, and no node "+
			"ports and load balancers.")
	fs.Int64Var(&p.MaxObjectBytes, flagMaxObjectBytes, p.MaxObjectBytes,
		"Maximum size of each ConfigMap, Secret, Service, Ingress and object of --policy-reflected-kinds of a consumer, in "+
			"bytes, at least 4096. If 0, trust Tenant permits 131072, and SameOwner any.")
	fs.StringSliceVar(&p.ExternalNames, flagExternalNames, p.ExternalNames,
		"DNS names that Services of type ExternalName of consumers may have, with at most one * each, for example "+
			"*.example.com. If empty, trust Tenant permits none, and SameOwner any.")
	p.PodFlags.AddFlags(fs)
}
