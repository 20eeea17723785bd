// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resources negotiates what is lent. A provider answers requests with
// offers that its policy allows; a consumer asks, accepts offers, and has a
// virtual kubelet run for each virtual node that it makes of them.
package resources

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Policy is what a provider lends, and how.
type Policy struct {
	// SharePercent is how much of what its nodes can run a cluster offers to
	// each consumer, 1 to 100.
	SharePercent int
	// AutoAccept grants requests, and accepts offers, without asking an
	// administrator.
	AutoAccept bool
	// Labels are the provider's own, for the consumers' virtual nodes.
	Labels map[string]string
	// StorageClasses, IngressClasses and LoadBalancerClasses are what
	// consumers' objects may name; the first of each is the default.
	StorageClasses, IngressClasses, LoadBalancerClasses []string
}

// DefaultPolicy lends 90 percent to whoever was invited.
func DefaultPolicy() Policy {
	return Policy{SharePercent: 90, AutoAccept: true}
}

// AddFlags binds the policy to flags.
func (p *Policy) AddFlags(fs *pflag.FlagSet) {
	fs.IntVar(&p.SharePercent, "share-percent", p.SharePercent, "Percentage of the allocatable resources of this cluster's nodes that each consumer is offered, 1 to 100.")
	fs.BoolVar(&p.AutoAccept, "auto-accept", p.AutoAccept, "Answer requests of invited consumers with an offer, and offers of providers with a virtual node. False waits for an administrator, who decides in spec.lending and spec.borrowing of the ForeignCluster.")
	fs.StringToStringVar(&p.Labels, "cluster-labels", p.Labels, "Labels that offers carry to the consumers' virtual nodes, as topology.liqo.io/region=north.")
	fs.StringSliceVar(&p.StorageClasses, "offer-storage-classes", p.StorageClasses, "Storage classes that consumers may name, the default first.")
	fs.StringSliceVar(&p.IngressClasses, "offer-ingress-classes", p.IngressClasses, "Ingress classes that consumers may name, the default first.")
	fs.StringSliceVar(&p.LoadBalancerClasses, "offer-load-balancer-classes", p.LoadBalancerClasses, "Load balancer classes that consumers may name, the default first.")
}

// Validate tells everything that is wrong at once.
func (p *Policy) Validate() []error {
	var errs []error
	if p.SharePercent < 1 || p.SharePercent > 100 {
		errs = append(errs, fmt.Errorf("--share-percent %d: must be between 1 and 100", p.SharePercent))
	}
	for key, value := range p.Labels {
		problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
		if len(problems) > 0 {
			errs = append(errs, fmt.Errorf("--cluster-labels %s=%s: %s", key, value, strings.Join(problems, "; ")))
		}
	}
	for flag, classes := range map[string][]string{
		"--offer-storage-classes": p.StorageClasses, "--offer-ingress-classes": p.IngressClasses,
	} {
		for _, class := range classes {
			if problems := validation.IsDNS1123Subdomain(class); len(problems) > 0 {
				errs = append(errs, fmt.Errorf("%s %q: %s", flag, class, strings.Join(problems, "; ")))
			}
		}
	}
	for _, class := range p.LoadBalancerClasses {
		if problems := validation.IsQualifiedName(class); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("--offer-load-balancer-classes %q: %s", class, strings.Join(problems, "; ")))
		}
	}
	return errs
}

// VirtualKubelet says how virtual kubelets are deployed.
type VirtualKubelet struct {
	// Image is what their containers run.
	Image string
	// PullPolicy is when nodes fetch it: Always, IfNotPresent or Never.
	PullPolicy string
}

// AddFlags binds the deployment of virtual kubelets to flags.
func (v *VirtualKubelet) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&v.Image, "virtual-kubelet-image", v.Image, "Image of the virtual kubelets. Without one no virtual node comes up.")
	fs.StringVar(&v.PullPolicy, "virtual-kubelet-image-pull-policy", v.PullPolicy, "When nodes fetch that image: Always, IfNotPresent or Never.")
}

// Validate tells everything that is wrong at once.
func (v *VirtualKubelet) Validate() []error {
	policies := []corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}
	if !slices.Contains(policies, corev1.PullPolicy(v.PullPolicy)) {
		return []error{fmt.Errorf("--virtual-kubelet-image-pull-policy %q: must be one of %v", v.PullPolicy, policies)}
	}
	if strings.ContainsAny(v.Image, " \t\n") {
		return []error{errors.New("--virtual-kubelet-image must not contain spaces")}
	}
	return nil
}
