// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/netmap"
)

// Settings are the network settings of the local cluster, which an administrator sets by flags.
type Settings struct {
	// ExternalCIDRs are the CIDRs from which non-pod endpoints get addresses that peers can reach, at
	// most one of each IP family. If empty, they are allocated from PoolCIDRs. The single element
	// NoExternalCIDRs means that there are none.
	ExternalCIDRs []string
	// PoolCIDRs are the CIDRs to which ranges of peers are remapped if they are in use, or not within
	// KeepCIDRs.
	PoolCIDRs []string
	// PeerCIDRs are the CIDRs that must contain all ranges of peers. They prevent a peer from
	// announcing public addresses, and so from receiving traffic to the internet.
	PeerCIDRs []string
	// KeepCIDRs are the CIDRs within which ranges of peers are used unchanged if they are free, for
	// ForeignClusters without spec.keepCIDRs. If empty, the trust in the peer selects them.
	KeepCIDRs []string
	// Endpoints are the endpoints of the local gateway, host:port, the preferred one first. If empty, they are
	// derived from the gateway's Service.
	Endpoints []string
	// GatewayService is true if the gateway has a Service.
	GatewayService bool
	// MTU is the size of the largest packet inside of a tunnel in bytes; 0 means that the gateway
	// measures it.
	MTU int32
}

// flagKeepCIDRs is the name of the flag of KeepCIDRs.
const flagKeepCIDRs = "network-keep-cidrs"

// poolIPv6 is the CIDR to which IPv6 ranges of peers are remapped by default. It must not overlap
// fd6c:6971:6f00::/48, which has the control addresses of gateways.
const poolIPv6 = "fd6c:6971:8000::/33"

// DefaultSettings returns the defaults of the flags.
func DefaultSettings() Settings {
	return Settings{
		PoolCIDRs: []string{"10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12", poolIPv6},
		PeerCIDRs: []string{"10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12", "100.64.0.0/10", "fc00::/7"},
	}
}

// AddFlags binds the settings to flags.
func (s *Settings) AddFlags(fs *pflag.FlagSet) {
	for _, flag := range []struct {
		value *[]string
		name  string
		usage string
	}{
		{&s.ExternalCIDRs, "network-external-cidrs", "CIDRs, at most one of IPv4 and one of IPv6, " +
			"from which non-pod endpoints get addresses that peers can reach. Nothing else may use them. " +
			"If empty, one for each IP family of pods is allocated from --network-pool-cidrs. None means no external CIDRs."},
		{&s.PoolCIDRs, "network-pool-cidrs", "CIDRs to which ranges of peers are remapped if they are in use, " +
			"or outside of --network-keep-cidrs. They are written to AddressPool default, unless an administrator created it."},
		{&s.PeerCIDRs, "network-peer-cidrs", "CIDRs that ranges of peers must lie in: " +
			"a peer with any other range would receive traffic to the internet."},
		{&s.KeepCIDRs, flagKeepCIDRs, "CIDRs, at most 32, within which ranges of peers are used unchanged " +
			"if they are free, unless spec.keepCIDRs of a ForeignCluster is set. Other ranges are remapped. " +
			"If empty, ranges of peers with trust Tenant are always remapped, and those with SameOwner only if in use."},
		{&s.Endpoints, "network-endpoints",
			"Endpoints of this cluster's gateway, host:port over UDP, the preferred one first, " +
				"for example gateway.example.org:51820. If empty, they are derived from the gateway's Service; " +
				"without a Service, only this gateway can connect to the gateways of peers."},
	} {
		fs.StringSliceVar(flag.value, flag.name, *flag.value, flag.usage)
	}
	fs.BoolVar(&s.GatewayService, "network-gateway-service", s.GatewayService,
		"Write the EndpointSlice of Service federation-gateway in the installation namespace, "+
			"and use the addresses of that Service as endpoints of the gateway, unless --network-endpoints is set.")
	fs.Int32Var(&s.MTU, "network-mtu", s.MTU,
		"Largest packet inside of a tunnel in bytes, 1280 to 65535; "+
			"0 means that the gateway measures the MTU of its node's network.")
}

// Validate returns an error for each invalid flag.
func (s *Settings) Validate() []error {
	var errs []error
	add := func(flags string, invalid field.ErrorList) {
		for _, err := range invalid {
			errs = append(errs, fmt.Errorf("%s: %w", flags, err))
		}
	}
	add("--network-external-cidrs, --network-endpoints, --network-mtu",
		validation.ValidateNetworkConfigSpec(s.config(exampleID, examplePublicKey, []string{examplePods})))
	pool := &federation.AddressPool{Spec: federation.AddressPoolSpec{CIDRs: s.PoolCIDRs}}
	pool.Name = v1alpha1.DefaultAddressPool
	add("--network-pool-cidrs", validation.ValidateAddressPool(pool))
	for _, err := range validation.KeepCIDRs(s.KeepCIDRs, field.NewPath("--"+flagKeepCIDRs)) {
		errs = append(errs, err)
	}
	for _, err := range validation.AnyCIDRs(s.PeerCIDRs, field.NewPath("--network-peer-cidrs")) {
		errs = append(errs, err)
	}
	if len(s.PeerCIDRs) == 0 {
		errs = append(errs, errors.New("--network-peer-cidrs: must name a CIDR, for example 10.0.0.0/8"))
	}
	return errs
}

// exampleID, examplePods and examplePublicKey are valid values for the fields of a NetworkConfig that
// are unknown when settings are validated.
const (
	exampleID   = "00000000-0000-4000-8000-000000000000"
	examplePods = "192.0.2.0/24"
)

var examplePublicKey = base64.StdEncoding.EncodeToString(append(make([]byte, 31), 1))

// config returns the NetworkConfig that describes the local network.
func (s *Settings) config(clusterID, publicKey string, pods []string) *federation.NetworkConfigSpec {
	return &federation.NetworkConfigSpec{
		ClusterID: clusterID, PodCIDRs: pods, ExternalCIDRs: s.External(),
		PublicKey: publicKey, Endpoints: s.Endpoints, MTU: s.MTU,
	}
}

// takesExternal reports whether external CIDRs are allocated from PoolCIDRs.
func (s *Settings) takesExternal() bool { return len(s.ExternalCIDRs) == 0 }

// External returns the external CIDRs that the administrator set; none if they are allocated.
func (s *Settings) External() []string {
	if slices.Equal(s.ExternalCIDRs, []string{NoExternalCIDRs}) {
		return nil
	}
	return s.ExternalCIDRs
}

// permits reports whether one of PeerCIDRs contains a range of a peer.
func (s *Settings) permits(text string) bool { return within(s.PeerCIDRs, text) }

// within reports whether one of cidrs contains all addresses of a range.
func within(cidrs []string, text string) bool {
	prefix, err := netip.ParsePrefix(text)
	return err == nil && netmap.Covers(netmap.ParseCIDRs(cidrs), prefix)
}
