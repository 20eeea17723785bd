// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// maxNodeName is the maximum length of a label value: the name of the Node is the value of
// kubernetes.io/hostname.
const maxNodeName = 63

// ValidateVirtualNode validates a new virtual node.
func ValidateVirtualNode(node *federation.VirtualNode) field.ErrorList {
	errs := clusterMetadata(node, true)
	// Only creations are validated: VirtualNodes that an older version stored may have other names.
	wanted := v1alpha1.VirtualNodePrefix + node.Name
	if name := node.Spec.NodeName; name != "" && node.Name != "" && name != wanted {
		errs = append(errs, field.Invalid(specPath.Child("nodeName"), name,
			fmt.Sprintf("must be %s: a virtual kubelet may write only the Node that is named after its VirtualNode", wanted)))
	}
	return append(errs, virtualNodeSpec(&node.Spec)...)
}

// ValidateVirtualNodeUpdate validates an update of a virtual node. An unchanged spec is not
// validated again: an older version may have stored it by other rules, and its metadata must remain
// changeable.
func ValidateVirtualNodeUpdate(node, old *federation.VirtualNode) field.ErrorList {
	errs := metadataUpdate(node, old)
	if !apiequality.Semantic.DeepEqual(node.Spec, old.Spec) {
		errs = append(errs, virtualNodeSpec(&node.Spec)...)
	}
	errs = append(errs, immutable(node.Spec.ClusterID, old.Spec.ClusterID, specPath.Child("clusterID"))...)
	errs = append(errs, immutable(node.Spec.OfferedNode, old.Spec.OfferedNode, specPath.Child("offeredNode"))...)
	return append(errs, immutable(node.Spec.NodeName, old.Spec.NodeName, specPath.Child("nodeName"))...)
}

// ValidateVirtualNodeStatusUpdate validates an update of the status of a virtual node.
func ValidateVirtualNodeStatusUpdate(node, old *federation.VirtualNode) field.ErrorList {
	errs := metadataUpdate(node, old)
	errs = append(errs, notNegative(node.Status.ObservedGeneration, statusPath.Child("observedGeneration"))...)
	errs = append(errs, notNegative(node.Status.Pods, statusPath.Child("pods"))...)
	errs = append(errs, ReflectedKinds(node.Status.ReflectedKinds, statusPath.Child("reflectedKinds"))...)
	errs = append(errs, uniqueNames(node.Status.StorageClasses, maxClasses,
		statusPath.Child("storageClasses"), subdomain)...)
	errs = append(errs, storageQuota(node.Status.Storage, statusPath.Child("storage"))...)
	errs = append(errs, uniqueNames(node.Status.IngressClasses, maxClasses,
		statusPath.Child("ingressClasses"), subdomain)...)
	errs = append(errs, uniqueNames(node.Status.LoadBalancerClasses, maxClasses,
		statusPath.Child("loadBalancerClasses"), qualifiedName)...)
	if network := node.Status.Network; network != nil {
		errs = append(errs, cidrMappings(network.Local, statusPath.Child("network", "local"))...)
		errs = append(errs, cidrMappings(network.Remote, statusPath.Child("network", "remote"))...)
	}
	errs = append(errs, apiAccess(node.Status.APIAccess, statusPath)...)
	return append(errs, conditions(node.Status.Conditions, statusPath.Child("conditions"))...)
}

// apiAccess validates the field apiAccess of a spec or a status.
func apiAccess(access federation.APIAccess, parent *field.Path) field.ErrorList {
	return oneOf(access, parent.Child("apiAccess"), "", federation.APIAccessConsumer, federation.APIAccessDisabled)
}

func virtualNodeSpec(spec *federation.VirtualNodeSpec) field.ErrorList {
	errs := requiredClusterID(spec.ClusterID, specPath.Child("clusterID"))
	if spec.NodeName == "" {
		errs = append(errs, field.Required(specPath.Child("nodeName"), "must be the name of the Node that is created"))
	}
	errs = append(errs, optional(spec.NodeName, specPath.Child("nodeName"), subdomain)...)
	if len(spec.NodeName) > maxNodeName {
		errs = append(errs, field.TooLong(specPath.Child("nodeName"), "", maxNodeName))
	}
	errs = append(errs, optional(spec.OfferName, specPath.Child("offerName"), subdomain)...)
	errs = append(errs, optional(spec.OfferedNode, specPath.Child("offeredNode"), dnsLabel)...)
	if spec.OfferedNode != "" && spec.OfferName == "" {
		errs = append(errs, field.Required(specPath.Child("offerName"), "must be set if offeredNode is set"))
	}
	errs = append(errs, requiredResources(spec.Resources, specPath.Child("resources"))...)
	errs = append(errs, apiAccess(spec.APIAccess, specPath)...)
	errs = append(errs, labels(spec.Labels, specPath.Child("labels"))...)
	errs = append(errs, reflection(&spec.Reflection, specPath.Child("reflection"))...)
	if spec.OffloadingPatch != nil {
		errs = append(errs, offloadingPatch(spec.OffloadingPatch, specPath.Child("offloadingPatch"))...)
	}
	return errs
}
