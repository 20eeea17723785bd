// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resources has a consumer request resources, accept offers, and run a virtual
// kubelet for each virtual node.
package resources

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
