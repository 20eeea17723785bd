// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/apiserver/reflection"
)

// VirtualKubelet is how virtual kubelets are deployed.
type VirtualKubelet struct {
	// Image is that of their containers. Empty deploys none.
	Image string
	// PullPolicy is when nodes pull it: Always, IfNotPresent or Never.
	PullPolicy string
	// HomeServer is the URL at which offloaded pods reach the API server of this cluster.
	// Empty means that they do not reach it.
	HomeServer string
	// HomeThroughTunnels is whether providers reach its address only through the tunnels
	// to them.
	HomeThroughTunnels bool
	// ReflectedKinds are the kinds, in addition to the built-in ones, that they may read in
	// offloaded namespaces, each for example certificates.v1.cert-manager.io.
	ReflectedKinds []string
}

// flagReflectedKinds is the flag of VirtualKubelet.ReflectedKinds.
const flagReflectedKinds = "reflected-kinds"

// kinds returns ReflectedKinds, if they are valid.
func (v *VirtualKubelet) kinds() []metav1.GroupVersionResource {
	kinds, _ := reflection.ParseKinds(flagReflectedKinds, v.ReflectedKinds)
	return kinds
}

// AddFlags binds the deployment of virtual kubelets to flags.
func (v *VirtualKubelet) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&v.Image, "virtual-kubelet-image", v.Image,
		"Image of the virtual kubelets. Empty starts no virtual node.")
	fs.StringVar(&v.HomeServer, "home-server", v.HomeServer,
		"URL, for example https://192.0.2.7:6443, at which pods on providers reach the API server of this cluster. Empty "+
			"sends no tokens to providers.")
	fs.BoolVar(&v.HomeThroughTunnels, "home-through-tunnels", v.HomeThroughTunnels,
		"Pods on a provider with a tunnel reach the address of --home-server through the tunnel, by an address of "+
			"AddressPool external for each provider.")
	fs.StringVar(&v.PullPolicy, "virtual-kubelet-image-pull-policy", v.PullPolicy,
		"When nodes pull that image: Always, IfNotPresent or Never.")
	fs.StringSliceVar(&v.ReflectedKinds, flagReflectedKinds, v.ReflectedKinds,
		"Kinds, in addition to the built-in ones, that virtual kubelets may reflect to providers, for example "+
			"certificates.v1.cert-manager.io. ClusterRole federation-reflection has to allow them.")
}

// Validate returns every error of the flags.
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
		errs = append(errs, errors.New(
			"--home-through-tunnels requires --home-server with an address, for example https://10.96.0.1:443: "+
				"a name is resolved to the same address on both sides of a tunnel"))
	}
	return errs
}

// HomeAddress returns the address that providers reach through tunnels, which is invalid if
// they reach none.
func (v *VirtualKubelet) HomeAddress() netip.Addr {
	host, _, err := podspec.HomeServer(v.HomeServer)
	if err != nil || !v.HomeThroughTunnels {
		return netip.Addr{}
	}
	address, _ := netip.ParseAddr(host)
	return address
}
