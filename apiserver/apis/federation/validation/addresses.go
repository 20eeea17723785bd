// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	// MaxReservedCIDRs is the maximum number of entries in spec.reserved of an AddressPool.
	MaxReservedCIDRs = 256
	// MaxKeepCIDRs is the maximum number of entries in spec.keepCIDRs of a ForeignCluster.
	MaxKeepCIDRs = 32
)

const (
	maxCIDRs = 64
	// maxCIDR is the length of the longest address or CIDR, in characters.
	maxCIDR = 43
	// shortestPrefix is the minimum prefix length of a CIDR. Routes for a larger CIDR would
	// redirect a large part of all traffic.
	shortestPrefix = 8
)

// unroutable are ranges that cannot be the source or destination of packets between clusters.
var unroutable = []struct {
	prefix netip.Prefix
	name   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved or broadcast"},
	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("::ffff:0:0/96"), "IPv4-mapped"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

// ValidateAddressPool validates a new address pool.
func ValidateAddressPool(pool *federation.AddressPool) field.ErrorList {
	errs := clusterMetadata(pool, false)
	return append(errs, addressPoolSpec(&pool.Spec)...)
}

// ValidateAddressPoolUpdate validates an update of an address pool.
func ValidateAddressPoolUpdate(pool, old *federation.AddressPool) field.ErrorList {
	errs := metadataUpdate(pool, old)
	return append(errs, addressPoolSpec(&pool.Spec)...)
}

// ValidateAddressPoolStatusUpdate validates an update of the status of an address pool.
func ValidateAddressPoolStatusUpdate(pool, old *federation.AddressPool) field.ErrorList {
	errs := metadataUpdate(pool, old)
	errs = append(errs, notNegative(pool.Status.ObservedGeneration, statusPath.Child("observedGeneration"))...)
	errs = append(errs, notNegative(pool.Status.Mappings, statusPath.Child("mappings"))...)
	path := statusPath.Child("cidrs")
	if len(pool.Status.CIDRs) > maxCIDRs {
		return append(errs, field.TooMany(path, len(pool.Status.CIDRs), maxCIDRs))
	}
	seen := map[string]bool{}
	for i, status := range pool.Status.CIDRs {
		at := path.Index(i)
		if seen[status.CIDR] {
			errs = append(errs, field.Duplicate(at.Child("cidr"), truncate(status.CIDR)))
		}
		seen[status.CIDR] = true
		_, wrong := cidr(status.CIDR, at.Child("cidr"))
		errs = append(errs, wrong...)
		errs = append(errs, optional(status.LargestFree, at.Child("largestFree"), cidrForm)...)
		if status.UsedPercent < 0 || status.UsedPercent > 100 {
			errs = append(errs, field.Invalid(at.Child("usedPercent"), status.UsedPercent, "must be 0 to 100"))
		}
	}
	return errs
}

func addressPoolSpec(spec *federation.AddressPoolSpec) field.ErrorList {
	path := specPath.Child("cidrs")
	if len(spec.CIDRs) == 0 {
		errs := field.ErrorList{field.Required(path, "must contain at least one CIDR, for example 10.0.0.0/8")}
		return append(errs, cidrs(spec.Reserved, MaxReservedCIDRs, true, specPath.Child("reserved"))...)
	}
	errs := cidrs(spec.CIDRs, maxCIDRs, false, path)
	return append(errs, cidrs(spec.Reserved, MaxReservedCIDRs, true, specPath.Child("reserved"))...)
}

// ValidateAddressMapping validates a new address mapping. If spec.mapped is empty, the API server
// allocates it.
func ValidateAddressMapping(mapping *federation.AddressMapping) field.ErrorList {
	errs := metadata(mapping, true)
	spec := &mapping.Spec
	errs = append(errs, requiredClusterID(spec.ClusterID, specPath.Child("clusterID"))...)
	errs = append(errs, dnsLabel(spec.Pool, specPath.Child("pool"))...)
	switch {
	case spec.CIDR == "" && spec.Address == "":
		return append(errs, field.Required(specPath.Child("cidr"), "must be set if address is empty"))
	case spec.CIDR != "" && spec.Address != "":
		return append(errs, field.Forbidden(specPath.Child("address"), "must be empty if cidr is set"))
	}
	check, path, text := cidr, specPath.Child("cidr"), spec.CIDR
	if spec.Address != "" {
		check, path, text = address, specPath.Child("address"), spec.Address
	}
	source, wrong := check(text, path)
	errs = append(errs, wrong...)
	if spec.Remap && spec.Address != "" {
		errs = append(errs, field.Forbidden(specPath.Child("remap"), "may only be set with cidr"))
	}
	errs = append(errs, mappingPorts(spec)...)
	if requiresPorts(mapping) && len(spec.Ports) == 0 {
		errs = append(errs, noPorts())
	}
	if spec.Mapped == "" {
		return errs
	}
	mapped, wrongMapped := check(spec.Mapped, specPath.Child("mapped"))
	errs = append(errs, wrongMapped...)
	if len(wrong) == 0 && len(wrongMapped) == 0 &&
		(mapped.Bits() != source.Bits() || mapped.Addr().BitLen() != source.Addr().BitLen()) {
		errs = append(errs, field.Invalid(specPath.Child("mapped"), spec.Mapped,
			"must have the address family and the prefix length of "+source.String()))
	}
	return errs
}

// ValidateAddressMappingUpdate validates an update of an address mapping. Only metadata and
// spec.ports can change. An address without ports, which version v0.1.0 permitted, stays valid.
func ValidateAddressMappingUpdate(mapping, old *federation.AddressMapping) field.ErrorList {
	errs := metadataUpdate(mapping, old)
	errs = append(errs, mappingPorts(&mapping.Spec)...)
	if requiresPorts(mapping) && len(mapping.Spec.Ports) == 0 && len(old.Spec.Ports) > 0 {
		errs = append(errs, noPorts())
	}
	spec, before := mapping.Spec, old.Spec
	spec.Ports, before.Ports = nil, nil
	return append(errs, immutable(spec, before, specPath)...)
}

// requiresPorts reports whether a mapping must have ports. Mappings of pods, which the controllers
// create, have none, because a pod may listen on ports that no object names.
func requiresPorts(mapping *federation.AddressMapping) bool {
	ofPod := mapping.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy &&
		mapping.Annotations[v1alpha1.AnnotationOriginPod] != ""
	return mapping.Spec.Address != "" && !ofPod
}

func noPorts() *field.Error {
	return field.Required(specPath.Child("ports"),
		"must have the ports of address that the peer may connect to, for example [{protocol: TCP, port: 443}]")
}

// mappingPorts validates spec.ports of a mapping.
func mappingPorts(spec *federation.AddressMappingSpec) field.ErrorList {
	path := specPath.Child("ports")
	switch {
	case len(spec.Ports) > 0 && spec.Address == "":
		return field.ErrorList{field.Forbidden(path, "may only be set with address")}
	case len(spec.Ports) > v1alpha1.MaxAddressMappingPorts:
		return field.ErrorList{field.TooMany(path, len(spec.Ports), v1alpha1.MaxAddressMappingPorts)}
	}
	var errs field.ErrorList
	seen := map[federation.AddressMappingPort]bool{}
	for i, port := range spec.Ports {
		at := path.Index(i)
		errs = append(errs, oneOf(port.Protocol, at.Child("protocol"),
			corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
		for _, message := range utilvalidation.IsValidPortNum(int(port.Port)) {
			errs = append(errs, field.Invalid(at.Child("port"), port.Port, message))
		}
		if seen[port] {
			errs = append(errs, field.Duplicate(at, fmt.Sprintf("%s %d", truncate(string(port.Protocol)), port.Port)))
		}
		seen[port] = true
	}
	return errs
}

// KeepCIDRs validates spec.keepCIDRs of a ForeignCluster, or the flag --network-keep-cidrs, which
// applies to ForeignClusters without spec.keepCIDRs. The CIDRs may overlap.
func KeepCIDRs(list []string, path *field.Path) field.ErrorList {
	return cidrs(list, MaxKeepCIDRs, true, path)
}

// AnyCIDRs validates a list of CIDRs without host bits. In contrast to ValidateCIDR, their addresses
// need not be routable between clusters, for example 169.254.0.0/16 and 0.0.0.0/0.
func AnyCIDRs(list []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, text := range list {
		_, wrong := anyCIDR(text, path.Index(i))
		errs = append(errs, wrong...)
	}
	return errs
}

// cidrs validates a list of CIDRs. most is the maximum length of the list. If overlap is true, the
// CIDRs may overlap.
func cidrs(list []string, most int, overlap bool, path *field.Path) field.ErrorList {
	if len(list) > most {
		return field.ErrorList{field.TooMany(path, len(list), most)}
	}
	var errs field.ErrorList
	before := make([]netip.Prefix, 0, len(list))
	for i, text := range list {
		prefix, wrong := cidr(text, path.Index(i))
		if len(wrong) > 0 {
			errs = append(errs, wrong...)
			continue
		}
		for _, other := range before {
			if prefix == other {
				errs = append(errs, field.Duplicate(path.Index(i), text))
				break
			}
			if !overlap && prefix.Overlaps(other) {
				errs = append(errs, field.Invalid(path.Index(i), text, fmt.Sprintf("must not overlap %s", other)))
				break
			}
		}
		before = append(before, prefix)
	}
	return errs
}

// ValidateCIDR validates that text is a CIDR in canonical form, of at least prefix length 8, whose
// addresses can be routed between clusters.
func ValidateCIDR(text string, path *field.Path) field.ErrorList {
	_, errs := cidr(text, path)
	return errs
}

// cidr validates text like ValidateCIDR, and returns the parsed CIDR. The CIDR is the zero value if
// errors are returned.
func cidr(text string, path *field.Path) (netip.Prefix, field.ErrorList) {
	prefix, errs := anyCIDR(text, path)
	switch {
	case len(errs) > 0:
		return netip.Prefix{}, errs
	case prefix.Bits() < shortestPrefix:
		return netip.Prefix{}, field.ErrorList{field.Invalid(path, truncate(text),
			fmt.Sprintf("must have a prefix length of at least %d", shortestPrefix))}
	}
	return routable(prefix, prefix.String(), text, path)
}

// anyCIDR validates that text is a CIDR without host bits, and returns the parsed CIDR. The CIDR is
// the zero value if errors are returned.
func anyCIDR(text string, path *field.Path) (netip.Prefix, field.ErrorList) {
	invalid := func(message string) (netip.Prefix, field.ErrorList) {
		return netip.Prefix{}, field.ErrorList{field.Invalid(path, truncate(text), message)}
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case len(text) > maxCIDR || err != nil:
		return invalid("must be a CIDR, for example 10.1.0.0/16 or fd00:1::/64")
	case prefix != prefix.Masked():
		return invalid(fmt.Sprintf("must have no host bits, for example %s", prefix.Masked()))
	}
	return prefix, nil
}

// cidrForm returns the errors of cidr without the parsed CIDR, so that it can be an argument of the
// function optional.
func cidrForm(text string, path *field.Path) field.ErrorList {
	_, errs := cidr(text, path)
	return errs
}

// address validates that text is an IP address in canonical form that can be routed between
// clusters, and returns it as a prefix of full length.
func address(text string, path *field.Path) (netip.Prefix, field.ErrorList) {
	addr, err := netip.ParseAddr(text)
	if len(text) > maxCIDR || err != nil || addr.Zone() != "" {
		return netip.Prefix{}, field.ErrorList{field.Invalid(path, truncate(text),
			"must be an IP address without a zone, for example 10.1.2.3 or fd00:1::2")}
	}
	return routable(netip.PrefixFrom(addr, addr.BitLen()), addr.String(), text, path)
}

func routable(prefix netip.Prefix, form, text string, path *field.Path) (netip.Prefix, field.ErrorList) {
	for _, other := range unroutable {
		if prefix.Overlaps(other.prefix) {
			return netip.Prefix{}, field.ErrorList{field.Invalid(path, truncate(text),
				fmt.Sprintf("must not overlap %s (%s)", other.prefix, other.name))}
		}
	}
	if form != text {
		return netip.Prefix{}, field.ErrorList{field.Invalid(path, truncate(text), "must be in canonical form: "+form)}
	}
	return prefix, nil
}
