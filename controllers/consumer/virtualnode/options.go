// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/apiserver/reflection"
)

// VirtualKubelet has the settings of the virtual kubelets that this controller deploys.
type VirtualKubelet struct {
	// Image is the container image of the virtual kubelets. If it is empty, none is deployed.
	Image string
	// PullPolicy is the pull policy of the image: Always, IfNotPresent or Never.
	PullPolicy string
	// MemoryLimit is the memory limit of each virtual kubelet, and so of the memory that responses of a provider can use.
	// 0 means no limit.
	MemoryLimit resource.QuantityValue
	// ConsumerAPIServer is the URL at which offloaded pods reach the API server of this cluster. If it
	// is empty, no tokens of this cluster are sent to providers.
	ConsumerAPIServer string
	// ConsumerAPIServerThroughTunnels is true if pods on providers with a tunnel reach ConsumerAPIServer through
	// that tunnel.
	ConsumerAPIServerThroughTunnels bool
	// ReflectedKinds are the kinds, in addition to the built-in ones, that virtual kubelets may read in offloaded
	// namespaces, for example certificates.v1.cert-manager.io.
	ReflectedKinds []string
}

// flagReflectedKinds is the name of the flag that sets VirtualKubelet.ReflectedKinds.
const flagReflectedKinds = "reflection-kinds"

// kinds returns the parsed ReflectedKinds. Validate has reported invalid ones.
func (v *VirtualKubelet) kinds() []metav1.GroupVersionResource {
	kinds, _ := reflection.ParseKinds(flagReflectedKinds, v.ReflectedKinds)
	return kinds
}

// AddFlags adds the flags that set v.
func (v *VirtualKubelet) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&v.Image, "virtual-kubelet-image", v.Image,
		"Image of the virtual kubelets. If empty, no virtual kubelet is deployed.")
	fs.StringVar(&v.ConsumerAPIServer, "consumer-api-server", v.ConsumerAPIServer,
		"URL, for example https://192.0.2.7:6443, at which pods on providers reach the API server of this cluster. "+
			"If empty, no tokens of ServiceAccounts are sent to providers.")
	fs.BoolVar(&v.ConsumerAPIServerThroughTunnels, "consumer-api-server-through-tunnels",
		v.ConsumerAPIServerThroughTunnels, "Let pods on providers that have a tunnel reach --consumer-api-server "+
			"through the tunnel. For each of these providers, an address is allocated from AddressPool external.")
	fs.StringVar(&v.PullPolicy, "virtual-kubelet-image-pull-policy", v.PullPolicy,
		"imagePullPolicy of the virtual kubelets: Always, IfNotPresent or Never.")
	fs.Var(&v.MemoryLimit, "virtual-kubelet-memory-limit",
		"Memory limit of each virtual kubelet, for example 512Mi. It also bounds the memory that responses of its "+
			"provider can take. 0 means no limit.")
	fs.StringSliceVar(&v.ReflectedKinds, flagReflectedKinds, v.ReflectedKinds,
		"Kinds, in addition to the built-in ones, that virtual kubelets may reflect to providers, for example "+
			"certificates.v1.cert-manager.io. ClusterRole federation-reflection must permit reading them.")
}

// Validate returns an error for each invalid flag.
func (v *VirtualKubelet) Validate() []error {
	_, errs := reflection.ParseKinds(flagReflectedKinds, v.ReflectedKinds)
	policies := []corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}
	if !slices.Contains(policies, corev1.PullPolicy(v.PullPolicy)) {
		errs = append(
			errs, fmt.Errorf("--virtual-kubelet-image-pull-policy %q: must be one of %v", v.PullPolicy, policies),
		)
	}
	if v.MemoryLimit.Sign() < 0 {
		errs = append(errs, fmt.Errorf("--virtual-kubelet-memory-limit %s: must not be negative", &v.MemoryLimit.Quantity))
	}
	if strings.ContainsAny(v.Image, " \t\n") {
		errs = append(errs, errors.New("--virtual-kubelet-image: must not contain spaces"))
	}
	if v.ConsumerAPIServer != "" {
		if _, _, err := podspec.ConsumerAPIServer(v.ConsumerAPIServer); err != nil {
			errs = append(errs, fmt.Errorf("--consumer-api-server: %w", err))
		}
	}
	if v.ConsumerAPIServerThroughTunnels && !v.ConsumerAPIServerAddress().IsValid() {
		errs = append(errs, errors.New(
			"--consumer-api-server-through-tunnels: requires --consumer-api-server with an address, for example "+
				"https://10.96.0.1:443: a name is resolved to the same address on both sides of a tunnel"))
	}
	return errs
}

// ConsumerAPIServerAddress returns the IP address and the port in ConsumerAPIServer if pods on providers reach it
// through tunnels, otherwise the zero value.
func (v *VirtualKubelet) ConsumerAPIServerAddress() netip.AddrPort {
	host, port, err := podspec.ConsumerAPIServer(v.ConsumerAPIServer)
	if err != nil || !v.ConsumerAPIServerThroughTunnels {
		return netip.AddrPort{}
	}
	address, _ := netip.ParseAddrPort(net.JoinHostPort(host, port))
	return address
}
