// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// MaxTunnelEndpoints is the maximum number of endpoints of a gateway.
const MaxTunnelEndpoints = 8

const (
	// publicKeySize is the size of a Curve25519 key, in bytes.
	publicKeySize = 32
	// minTunnelMTU is the minimum MTU of IPv6 links, and maxTunnelMTU the maximum size of an IP
	// packet, in bytes.
	minTunnelMTU = 1280
	maxTunnelMTU = 65535
)

// ValidateNetworkConfig validates a new network configuration.
func ValidateNetworkConfig(config *federation.NetworkConfig) field.ErrorList {
	errs := metadata(config, true)
	errs = append(errs, oneOf(config.Name, metadataPath.Child("name"),
		v1alpha1.NetworkConfigOfConsumer, v1alpha1.NetworkConfigOfProvider)...)
	errs = append(errs, peersMetadata(config.ObjectMeta)...)
	return append(errs, ValidateNetworkConfigSpec(&config.Spec)...)
}

// ValidateNetworkConfigUpdate validates an update of a network configuration.
func ValidateNetworkConfigUpdate(config, old *federation.NetworkConfig) field.ErrorList {
	errs := metadataUpdate(config, old)
	errs = append(errs, peersMetadata(config.ObjectMeta)...)
	errs = append(errs, ValidateNetworkConfigSpec(&config.Spec)...)
	return append(errs, immutable(config.Spec.ClusterID, old.Spec.ClusterID, specPath.Child("clusterID"))...)
}

// ValidateNetworkConfigStatusUpdate validates an update of the status of a network configuration.
func ValidateNetworkConfigStatusUpdate(config, old *federation.NetworkConfig) field.ErrorList {
	status := &config.Status
	errs := metadataUpdate(config, old)
	errs = append(errs, notNegative(status.ObservedGeneration, statusPath.Child("observedGeneration"))...)
	errs = append(errs, cidrMappings(status.CIDRs, statusPath.Child("cidrs"))...)
	return append(errs, conditions(status.Conditions, statusPath.Child("conditions"))...)
}

// ValidateNetworkConfigSpec validates the spec of a network configuration. The controllers also
// call this function, before they write the spec of the local cluster.
func ValidateNetworkConfigSpec(spec *federation.NetworkConfigSpec) field.ErrorList {
	errs := requiredClusterID(spec.ClusterID, specPath.Child("clusterID"))
	errs = append(errs, ownCIDRs(spec)...)
	errs = append(errs, optional(string(spec.Backend), specPath.Child("backend"), backend)...)
	return append(errs, tunnel(spec.PublicKey, spec.Endpoints, spec.MTU)...)
}

// maxBackend is the maximum length of the name of a backend, in bytes.
const maxBackend = 63

// backend validates the syntax of spec.backend. Unknown names are valid: the controllers refuse an
// unsupported backend in the condition Accepted.
func backend(name string, path *field.Path) field.ErrorList {
	others := func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') }
	if len(name) > maxBackend || strings.ContainsFunc(name, others) {
		return field.ErrorList{field.Invalid(path, truncate(name),
			fmt.Sprintf("must be at most %d letters and digits, for example WireGuard", maxBackend))}
	}
	return nil
}

// ownCIDRs validates podCIDRs and externalCIDRs, which must not overlap.
func ownCIDRs(spec *federation.NetworkConfigSpec) field.ErrorList {
	pods, external := specPath.Child("podCIDRs"), specPath.Child("externalCIDRs")
	if len(spec.PodCIDRs) == 0 {
		return field.ErrorList{field.Required(pods, "must contain at least one CIDR, for example 10.244.0.0/16")}
	}
	if total := len(spec.PodCIDRs) + len(spec.ExternalCIDRs); total > maxCIDRs {
		return field.ErrorList{field.TooMany(pods, total, maxCIDRs)}
	}
	errs := cidrs(spec.PodCIDRs, maxCIDRs, false, pods)
	errs = append(errs, cidrs(spec.ExternalCIDRs, maxCIDRs, false, external)...)
	families := map[bool]bool{}
	for i, text := range spec.ExternalCIDRs {
		prefix, wrong := cidr(text, external.Index(i))
		if len(wrong) > 0 {
			continue
		}
		if families[prefix.Addr().Is4()] {
			errs = append(errs, field.Forbidden(external.Index(i), "must be the only CIDR of its address family"))
		}
		families[prefix.Addr().Is4()] = true
		for _, text := range spec.PodCIDRs {
			if other, wrong := cidr(text, nil); len(wrong) == 0 && other.Overlaps(prefix) {
				errs = append(errs, field.Invalid(external.Index(i), prefix.String(),
					fmt.Sprintf("must not overlap %s of podCIDRs", other)))
			}
		}
	}
	return errs
}

