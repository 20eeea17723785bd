// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resources negotiates what is lent. A provider answers requests with
// offers that its policy allows; a consumer asks, accepts offers, and has a
// virtual kubelet run for each virtual node that it makes of them.
package resources

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	federationvalidation "liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/apiserver/reflection"
)

// Policy is what a provider lends, and how.
type Policy struct {
	// SharePercent is how much of what its nodes can run a cluster offers to
	// each consumer, 1 to 100.
	SharePercent int
	// AutoAccept grants requests, and accepts offers, without asking an
	// administrator.
	AutoAccept bool
	// Limits are the most that each consumer is offered of a resource, by name
	// as quantities; 0 offers none.
	Limits map[string]string
	// NodeSelector are the labels of the nodes that are shared. Empty shares all.
	NodeSelector map[string]string
	// Shape is Aggregate or PerNode: whether the shared nodes are offered as a
	// whole or one by one.
	Shape string
	// NodeLabels are the keys of the labels that are told of nodes that are
	// offered one by one, beside their architecture, system, region and zone.
	NodeLabels []string
	// ChangePercent is by how much what could be offered has to differ from what
	// is offered before an offer is changed, 0 to 100.
	ChangePercent int
	// Labels are the provider's own, for the consumers' virtual nodes.
	Labels map[string]string
	// StorageClasses, IngressClasses and LoadBalancerClasses are what
	// consumers' objects may name; the first of each is the default. Storage classes
	// are offered with a limit for requests.storage only.
	StorageClasses, IngressClasses, LoadBalancerClasses []string
	// ExternalVolumeTypes and ExternalCSIDrivers are the volumes that consumers' pods
	// may mount without a claim. Empty means none.
	ExternalVolumeTypes, ExternalCSIDrivers []string
	// ReflectedKinds are the kinds beside the built-in ones that consumers may
	// copy into their namespaces, each as in certificates.v1.cert-manager.io.
	ReflectedKinds []string
}

// alwaysTold are the keys of the labels that are told of every node.
var alwaysTold = []string{corev1.LabelArchStable, corev1.LabelOSStable, corev1.LabelTopologyRegion, corev1.LabelTopologyZone}

// maxNodeLabels bounds what is told of one node beside that: offers have to stay
// small.
const maxNodeLabels = 8

// flagOfferKinds is the flag of Policy.ReflectedKinds.
const flagOfferKinds = "offer-kinds"

// flagExternalVolumeTypes and flagExternalCSIDrivers are the flags of
// Policy.ExternalVolumeTypes and Policy.ExternalCSIDrivers.
const (
	flagExternalVolumeTypes = "offer-external-volume-types"
	flagExternalCSIDrivers  = "offer-external-csi-drivers"
)

// kinds are ReflectedKinds, of a policy that is valid.
func (p *Policy) kinds() []metav1.GroupVersionResource {
	kinds, _ := reflection.ParseKinds(flagOfferKinds, p.ReflectedKinds)
	return kinds
}

// DefaultPolicy lends 90 percent to whoever was invited.
func DefaultPolicy() Policy {
	return Policy{SharePercent: 90, AutoAccept: true, ChangePercent: 5, Shape: string(v1alpha1.OfferAggregate)}
}

