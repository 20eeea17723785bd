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

// clearRefusal matches the output of kubectl for a refusal with a 4xx status.
var clearRefusal = regexp.MustCompile(
	`^(Error from server \((Invalid|BadRequest|Conflict|Forbidden|NotFound|MethodNotAllowed|AlreadyExists|` +
		`RequestEntityTooLarge|UnsupportedMediaType)\)|The \w+ .* is invalid)`)

// refusesBadInput sends invalid and malicious input. Each refusal must name the invalid part, and
// nothing may be stored.
func refusesBadInput(t *testing.T) {
	namespace := namespaceOn(t, rome)
	before := must(rome.Snapshot(t.Context()))(t)
	object := func(kind, name, fields string) string {
		return fmt.Sprintf(`{"apiVersion":"federation.liqo.io/v1alpha1","kind":%q,"metadata":{"name":%q},%s}`,
			kind, name, fields)
	}
	const raw = group + "foreignclusters/milan/peer"
	offloadPath := fmt.Sprintf("%snamespaces/%s/namespaceoffloadings/%%s/offload", group, namespace)
	long := strings.Repeat("a", 41)
	for _, test := range []struct {
		name string
		body string
		args []string
		// mentions is a text that the refusal must contain.
		mentions string
	}{
		{"a cluster name with capitals", object("ForeignCluster", "Milan", `"spec":{}`), nil, "metadata.name"},
		{"a cluster name of 41 characters", object("ForeignCluster", long, `"spec":{}`), nil, "metadata.name"},
		{"a cluster name with dots", object("ForeignCluster", "milan.north", `"spec":{}`), nil, "metadata.name"},
		{"an invalid cluster ID", object("ForeignCluster", "milan", `"spec":{"clusterID":"milan"}`), nil, "spec.clusterID"},
		{"an unknown intent", object("ForeignCluster", "milan", `"spec":{"outgoing":"Perhaps"}`), nil, "spec.outgoing"},
		{"a server without TLS", object("ForeignCluster", "milan", `"spec":{"server":"http://10.0.0.1:6443"}`), nil, "spec.server"},
		{"a server that is not a URL", object("ForeignCluster", "milan", `"spec":{"server":"10.0.0.1"}`), nil, "spec.server"},
		{"a server with a password", object("ForeignCluster", "milan", `"spec":{"server":"https://u:p@10.0.0.1"}`), nil, "spec.server"},
		{"an invalid CA bundle", object("ForeignCluster", "milan", `"spec":{"caBundle":"bm90aGluZw=="}`), nil, "spec.caBundle"},
		{"a negative amount", object("ForeignCluster", "milan", `"spec":{"resources":{"cpu":"-1"}}`), nil, "spec.resources"},
		{"a negative time", object("ForeignCluster", "milan", `"spec":{"disconnectTimeoutSeconds":-1}`), nil, "spec.disconnectTimeoutSeconds"},
		{"an unknown field", object("ForeignCluster", "milan", `"spec":{"colour":"red"}`), []string{"--validate=strict"}, "colour"},
		{"a field of another type", object("ForeignCluster", "milan", `"spec":{"clusterID":7}`), []string{"--validate=false"}, "clusterID"},
		{"a token for a second", object("PeeringToken", "short", `"spec":{"expirationSeconds":1}`), nil, "spec.expirationSeconds"},
		{"a token for a year", object("PeeringToken", "long", `"spec":{"expirationSeconds":31536000}`), nil, "spec.expirationSeconds"},
		{"a token without a peer", object("PeeringToken", "unknown", `"spec":{"consumerClusterID":"unknown"}`), nil, "spec.consumerClusterID"},
		{"an offloading of another name", object("NamespaceOffloading", "mine", `"spec":{}`), []string{"-n", namespace}, "metadata.name"},
		{"an unknown mapping strategy", object("NamespaceOffloading", "offloading", `"spec":{"namespaceMappingStrategy":"Any"}`), []string{"-n", namespace}, "spec.namespaceMappingStrategy"},
		{"an invalid selector", object("NamespaceOffloading", "offloading", `"spec":{"clusterSelector":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a b","operator":"Is"}]}]}}`), []string{"-n", namespace}, "spec.clusterSelector"},
		{"an unknown enforcement", object("NamespaceOffloading", "offloading", `"spec":{"enforcement":"Kill"}`), []string{"-n", namespace}, "spec.enforcement"},
		{"a remote namespace of 64 characters", object("NamespaceOffloading", "offloading", fmt.Sprintf(`"spec":{"namespaceMappingStrategy":"SelectedName","remoteNamespaceName":%q}`, strings.Repeat("a", 64))), []string{"-n", namespace}, "spec.remoteNamespaceName"},
		{"an offloading of kube-system", object("NamespaceOffloading", "offloading", `"spec":{}`), []string{"-n", "kube-system"}, "kube-system"},
		{"an offloading of a namespace that does not exist", object("NamespaceOffloading", "offloading", `"spec":{}`), []string{"-n", "nowhere"}, "nowhere"},
		{"a peering without a server", object("Peering", "milan", `"spec":{"token":"x"}`), []string{"--raw", raw}, "spec.server"},
		{"a peering without a token", object("Peering", "milan", `"spec":{"server":"https://10.0.0.1"}`), []string{"--raw", raw}, "spec.token"},
		{"a peering of another name", object("Peering", "turin", `"spec":{"server":"https://10.0.0.1","token":"x"}`), []string{"--raw", raw}, "turin"},
		{"an object of another kind as a peering", object("Offload", "milan", `"spec":{}`), []string{"--raw", raw}, "Offload"},
		{"no JSON", "{", []string{"--raw", raw}, ""},
		{"an offload of another name", `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"Offload","spec":{}}`, []string{"--raw", fmt.Sprintf(offloadPath, "mine")}, "offloading"},
		{"an invalid offload", `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"Offload","spec":{"podOffloadingStrategy":"Never"}}`, []string{"--raw", fmt.Sprintf(offloadPath, "offloading")}, "spec.podOffloadingStrategy"},
		{"an invitation of a token that does not exist", `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"Invitation"}`, []string{"--raw", group + "peeringtokens/nothing/invitation"}, "nothing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := rome.KubectlInput(t.Context(), test.body, append([]string{"create", "-f", "-"}, test.args...)...)
			switch {
			case result.Code != 1:
				t.Errorf("kubectl ended with %d: %s%s", result.Code, result.Stdout, result.Stderr)
			case !clearRefusal.MatchString(result.Stderr):
				t.Errorf("the refusal is unclear: %s", result.Stderr)
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
		if got := kubectl(t, rome, "get", "fc", "bad-input", "-o",
			"jsonpath={.status.outgoingPeering}"); got == "Established" {
			t.Error("a user wrote the status")
		}
		kubectl(t, rome, "patch", "fc", "bad-input", "--subresource=status", "--type=merge", "-p",
			`{"spec":{"outgoing":"Enabled"}}`)
		if got := kubectl(t, rome, "get", "fc", "bad-input", "-o", "jsonpath={.spec.outgoing}"); got != "Disabled" {
			t.Errorf("through the status, spec.outgoing became %q", got)
		}
	})
}