// tunnel validates the public key, the endpoints and the MTU of a gateway.
func tunnel(key string, endpoints []string, mtu int32) field.ErrorList {
	errs := publicKey(key, specPath.Child("publicKey"))
	errs = append(errs, uniqueNames(endpoints, MaxTunnelEndpoints, specPath.Child("endpoints"), hostPort)...)
	errs = append(errs, tunnelMTU(mtu, specPath.Child("mtu"))...)
	return errs
}

// publicKey validates a WireGuard public key. Errors do not contain the value, since it may be a
// private key by mistake.
func publicKey(text string, path *field.Path) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(path, "must be the public key of the gateway")}
	}
	// Strict decoding ensures that each key has only one encoded form.
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(key) != publicKeySize || base64.StdEncoding.EncodeToString(key) != text {
		return field.ErrorList{field.Forbidden(path,
			fmt.Sprintf("must be %d bytes in base64, as printed by wg pubkey", publicKeySize))}
	}
	if [publicKeySize]byte(key) == [publicKeySize]byte{} {
		return field.ErrorList{field.Forbidden(path, "must not consist of zero bytes only")}
	}
	return nil
}

// ValidateEndpoint validates one endpoint of a gateway, host:port.
func ValidateEndpoint(text string) field.ErrorList {
	return hostPort(text, specPath.Child("endpoints"))
}