// AddFlags binds the policy to flags.
func (p *Policy) AddFlags(fs *pflag.FlagSet) {
	fs.IntVar(&p.SharePercent, "share-percent", p.SharePercent, "Percentage of the allocatable resources of this cluster's nodes that each consumer is offered, 1 to 100.")
	fs.StringToStringVar(&p.Limits, "offer-limits", p.Limits, "The most that each consumer is offered of a resource, extended ones too, as cpu=16,memory=64Gi,nvidia.com/gpu=0; 0 offers none. requests.storage in bytes, persistentvolumeclaims and <class>.storageclass.storage.k8s.io/requests.storage bound its claims; without requests.storage no storage is offered. spec.lending.limits of a ForeignCluster goes before it.")
	fs.StringToStringVar(&p.NodeSelector, "share-node-selector", p.NodeSelector, "Labels of the nodes that are shared, as lent=yes: offers are a part of these nodes, and consumers' pods run on them alone. Without it all nodes are. spec.lending.nodeSelector of a ForeignCluster takes its place.")
	fs.StringVar(&p.Shape, "offer-shape", p.Shape, "Aggregate offers the shared nodes as a whole, PerNode one by one: the consumer has a virtual node for each, with its architecture, system, region and zone. spec.lending.shape of a ForeignCluster takes its place.")
	fs.StringSliceVar(&p.NodeLabels, "offer-node-labels", p.NodeLabels, "Keys of further labels, at most 8, that consumers are told of nodes that are offered one by one, as nvidia.com/gpu.product. Their pods run on nodes with the same values.")
	fs.IntVar(&p.ChangePercent, "offer-change-percent", p.ChangePercent, "By how many percent what could be offered has to differ from what is offered, 0 to 100, before an offer is changed: nodes come and go a little all the time.")
	fs.BoolVar(&p.AutoAccept, "auto-accept", p.AutoAccept, "Answer requests of invited consumers with an offer, and offers of providers with a virtual node. False waits for an administrator, who decides in spec.lending and spec.borrowing of the ForeignCluster.")
	fs.StringToStringVar(&p.Labels, "cluster-labels", p.Labels, "Labels that offers carry to the consumers' virtual nodes, as topology.liqo.io/region=north.")
	fs.StringSliceVar(&p.StorageClasses, "offer-storage-classes", p.StorageClasses, "Storage classes that consumers' claims may use, the default first. They are offered with requests.storage in --offer-limits only.")
	fs.StringSliceVar(&p.ExternalVolumeTypes, flagExternalVolumeTypes, p.ExternalVolumeTypes, "Volume types that consumers' pods may mount without a claim: fc, iscsi or nfs. Empty offers none. spec.lending.externalVolumes of a ForeignCluster takes the place of this and of --offer-external-csi-drivers.")
	fs.StringSliceVar(&p.ExternalCSIDrivers, flagExternalCSIDrivers, p.ExternalCSIDrivers, "CSI drivers that inline volumes of consumers' pods may use, for example secrets-store.csi.k8s.io. Empty offers none.")
	fs.StringSliceVar(&p.IngressClasses, "offer-ingress-classes", p.IngressClasses, "Ingress classes that consumers may name, the default first.")
	fs.StringSliceVar(&p.LoadBalancerClasses, "offer-load-balancer-classes", p.LoadBalancerClasses, "Load balancer classes that consumers may name, the default first.")
	fs.StringSliceVar(&p.ReflectedKinds, flagOfferKinds, p.ReflectedKinds, "Kinds that consumers may copy into their namespaces here beside the built-in ones, as certificates.v1.cert-manager.io. ClusterRole federation-twin has to allow them.")
}

