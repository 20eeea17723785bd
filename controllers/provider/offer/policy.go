// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/reflection"
)

// Policy limits what a provider offers to consumers.
type Policy struct {
	// SharePercent is the percentage of the allocatable resources of the shared nodes that is offered to
	// each consumer, 1 to 100.
	SharePercent int
	// AutoAccept accepts resource requests of consumers, and offers of providers, for which the
	// ForeignCluster has no decision.
	AutoAccept bool
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
	// Labels are set on the consumers' virtual nodes.
	Labels map[string]string
	// StorageClasses, IngressClasses and LoadBalancerClasses are the classes that
	// consumers' objects may name; the first of each is the default. Storage classes
	// are offered only with a limit for requests.storage.
	StorageClasses, IngressClasses, LoadBalancerClasses []string
	// ExternalVolumeTypes and ExternalCSIDrivers are the volume types and CSI drivers of the volumes that
	// consumers' pods may mount without a claim. Empty means none.
	ExternalVolumeTypes, ExternalCSIDrivers []string
	// ReflectedKinds are the kinds, in addition to the built-in ones, that consumers may reflect, for
	// example certificates.v1.cert-manager.io.
	ReflectedKinds []string
}

// alwaysOffered are the keys of the node labels that offers of shape PerNode always include.
var alwaysOffered = []string{corev1.LabelArchStable, corev1.LabelOSStable, corev1.LabelTopologyRegion,
	corev1.LabelTopologyZone}

// maxNodeLabels is the maximum length of Policy.NodeLabels. It keeps offers small.
const maxNodeLabels = 8

// flagOfferKinds is the name of the flag that sets Policy.ReflectedKinds.
const flagOfferKinds = "policy-reflected-kinds"

// flagExternalVolumeTypes and flagExternalCSIDrivers are the names of the flags that set
// Policy.ExternalVolumeTypes and Policy.ExternalCSIDrivers.
const (
	flagExternalVolumeTypes = "policy-external-volumes-types"
	flagExternalCSIDrivers  = "policy-external-volumes-csi-drivers"
)

// kinds returns the parsed ReflectedKinds. Validate has reported invalid ones.
func (p *Policy) kinds() []metav1.GroupVersionResource {
	kinds, _ := reflection.ParseKinds(flagOfferKinds, p.ReflectedKinds)
	return kinds
}

// DefaultPolicy returns the defaults of the flags: each invited consumer is offered 90 percent of the
// allocatable resources.
func DefaultPolicy() Policy {
	return Policy{SharePercent: 90, AutoAccept: true, ChangePercent: 5, Shape: string(v1alpha1.OfferAggregate)}
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
		"Aggregate makes one offer for all shared nodes. PerNode makes an offer for each shared node, from which the "+
			"consumer creates a virtual node with the architecture, operating system, region and zone of the shared node. "+
			"spec.incomingPolicy.shape of a ForeignCluster overrides it.")
	fs.StringSliceVar(&p.NodeLabels, "policy-node-labels", p.NodeLabels,
		"Keys of at most 8 further node labels that offers of shape PerNode contain, for example "+
			"nvidia.com/gpu.product. Pods of a virtual node run on nodes with the same values of these labels.")
	fs.IntVar(&p.ChangePercent, "policy-change-percent", p.ChangePercent,
		"Minimum change of a resource, in percent, 0 to 100, for which an existing offer is updated. It prevents updates "+
			"for the small changes of allocatable resources.")
	fs.BoolVar(&p.AutoAccept, "policy-auto-accept", p.AutoAccept,
		"Accept requests of invited consumers and offers of providers automatically. If false, an administrator must "+
			"decide in spec.incomingPolicy and spec.outgoingPolicy of each ForeignCluster.")
	fs.StringToStringVar(&p.Labels, "cluster-labels", p.Labels,
		"Labels of the virtual nodes that represent this cluster at consumers, for example topology.liqo.io/region=north.")
	fs.StringSliceVar(&p.StorageClasses, "policy-storage-classes", p.StorageClasses,
		"Storage classes that consumers' claims may use, the default first. They are offered only with requests.storage in "+
			"--policy-limits.")
	fs.StringSliceVar(&p.ExternalVolumeTypes, flagExternalVolumeTypes, p.ExternalVolumeTypes,
		"Volume types that consumers' pods may mount without a claim: fc, iscsi or nfs. Empty offers none. "+
			"spec.incomingPolicy.externalVolumes of a ForeignCluster overrides it, and --policy-external-volumes-csi-drivers.")
	fs.StringSliceVar(&p.ExternalCSIDrivers, flagExternalCSIDrivers, p.ExternalCSIDrivers,
		"CSI drivers that inline volumes of consumers' pods may use, for example secrets-store.csi.k8s.io. "+
			"Empty offers none.")
	fs.StringSliceVar(&p.IngressClasses, "policy-ingress-classes", p.IngressClasses,
		"Ingress classes that consumers may use, the default first. All other classes are refused. "+
			"Empty refuses none, and the default is the cluster's.")
	fs.StringSliceVar(&p.LoadBalancerClasses, "policy-load-balancer-classes", p.LoadBalancerClasses,
		"Load balancer classes that Services of consumers may use, the default first. All other classes are refused. "+
			"Empty refuses none, and the default is the cluster's.")
	fs.StringSliceVar(&p.ReflectedKinds, flagOfferKinds, p.ReflectedKinds,
		"Kinds, in addition to the built-in ones, that consumers may reflect into their namespaces on this cluster, for "+
			"example certificates.v1.cert-manager.io. ClusterRole federation-remote-namespace must permit writing them.")
}