// hostPort validates an endpoint of a gateway: a host name or an address, and a port.
func hostPort(text string, path *field.Path) field.ErrorList {
	const form = "must be host:port, for example milan.example.org:51820, 192.0.2.1:51820 or [2001:db8::1]:51820"
	if len(text) > maxURL {
		return field.ErrorList{field.TooLong(path, "", maxURL)}
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return field.ErrorList{field.Invalid(path, truncate(text), form)}
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 || strconv.FormatUint(number, 10) != port || net.JoinHostPort(host, port) != text {
		return field.ErrorList{field.Invalid(path, truncate(text), form)}
	}
	if _, err := netip.ParseAddr(host); err == nil {
		_, errs := address(host, path)
		return errs
	}
	return remoteHost(host, path)
}

// ValidateCIDRMappings validates status.cidrs of a network configuration.
func ValidateCIDRMappings(list []federation.CIDRMapping) field.ErrorList {
	return cidrMappings(list, statusPath.Child("cidrs"))
}

// cidrMappings validates a list of CIDRs, each with the CIDR that replaces it. Neither two CIDRs in
// field cidr nor two in field mapped may overlap.
func cidrMappings(list []federation.CIDRMapping, path *field.Path) field.ErrorList {
	if len(list) > maxCIDRs {
		return field.ErrorList{field.TooMany(path, len(list), maxCIDRs)}
	}
	var errs field.ErrorList
	var ranges, mapped []netip.Prefix
	for i, mapping := range list {
		at := path.Index(i)
		from, wrong := disjoint(mapping.CIDR, ranges, at.Child("cidr"))
		to, wrongMapped := disjoint(mapping.Mapped, mapped, at.Child("mapped"))
		errs = append(append(errs, wrong...), wrongMapped...)
		if len(wrong) == 0 {
			ranges = append(ranges, from)
		}
		if len(wrongMapped) == 0 {
			mapped = append(mapped, to)
		}
		if len(wrong) == 0 && len(wrongMapped) == 0 && (from.Bits() != to.Bits() || from.Addr().Is4() != to.Addr().Is4()) {
			errs = append(errs, field.Invalid(at.Child("mapped"), mapping.Mapped,
				"must have the address family and the prefix length of "+mapping.CIDR))
		}
	}
	return errs
}

// disjoint validates a CIDR that must not overlap any of the others, and returns the parsed CIDR.
func disjoint(text string, others []netip.Prefix, path *field.Path) (netip.Prefix, field.ErrorList) {
	prefix, errs := cidr(text, path)
	if len(errs) > 0 {
		return prefix, errs
	}
	for _, other := range others {
		if prefix.Overlaps(other) {
			return prefix, field.ErrorList{field.Invalid(path, text, fmt.Sprintf("must not overlap %s", other))}
		}
	}
	return prefix, nil
}

// ValidateTunnelEndpoint validates a new tunnel endpoint.
func ValidateTunnelEndpoint(endpoint *federation.TunnelEndpoint) field.ErrorList {
	errs := clusterMetadata(endpoint, true)
	return append(errs, tunnelEndpointSpec(&endpoint.Spec)...)
}

// ValidateTunnelEndpointUpdate validates an update of a tunnel endpoint. spec.clusterID cannot
// change.
func ValidateTunnelEndpointUpdate(endpoint, old *federation.TunnelEndpoint) field.ErrorList {
	errs := metadataUpdate(endpoint, old)
	errs = append(errs, tunnelEndpointSpec(&endpoint.Spec)...)
	return append(errs, immutable(endpoint.Spec.ClusterID, old.Spec.ClusterID, specPath.Child("clusterID"))...)
}

// ValidateTunnelEndpointStatusUpdate validates an update of the status of a tunnel endpoint.
func ValidateTunnelEndpointStatusUpdate(endpoint, old *federation.TunnelEndpoint) field.ErrorList {
	status := &endpoint.Status
	errs := metadataUpdate(endpoint, old)
	errs = append(errs, notNegative(status.ObservedGeneration, statusPath.Child("observedGeneration"))...)
	errs = append(errs, oneOf(status.Phase, statusPath.Child("phase"), "",
		federation.TunnelConnecting, federation.TunnelConnected, federation.TunnelError)...)
	errs = append(errs, optional(status.Endpoint, statusPath.Child("endpoint"), sourceAddress)...)
	errs = append(errs, optional(status.Gateway, statusPath.Child("gateway"), subdomain)...)
	errs = append(errs, optional(status.PublicKey, statusPath.Child("publicKey"), publicKey)...)
	errs = append(errs, tunnelMTU(status.MTU, statusPath.Child("mtu"))...)
	errs = append(errs, oneOf(status.Implementation, statusPath.Child("implementation"), "",
		v1alpha1.WireGuardKernel, v1alpha1.WireGuardGo)...)
	errs = append(errs, notNegative(status.LatencyMicroseconds, statusPath.Child("latencyMicroseconds"))...)
	if loss := status.LossPercent; loss < 0 || loss > 100 {
		errs = append(errs, field.Invalid(statusPath.Child("lossPercent"), loss, "must be 0 to 100"))
	}
	errs = append(errs, tunnelMTU(status.PathMTU, statusPath.Child("pathMTU"))...)
	return append(errs, conditions(status.Conditions, statusPath.Child("conditions"))...)
}

// tunnelMTU validates the MTU inside a tunnel: 1280 to 65535, or 0 for unknown.
func tunnelMTU(mtu int32, path *field.Path) field.ErrorList {
	if mtu != 0 && (mtu < minTunnelMTU || mtu > maxTunnelMTU) {
		return field.ErrorList{field.Invalid(path, mtu, fmt.Sprintf("must be %d to %d, or 0", minTunnelMTU, maxTunnelMTU))}
	}
	return nil
}

// ValidateTunnelReach validates a new tunnel reach.
func ValidateTunnelReach(reach *federation.TunnelReach) field.ErrorList {
	errs := clusterMetadata(reach, true)
	return append(errs, tunnelReachSpec(&reach.Spec)...)
}

// ValidateTunnelReachUpdate validates an update of a tunnel reach. spec.clusterID cannot change.
func ValidateTunnelReachUpdate(reach, old *federation.TunnelReach) field.ErrorList {
	errs := metadataUpdate(reach, old)
	errs = append(errs, tunnelReachSpec(&reach.Spec)...)
	return append(errs, immutable(reach.Spec.ClusterID, old.Spec.ClusterID, specPath.Child("clusterID"))...)
}

func tunnelReachSpec(spec *federation.TunnelReachSpec) field.ErrorList {
	errs := requiredClusterID(spec.ClusterID, specPath.Child("clusterID"))
	return append(errs, uniqueNames(spec.Addresses, v1alpha1.MaxTunnelReachAddresses, specPath.Child("addresses"),
		func(text string, path *field.Path) field.ErrorList {
			_, errs := address(text, path)
			return errs
		})...)
}

// reach validates the reach of a peer in the spec of an object.
func reach(mode federation.ReachMode) field.ErrorList {
	return oneOf(mode, specPath.Child("reach"), "", federation.ReachOffloaded, federation.ReachAll)
}

func tunnelEndpointSpec(spec *federation.TunnelEndpointSpec) field.ErrorList {
	errs := requiredClusterID(spec.ClusterID, specPath.Child("clusterID"))
	errs = append(errs, reach(spec.Reach)...)
	errs = append(errs, tunnel(spec.PublicKey, spec.Endpoints, spec.MTU)...)
	control := specPath.Child("control")
	for i, part := range spec.Control {
		errs = append(errs, oneOf(part, control.Index(i), federation.TunnelControlServe, federation.TunnelControlCall)...)
		if slices.Contains(spec.Control[:i], part) {
			errs = append(errs, field.Duplicate(control.Index(i), part))
		}
	}
	controlOnly := len(spec.Control) > 0 && len(spec.Local) == 0 && len(spec.Remote) == 0
	for _, side := range []struct {
		name string
		list []federation.CIDRMapping
	}{{"local", spec.Local}, {"remote", spec.Remote}} {
		if len(side.list) == 0 && !controlOnly {
			errs = append(errs, field.Required(specPath.Child(side.name), "must contain at least one mapping"))
		}
		errs = append(errs, cidrMappings(side.list, specPath.Child(side.name))...)
	}
	return errs
}

// sourceAddress validates address:port, from which packets of a gateway were received. Any address
// is valid.
func sourceAddress(text string, path *field.Path) field.ErrorList {
	if from, err := netip.ParseAddrPort(text); err != nil || from.Addr().Zone() != "" || from.String() != text {
		return field.ErrorList{field.Invalid(path, truncate(text),
			"must be address:port, for example 192.0.2.1:51820 or [2001:db8::1]:51820")}
	}
	return nil
}