// Validate tells everything that is wrong at once.
func (p *Policy) Validate() []error {
	var errs []error
	if p.SharePercent < 1 || p.SharePercent > 100 {
		errs = append(errs, fmt.Errorf("--share-percent %d: must be between 1 and 100", p.SharePercent))
	}
	if p.ChangePercent < 0 || p.ChangePercent > 100 {
		errs = append(errs, fmt.Errorf("--offer-change-percent %d: must be between 0 and 100", p.ChangePercent))
	}
	for name, value := range p.Limits {
		problems := validation.IsQualifiedName(name)
		if class, ofClass := v1alpha1.ClassOfStorage(corev1.ResourceName(name)); ofClass {
			problems = append(problems, validation.IsDNS1123Subdomain(class)...)
		}
		if quantity, err := resource.ParseQuantity(value); err != nil || quantity.Sign() < 0 {
			problems = append(problems, "must be a quantity of at least 0, as 16 or 64Gi")
		}
		if len(problems) > 0 {
			errs = append(errs, fmt.Errorf("--offer-limits %s=%s: %s", name, value, strings.Join(problems, "; ")))
		}
	}
	for flag, labels := range map[string]map[string]string{"--cluster-labels": p.Labels, "--share-node-selector": p.NodeSelector} {
		for key, value := range labels {
			problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
			if len(problems) > 0 {
				errs = append(errs, fmt.Errorf("%s %s=%s: %s", flag, key, value, strings.Join(problems, "; ")))
			}
		}
	}
	if shapes := []v1alpha1.OfferShape{v1alpha1.OfferAggregate, v1alpha1.OfferPerNode}; !slices.Contains(shapes, v1alpha1.OfferShape(p.Shape)) {
		errs = append(errs, fmt.Errorf("--offer-shape %q: must be one of %v", p.Shape, shapes))
	}
	if len(p.NodeLabels) > maxNodeLabels {
		errs = append(errs, fmt.Errorf("--offer-node-labels: %d keys are more than %d", len(p.NodeLabels), maxNodeLabels))
	}
	for _, key := range p.NodeLabels {
		problems := validation.IsQualifiedName(key)
		if len(problems) == 0 && !federationvalidation.OfferedLabel(key) {
			problems = []string{"a provider cannot tell this label of its nodes"}
		}
		if len(problems) > 0 {
			errs = append(errs, fmt.Errorf("--offer-node-labels %s: %s", key, strings.Join(problems, "; ")))
		}
	}
	for flag, classes := range map[string][]string{
		"--offer-storage-classes": p.StorageClasses, "--offer-ingress-classes": p.IngressClasses,
	} {
		for _, class := range classes {
			if problems := validation.IsDNS1123Subdomain(class); len(problems) > 0 {
				errs = append(errs, fmt.Errorf("%s %q: %s", flag, class, strings.Join(problems, "; ")))
			}
		}
	}
	for _, class := range p.LoadBalancerClasses {
		if problems := validation.IsQualifiedName(class); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("--offer-load-balancer-classes %q: %s", class, strings.Join(problems, "; ")))
		}
	}
	errs = append(errs, p.validateExternalVolumes()...)
	_, problems := reflection.ParseKinds(flagOfferKinds, p.ReflectedKinds)
	return append(errs, problems...)
}

// terms are what one consumer is offered by.
type terms struct {
	percent int
	// most are the limits, of the provider's and of what is asked for.
	most         corev1.ResourceList
	nodeSelector map[string]string
	// perNode offers nodes one by one, and nodeLabels are the keys of what is told
	// of them.
	perNode    bool
	nodeLabels []string
}

// terms are those of the policy, as far as the ForeignCluster has none of its
// own, and what the consumer asks for.
func (p *Policy) terms(lending *v1alpha1.PeeringLending, asked corev1.ResourceList) terms {
	t := terms{
		percent: p.SharePercent, most: corev1.ResourceList{}, nodeSelector: p.SharedNodes(lending),
		perNode:    cmp.Or(lending.Shape, v1alpha1.OfferShape(p.Shape)) == v1alpha1.OfferPerNode,
		nodeLabels: slices.Concat(alwaysTold, p.NodeLabels),
	}
	if lending.SharePercent != nil {
		t.percent = int(*lending.SharePercent)
	}
	for name, value := range p.Limits {
		// They were validated.
		if quantity, err := resource.ParseQuantity(value); err == nil {
			t.most[corev1.ResourceName(name)] = quantity
		}
	}
	maps.Copy(t.most, lending.Limits)
	for name, quantity := range asked {
		// A limit for storage offers it, which a consumer cannot do.
		if _, offered := t.most[name]; v1alpha1.IsStorage(name) && !offered {
			continue
		}
		if limit, ok := t.most[name]; !ok || quantity.Cmp(limit) < 0 {
			t.most[name] = quantity
		}
	}
	return t
}

