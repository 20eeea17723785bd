// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the federation.
const GroupName = "federation.liqo.io"

// SchemeGroupVersion is the group and version of the types in this package.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var (
	// SchemeBuilder registers the types, defaults and conversions of this version. Generated code
	// adds to it.
	SchemeBuilder      runtime.SchemeBuilder
	localSchemeBuilder = &SchemeBuilder
	// AddToScheme adds this version to a scheme.
	AddToScheme = localSchemeBuilder.AddToScheme
)

func init() {
	localSchemeBuilder.Register(addKnownTypes, addDefaultingFuncs, addFieldLabels)
}

// Kind returns the GroupKind of a kind in the API group of the federation.
func Kind(kind string) schema.GroupKind {
	return SchemeGroupVersion.WithKind(kind).GroupKind()
}

// Resource returns the GroupResource of a resource in the API group of the federation.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&ForeignCluster{}, &ForeignClusterList{}, &Peering{},
		&PeeringToken{}, &PeeringTokenList{}, &Invitation{},
		&IdentityRequest{}, &IdentityRequestList{},
		&ResourceRequest{}, &ResourceRequestList{},
		&ResourceOffer{}, &ResourceOfferList{},
		&VirtualNode{}, &VirtualNodeList{},
		&NamespaceOffloading{}, &NamespaceOffloadingList{}, &Offload{},
		&NamespaceMap{}, &NamespaceMapList{},
		&ShadowPod{}, &ShadowPodList{},
		&ShadowEndpointSlice{}, &ShadowEndpointSliceList{},
		&AddressPool{}, &AddressPoolList{},
		&ClusterInfo{}, &ClusterInfoList{},
		&AddressMapping{}, &AddressMappingList{},
		&NetworkConfig{}, &NetworkConfigList{},
		&TunnelEndpoint{}, &TunnelEndpointList{},
		&TunnelReach{}, &TunnelReachList{},
		&ShadowVolumeClaim{}, &ShadowVolumeClaimList{},
		&VirtualVolume{}, &VirtualVolumeList{}, &Move{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
