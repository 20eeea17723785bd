// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package naming

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
	"k8s.io/apimachinery/pkg/util/validation"
)

// reservedPrefixes are the prefixes of names that no remote namespace may have: namespaces of
// Kubernetes, of its distributions and of the federation. A remote namespace with the name of a tenant
// namespace would prevent a later peering.
var reservedPrefixes = []string{"kube-", "openshift-", tenantPrefix, peerPrefix}

var reservedNames = []string{"default", "liqo", "openshift"}

// domains are names that RefuseDomain refuses, because they are in use as top-level domains although they are not
// delegated on the internet: names of cluster DNS, special-use names (RFC 6761, RFC 6762, RFC 7686, RFC 9476), and
// names of private networks (RFC 6762 appendix G; ICANN's name collision reports on corp, home and mail; internal).
var domains = []string{
	"cluster", "pod", "svc",
	"alt", "example", "invalid", "local", "localdomain", "localhost", "onion", "test",
	"corp", "home", "internal", "intranet", "lan", "mail", "private",
}

// RefuseRemoteNamespace returns an error if no provider permits a remote namespace with this name, which a consumer
// chose. own are the namespaces of the provider's installation, whose names are refused too.
func RefuseRemoteNamespace(name string, own ...string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("the name of the namespace is invalid: %s", strings.Join(problems, ", "))
	}
	if IsReserved(name) || slices.Contains(own, name) {
		return fmt.Errorf("the name %s is reserved by providers: offload a namespace of another name", name)
	}
	return nil
}

// IsReserved reports whether a name of a namespace belongs to Kubernetes, its distributions or the federation.
func IsReserved(name string) bool {
	return slices.Contains(reservedNames, name) ||
		slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// RefuseDomain returns an error if the name of a namespace is a top-level domain or another public suffix. With
// svc.cluster.local in the DNS search list of pods, github.com would be resolved to the Service github in the namespace
// com. A provider permits such a name nevertheless if one of its patterns for names, for example in
// spec.incomingPolicy.remoteNamespaces of the ForeignCluster, is exactly this name.
func RefuseDomain(name string) error {
	if !isDomain(name) {
		return nil
	}
	return fmt.Errorf("the name %s is a top-level domain or has the form of one, so that Services of the namespace would "+
		"replace hosts of that domain in the cluster DNS of the provider: use another name, "+
		"for example by the mapping DefaultName, or "+
		"have the provider's administrator list it in spec.incomingPolicy.remoteNamespaces of the ForeignCluster", name)
}

// internationalPrefix is the prefix of domains that are not ASCII (RFC 5891).
const internationalPrefix = "xn--"

// isDomain reports whether a name is a top-level domain or another public suffix. It returns true for every name that
// begins with internationalPrefix, because such a top-level domain may be newer than the list of public suffixes.
func isDomain(name string) bool {
	if slices.Contains(domains, name) || strings.HasPrefix(name, internationalPrefix) {
		return true
	}
	// For some countries the list contains only second-level suffixes, so a subdomain is looked up.
	_, managed := publicsuffix.PublicSuffix("x." + name)
	return managed
}
