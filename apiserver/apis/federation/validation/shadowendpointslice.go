// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
)

const (
	// maxEndpoints and maxEndpointPorts are the limits of Kubernetes for an EndpointSlice.
	maxEndpoints     = 1000
	maxEndpointPorts = 100
	// maxEndpointAddresses is the maximum number of addresses in a slice. One address per endpoint
	// is sufficient, since kube-proxy uses only one.
	maxEndpointAddresses = 1000
)

// ValidateShadowEndpointSlice validates a new shadow endpoint slice. A peer writes it, and pods of
// the local cluster connect to its addresses; so loopback and link-local addresses are refused.
func ValidateShadowEndpointSlice(slice *federation.ShadowEndpointSlice) field.ErrorList {
	return append(metadata(slice, true), shadowEndpointSlice(slice)...)
}

// ValidateShadowEndpointSliceUpdate validates an update of a shadow endpoint slice.
// spec.addressType cannot change.
func ValidateShadowEndpointSliceUpdate(slice, old *federation.ShadowEndpointSlice) field.ErrorList {
	errs := append(metadataUpdate(slice, old), shadowEndpointSlice(slice)...)
	return append(errs, immutable(slice.Spec.AddressType, old.Spec.AddressType, specPath.Child("addressType"))...)
}

// ValidateShadowEndpointSliceStatusUpdate validates an update of the status of a shadow endpoint
// slice.
func ValidateShadowEndpointSliceStatusUpdate(slice, old *federation.ShadowEndpointSlice) field.ErrorList {
	return append(metadataUpdate(slice, old), conditions(slice.Status.Conditions, statusPath.Child("conditions"))...)
}

func shadowEndpointSlice(slice *federation.ShadowEndpointSlice) field.ErrorList {
	if errs := peersMetadata(slice.ObjectMeta); len(errs) > 0 {
		return errs
	}
	errs := labels(slice.Labels, metadataPath.Child("labels"))
	spec := &slice.Spec
	errs = append(errs, oneOf(spec.AddressType, specPath.Child("addressType"),
		discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)...)
	errs = append(errs, endpointPorts(spec.Ports, specPath.Child("ports"))...)
	return append(errs, endpoints(spec, specPath.Child("endpoints"))...)
}

func endpointPorts(ports []discoveryv1.EndpointPort, path *field.Path) field.ErrorList {
	if len(ports) > maxEndpointPorts {
		return field.ErrorList{field.TooMany(path, len(ports), maxEndpointPorts)}
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, port := range ports {
		at, name := path.Index(i), ptr.Deref(port.Name, "")
		if seen[name] {
			errs = append(errs, field.Duplicate(at.Child("name"), truncate(name)))
		}
		seen[name] = true
		errs = append(errs, optional(name, at.Child("name"), dnsLabel)...)
		errs = append(errs, oneOf(ptr.Deref(port.Protocol, ""), at.Child("protocol"),
			corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
		if number := port.Port; number != nil && (*number < 1 || *number > 65535) {
			errs = append(errs, field.Invalid(at.Child("port"), *number, "must be 1 to 65535"))
		}
		errs = append(errs, optional(ptr.Deref(port.AppProtocol, ""), at.Child("appProtocol"), qualifiedName)...)
	}
	return errs
}

func endpoints(spec *federation.ShadowEndpointSliceSpec, path *field.Path) field.ErrorList {
	if len(spec.Endpoints) > maxEndpoints {
		return field.ErrorList{field.TooMany(path, len(spec.Endpoints), maxEndpoints)}
	}
	total := 0
	for _, endpoint := range spec.Endpoints {
		total += len(endpoint.Addresses)
	}
	if total > maxEndpointAddresses {
		return field.ErrorList{field.Forbidden(path,
			fmt.Sprintf("must have at most %d addresses in total", maxEndpointAddresses))}
	}
	var errs field.ErrorList
	for i, endpoint := range spec.Endpoints {
		at := path.Index(i)
		if len(endpoint.Addresses) == 0 {
			errs = append(errs, field.Required(at.Child("addresses"), "must have at least one address"))
		}
		for j, address := range endpoint.Addresses {
			errs = append(errs, EndpointAddress(address, spec.AddressType, at.Child("addresses").Index(j))...)
		}
		errs = append(errs, optional(ptr.Deref(endpoint.Hostname, ""), at.Child("hostname"), dnsLabel)...)
	}
	return errs
}

// EndpointAddress validates the address of an endpoint: a unicast address of the given family in
// canonical form, which is neither loopback nor link-local.
func EndpointAddress(raw string, family discoveryv1.AddressType, path *field.Path) field.ErrorList {
	invalid := func(message string) field.ErrorList {
		return field.ErrorList{field.Invalid(path, truncate(raw), message)}
	}
	address, err := netip.ParseAddr(raw)
	if err != nil || address.Is4In6() || address.String() != raw {
		return invalid("must be an IP address in canonical form")
	}
	if address.Is4() != (family == discoveryv1.AddressTypeIPv4) {
		return invalid("must be of the family of addressType")
	}
	if errs := remoteAddress(address, invalid); len(errs) > 0 {
		return errs
	}
	if !address.IsGlobalUnicast() {
		return invalid("must be a unicast address")
	}
	return nil
}