// SharedNodes are the labels of the nodes that are shared with a consumer,
// which it is offered a part of and its pods run on. None shares all.
func (p *Policy) SharedNodes(lending *v1alpha1.PeeringLending) map[string]string {
	if len(lending.NodeSelector) > 0 {
		return lending.NodeSelector
	}
	return p.NodeSelector
}

// VirtualKubelet says how virtual kubelets are deployed.
type VirtualKubelet struct {
	// Image is what their containers run.
	Image string
	// PullPolicy is when nodes fetch it: Always, IfNotPresent or Never.
	PullPolicy string
	// HomeServer is the URL under which the pods that they send to providers
	// reach the API server of this cluster; empty means that they do not.
	HomeServer string
	// HomeThroughTunnels says that providers reach its address through the
	// tunnels to them alone.
	HomeThroughTunnels bool
	// ReflectedKinds are the kinds beside the built-in ones that they may read in
	// offloaded namespaces, each as in certificates.v1.cert-manager.io.
	ReflectedKinds []string
}

// flagReflectedKinds is the flag of VirtualKubelet.ReflectedKinds.
const flagReflectedKinds = "reflected-kinds"

// kinds are ReflectedKinds, if they are valid.
func (v *VirtualKubelet) kinds() []metav1.GroupVersionResource {
	kinds, _ := reflection.ParseKinds(flagReflectedKinds, v.ReflectedKinds)
	return kinds
}

// AddFlags binds the deployment of virtual kubelets to flags.
func (v *VirtualKubelet) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&v.Image, "virtual-kubelet-image", v.Image, "Image of the virtual kubelets. Without one no virtual node comes up.")
	fs.StringVar(&v.HomeServer, "home-server", v.HomeServer, "URL, https://host:port, under which pods that run on providers reach the API server of this cluster. Without one their tokens stay here.")
	fs.BoolVar(&v.HomeThroughTunnels, "home-through-tunnels", v.HomeThroughTunnels, "Where there is a tunnel to a provider, its pods reach the address of --home-server through it: the address is given another one, of AddressPool external, for each of them.")
	fs.StringVar(&v.PullPolicy, "virtual-kubelet-image-pull-policy", v.PullPolicy, "When nodes fetch that image: Always, IfNotPresent or Never.")
	fs.StringSliceVar(&v.ReflectedKinds, flagReflectedKinds, v.ReflectedKinds, "Kinds that virtual kubelets may copy to providers beside the built-in ones, as certificates.v1.cert-manager.io. ClusterRole federation-reflection has to allow them.")
}

// Validate tells everything that is wrong at once.
func (v *VirtualKubelet) Validate() []error {
	_, errs := reflection.ParseKinds(flagReflectedKinds, v.ReflectedKinds)
	policies := []corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}
	if !slices.Contains(policies, corev1.PullPolicy(v.PullPolicy)) {
		errs = append(errs, fmt.Errorf("--virtual-kubelet-image-pull-policy %q: must be one of %v", v.PullPolicy, policies))
	}
	if strings.ContainsAny(v.Image, " \t\n") {
		errs = append(errs, errors.New("--virtual-kubelet-image must not contain spaces"))
	}
	if v.HomeServer != "" {
		if _, _, err := podspec.HomeServer(v.HomeServer); err != nil {
			errs = append(errs, fmt.Errorf("--home-server: %w", err))
		}
	}
	if v.HomeThroughTunnels && !v.HomeAddress().IsValid() {
		errs = append(errs, errors.New("--home-through-tunnels needs --home-server with an address, as https://10.96.0.1:443: a name leads to the same place on either side of a tunnel"))
	}
	return errs
}

// HomeAddress is what providers reach through tunnels; invalid if nothing is.
func (v *VirtualKubelet) HomeAddress() netip.Addr {
	host, _, err := podspec.HomeServer(v.HomeServer)
	if err != nil || !v.HomeThroughTunnels {
		return netip.Addr{}
	}
	// What is no address is invalid.
	address, _ := netip.ParseAddr(host)
	return address
}
