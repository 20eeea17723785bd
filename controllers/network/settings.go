// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

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
)

// Settings are what an administrator says of this cluster's network.
type Settings struct {
	// ExternalCIDRs are where addresses live that stand for what is no pod here,
	// at most one of a family. Without any this cluster takes some of the pool;
	// NoExternalCIDRs alone has it take none.
	ExternalCIDRs []string
	// PoolCIDRs are what the ranges of other clusters are mapped to if they
	// conflict.
	PoolCIDRs []string
	// PeerCIDRs bound which ranges other clusters may have at all: who could
	// announce any address would be sent what is meant for the internet.
	PeerCIDRs []string
	// Endpoints are where this cluster's gateway is called, host:port, the best
	// first.
	Endpoints []string
	// GatewayService tells that a Service leads to the gateway. Without Endpoints
	// it is called where that is reached.
	GatewayService bool
	// MTU is the most that a packet may measure inside of a tunnel, in bytes; 0
	// leaves it to what the gateway finds of the network of its node.
	MTU int32
}

// poolIPv6 is where IPv6 ranges of other clusters are mapped to: beside the
// control addresses of gateways, which fd6c:6971:6f00::/48 has.
const poolIPv6 = "fd6c:6971:8000::/33"

// DefaultSettings are those where nobody says otherwise.
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
		{&s.ExternalCIDRs, "network-external-cidrs", "CIDRs, at most one of IPv4 and one of IPv6, where addresses live that other clusters call what is no pod here by. Nothing else may be in them. Without any this cluster takes one of each family that pods have; None has it take none."},
		{&s.PoolCIDRs, "network-pool-cidrs", "CIDRs that those of other clusters are mapped to where they conflict: those of AddressPool default, unless it is yours."},
		{&s.PeerCIDRs, "network-peer-cidrs", "CIDRs that the ranges of other clusters must lie in: who could announce any would be sent what is meant for the internet."},
		{&s.Endpoints, "network-endpoints", "Where this cluster's gateway is called, host:port over UDP, the best first. Without any it is called where its Service is reached, and where it has none it calls the others."},
	} {
		fs.StringSliceVar(flag.value, flag.name, *flag.value, flag.usage)
	}
	fs.BoolVar(&s.GatewayService, "network-gateway-service", s.GatewayService, "Keep the EndpointSlice of Service liqo-gateway in the installation namespace, and learn from it where the gateway is called.")
	fs.Int32Var(&s.MTU, "network-mtu", s.MTU, "The most that a packet may measure inside of a tunnel, in bytes, 1280 to 65535; 0 leaves it to what the gateway finds of the network of its node.")
}

// Validate tells everything that is wrong at once.
func (s *Settings) Validate() []error {
	var errs []error
	tell := func(what string, wrong field.ErrorList) {
		for _, err := range wrong {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	tell("--network-external-cidrs, --network-endpoints, --network-mtu",
		validation.ValidateNetworkConfigSpec(s.config(someID, somePublicKey, []string{somePods})))
	pool := &federation.AddressPool{Spec: federation.AddressPoolSpec{CIDRs: s.PoolCIDRs}}
	pool.Name = v1alpha1.DefaultAddressPool
	tell("--network-pool-cidrs", validation.ValidateAddressPool(pool))
	for _, text := range s.PeerCIDRs {
		if _, err := netip.ParsePrefix(text); err != nil {
			errs = append(errs, fmt.Errorf("--network-peer-cidrs %q: must be a CIDR, as 10.0.0.0/8", text))
		}
	}
	if len(s.PeerCIDRs) == 0 {
		errs = append(errs, errors.New("--network-peer-cidrs: must name a CIDR, as 10.0.0.0/8"))
	}
	return errs
}

// someID, somePods and somePublicKey replace what is known later only.
const (
	someID   = "00000000-0000-4000-8000-000000000000"
	somePods = "192.0.2.0/24"
)

var somePublicKey = base64.StdEncoding.EncodeToString(append(make([]byte, 31), 1))

// config is what is said of this cluster's network.
func (s *Settings) config(clusterID, publicKey string, pods []string) *federation.NetworkConfigSpec {
	return &federation.NetworkConfigSpec{
		ClusterID: clusterID, PodCIDRs: pods, ExternalCIDRs: s.External(), PublicKey: publicKey, Endpoints: s.Endpoints, MTU: s.MTU,
	}
}

// takesExternal tells whether this cluster takes external CIDRs for itself.
func (s *Settings) takesExternal() bool { return len(s.ExternalCIDRs) == 0 }

// External returns the external CIDRs that an administrator names.
func (s *Settings) External() []string {
	if slices.Equal(s.ExternalCIDRs, []string{NoExternalCIDRs}) {
		return nil
	}
	return s.ExternalCIDRs
}

// mayHave tells whether another cluster may have a range at all.
func (s *Settings) mayHave(text string) bool {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(s.PeerCIDRs, func(text string) bool {
		within, err := netip.ParsePrefix(text)
		return err == nil && within.Bits() <= prefix.Bits() && within.Contains(prefix.Addr())
	})
}
