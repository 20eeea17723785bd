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

// Names with these beginnings belong to the system, its distributions and this
// product. A twin called like the tenant namespace of a cluster to come would
// keep that cluster from peering.
var reservedPrefixes = []string{"kube-", "openshift-", tenantPrefix, peerPrefix}

var reservedNames = []string{"default", "liqo", "openshift"}

// Names that end those of hosts somewhere, beside the domains of the internet:
// what a cluster's DNS itself is made of, special names (RFC 6761, RFC 6762, RFC
// 7686, RFC 9476), and what is used inside of organisations (RFC 6762 appendix G;
// ICANN's name collision reports on corp, home and mail; internal).
var domains = []string{
	"cluster", "pod", "svc",
	"alt", "example", "invalid", "local", "localdomain", "localhost", "onion", "test",
	"corp", "home", "internal", "intranet", "lan", "mail", "private",
}

// RefuseRemoteNamespace returns an error if no remote namespace of a provider may have a
// name, which a consumer chose. own are the namespaces that the product is installed in.
func RefuseRemoteNamespace(name string, own ...string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("it is not a name for a namespace: %s", strings.Join(problems, ", "))
	}
	if slices.Contains(reservedNames, name) || slices.Contains(own, name) ||
		slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return fmt.Errorf("the provider keeps the name %s for itself: offload a namespace of another name", name)
	}
	if isDomain(name) {
		return fmt.Errorf("hosts have names that end in .%s, and pods of the provider would be led to Services of that namespace by them: offload with another name, as with the mapping DefaultName", name)
	}
	return nil
}

// isDomain reports whether names of hosts end in a name. To pods of a cluster
// whose DNS searches svc.cluster.local first, github.com is the Service github of
// the namespace com, if there is one.
func isDomain(name string) bool {
	if slices.Contains(domains, name) {
		return true
	}
	// Of some countries the list has what is below their domain alone.
	_, managed := publicsuffix.PublicSuffix("x." + name)
	return managed
}
