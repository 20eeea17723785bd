// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the federation.
const GroupName = "federation.liqo.io"

// SchemeGroupVersion is the API group of the federation with its internal version.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: runtime.APIVersionInternal}

var (
	// SchemeBuilder registers the internal types.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme adds the internal types to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

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
	return nil
}
