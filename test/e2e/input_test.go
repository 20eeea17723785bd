// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/federation/test/harness"
)

// clearRefusal is how kubectl shows a 4xx of the server.
var clearRefusal = regexp.MustCompile(`^(Error from server \((Invalid|BadRequest|Conflict|Forbidden|NotFound|MethodNotAllowed|AlreadyExists|RequestEntityTooLarge|UnsupportedMediaType)\)|The \w+ .* is invalid)`)

// refusesBadInput sends what a hurried or a hostile person would. Each gets a
// clear answer that names what is wrong, and leaves nothing behind.
func refusesBadInput(t *testing.T) {
	namespace := namespaceOn(t, rome)
	before := must(rome.Snapshot(t.Context()))(t)
	object := func(kind, name, fields string) string {
		return fmt.Sprintf(`{"apiVersion":"federation.liqo.io/v1alpha1","kind":%q,"metadata":{"name":%q},%s}`, kind, name, fields)
	}
	const raw = group + "foreignclusters/milan/peer"
	offloadPath := fmt.Sprintf("%snamespaces/%s/namespaceoffloadings/%%s/offload", group, namespace)
	long := strings.Repeat("a", 41)
	for _, test := range []struct {
		name string
		body string
		args []string
		// mentions is what the answer has to name.
		mentions string
	}{
		{"a cluster name with capitals", object("ForeignCluster", "Milan", `"spec":{}`), nil, "metadata.name"},
		{"a cluster name of 41 characters", object("ForeignCluster", long, `"spec":{}`), nil, "metadata.name"},
		{"a cluster name with dots", object("ForeignCluster", "milan.north", `"spec":{}`), nil, "metadata.name"},
		{"a cluster id that is none", object("ForeignCluster", "milan", `"spec":{"clusterID":"milan"}`), nil, "spec.clusterID"},
		{"an intent of no meaning", object("ForeignCluster", "milan", `"spec":{"outgoing":"Perhaps"}`), nil, "spec.outgoing"},
		{"a server without TLS", object("ForeignCluster", "milan", `"spec":{"server":"http://10.0.0.1:6443"}`), nil, "spec.server"},
		{"a server that is no URL", object("ForeignCluster", "milan", `"spec":{"server":"10.0.0.1"}`), nil, "spec.server"},
		{"a server with a password", object("ForeignCluster", "milan", `"spec":{"server":"https://u:p@10.0.0.1"}`), nil, "spec.server"},
		{"a CA that is none", object("ForeignCluster", "milan", `"spec":{"caBundle":"bm90aGluZw=="}`), nil, "spec.caBundle"},
		{"a negative amount", object("ForeignCluster", "milan", `"spec":{"resources":{"cpu":"-1"}}`), nil, "spec.resources"},
		{"a negative time", object("ForeignCluster", "milan", `"spec":{"disconnectTimeoutSeconds":-1}`), nil, "spec.disconnectTimeoutSeconds"},
		{"an unknown field", object("ForeignCluster", "milan", `"spec":{"colour":"red"}`), []string{"--validate=strict"}, "colour"},
		{"a field of another type", object("ForeignCluster", "milan", `"spec":{"clusterID":7}`), []string{"--validate=false"}, "clusterID"},
		{"a token for a second", object("PeeringToken", "short", `"spec":{"expirationSeconds":1}`), nil, "spec.expirationSeconds"},
		{"a token for a year", object("PeeringToken", "long", `"spec":{"expirationSeconds":31536000}`), nil, "spec.expirationSeconds"},
		{"a token for nobody", object("PeeringToken", "nobody", `"spec":{"consumerClusterID":"nobody"}`), nil, "spec.consumerClusterID"},
		{"an offloading of another name", object("NamespaceOffloading", "mine", `"spec":{}`), []string{"-n", namespace}, "metadata.name"},
		{"a mapping of no meaning", object("NamespaceOffloading", "offloading", `"spec":{"namespaceMappingStrategy":"Any"}`), []string{"-n", namespace}, "spec.namespaceMappingStrategy"},
		{"a selector of no meaning", object("NamespaceOffloading", "offloading", `"spec":{"clusterSelector":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a b","operator":"Is"}]}]}}`), []string{"-n", namespace}, "spec.clusterSelector"},
		{"an enforcement of no meaning", object("NamespaceOffloading", "offloading", `"spec":{"enforcement":"Kill"}`), []string{"-n", namespace}, "spec.enforcement"},
		{"a twin of 64 characters", object("NamespaceOffloading", "offloading", fmt.Sprintf(`"spec":{"namespaceMappingStrategy":"SelectedName","remoteNamespaceName":%q}`, strings.Repeat("a", 64))), []string{"-n", namespace}, "spec.remoteNamespaceName"},
		{"an offloading of kube-system", object("NamespaceOffloading", "offloading", `"spec":{}`), []string{"-n", "kube-system"}, "kube-system"},
		{"an offloading of a namespace that is not there", object("NamespaceOffloading", "offloading", `"spec":{}`), []string{"-n", "nowhere"}, "nowhere"},
		{"a peering without a server", object("Peering", "milan", `"spec":{"token":"x"}`), []string{"--raw", raw}, "spec.server"},
		{"a peering without a token", object("Peering", "milan", `"spec":{"server":"https://10.0.0.1"}`), []string{"--raw", raw}, "spec.token"},
		{"a peering of another name", object("Peering", "turin", `"spec":{"server":"https://10.0.0.1","token":"x"}`), []string{"--raw", raw}, "turin"},
		{"a peering that is something else", object("Offload", "milan", `"spec":{}`), []string{"--raw", raw}, "Offload"},
		{"no JSON", "{", []string{"--raw", raw}, ""},
		{"an offload of another name", `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"Offload","spec":{}}`, []string{"--raw", fmt.Sprintf(offloadPath, "mine")}, "offloading"},
		{"an offload of no meaning", `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"Offload","spec":{"podOffloadingStrategy":"Never"}}`, []string{"--raw", fmt.Sprintf(offloadPath, "offloading")}, "spec.podOffloadingStrategy"},
		{"an invitation of a token that is not there", `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"Invitation"}`, []string{"--raw", group + "peeringtokens/nothing/invitation"}, "nothing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := rome.KubectlInput(t.Context(), test.body, append([]string{"create", "-f", "-"}, test.args...)...)
			switch {
			case result.Code != 1:
				t.Errorf("kubectl ended with %d: %s%s", result.Code, result.Stdout, result.Stderr)
			case !clearRefusal.MatchString(result.Stderr):
				t.Errorf("this is no clear refusal: %s", result.Stderr)
			case !strings.Contains(result.Stderr, test.mentions):
				t.Errorf("the answer does not mention %q: %s", test.mentions, result.Stderr)
			}
		})
	}
	if diff := cmp.Diff([]string(nil), harness.Added(before, must(rome.Snapshot(t.Context()))(t))); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}

	t.Run("a status through the main resource", func(t *testing.T) {
		manifest := object("ForeignCluster", "bad-input", `"spec":{},"status":{"outgoingPeering":"Established"}`)
		isApplied(t, rome, manifest)
		defer kubectl(t, rome, "delete", "fc", "bad-input")
		if got := kubectl(t, rome, "get", "fc", "bad-input", "-o", "jsonpath={.status.outgoingPeering}"); got == "Established" {
			t.Error("a user wrote the status")
		}
		kubectl(t, rome, "patch", "fc", "bad-input", "--subresource=status", "--type=merge", "-p", `{"spec":{"outgoing":"Enabled"}}`)
		if got := kubectl(t, rome, "get", "fc", "bad-input", "-o", "jsonpath={.spec.outgoing}"); got != "Disabled" {
			t.Errorf("through the status, spec.outgoing became %q", got)
		}
	})
}
