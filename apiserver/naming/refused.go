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

// reservedPrefixes are prefixes of namespaces of Kubernetes, its distributions and this product. A
// remote namespace with the name of a tenant namespace would prevent a later peering.
var reservedPrefixes = []string{"kube-", "openshift-", tenantPrefix, peerPrefix}

var reservedNames = []string{"default", "liqo", "openshift"}

// domains are top-level domains that are not delegated on the internet: names of cluster DNS, special
// names (RFC 6761, RFC 6762, RFC 7686, RFC 9476), and names that are used inside of organisations
// (RFC 6762 appendix G; ICANN's name collision reports on corp, home and mail; internal).
var domains = []string{
	"cluster", "pod", "svc",
	"alt", "example", "invalid", "local", "localdomain", "localhost", "onion", "test",
	"corp", "home", "internal", "intranet", "lan", "mail", "private",
}

// RefuseRemoteNamespace returns an error if no remote namespace of a provider may have a
// name, which a consumer chose. own are the namespaces that the product is installed in.
func RefuseRemoteNamespace(name string, own ...string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("the name of the namespace is invalid: %s", strings.Join(problems, ", "))
	}
	if slices.Contains(reservedNames, name) || slices.Contains(own, name) ||
		slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return fmt.Errorf("the name %s is reserved by providers: offload a namespace of another name", name)
	}
	if isDomain(name) {
		return fmt.Errorf("the name %s is a top-level domain, so that Services of the namespace would replace hosts of "+
			"that domain in the cluster DNS of the provider: use another name, for example by the mapping DefaultName", name)
	}
	return nil
}

// isDomain reports whether a name is a domain of hosts. The DNS search list of pods has
// svc.cluster.local, so github.com would be resolved to the Service github of a namespace com.
func isDomain(name string) bool {
	if slices.Contains(domains, name) {
		return true
	}
	// The list has only the subdomains of some countries.
	_, managed := publicsuffix.PublicSuffix("x." + name)
	return managed
}
