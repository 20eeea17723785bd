// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"liqo.io/federation/test/integration/framework"
)

const offloadingManifest = `
apiVersion: federation.liqo.io/v1alpha1
kind: NamespaceOffloading
metadata:
  name: offloading
spec:
  podOffloadingStrategy: Remote
`

// The description of each field must begin with the name of the field.
func TestKubectlExplainPrintsTheDocComments(t *testing.T) {
	env := framework.Get(t)
	for path, want := range map[string]string{
		"fc":                          "ForeignCluster ",
		"foreignclusters.spec.server": "server ",
		"foreignclusters.status.remoteTenantNamespace":  "remoteTenantNamespace ",
		"virtualnodes.status.conditions.reason":         "reason ",
		"virtualnodes.spec.reflection.kinds.policy":     "policy ",
		"namespaceoffloadings.spec.clusterSelector":     "clusterSelector ",
		"shadowpods.spec.pod.containers.image":          "Container image name",
		"shadowvolumeclaims.spec.storage":               "storage ",
		"shadowendpointslices.spec.endpoints.addresses": "addresses ",
		"resourceoffers.spec.resources":                 "resources ",
		"peeringtokens.spec.expirationSeconds":          "expirationSeconds ",
		"namespacemaps.spec.namespaces.remoteName":      "remoteName ",
		"resourcerequests.spec.withdrawn":               "withdrawn ",
		"identityrequests.status.certificate":           "certificate ",
		"addresspools.spec.reserved":                    "reserved ",
		"networkconfigs.spec.podCIDRs":                  "podCIDRs ",
		"tunnelendpoints.spec.remote":                   "remote ",
		"addressmappings.spec.mapped":                   "mapped ",
	} {
		output := strings.Join(strings.Fields(env.Kubectl(t, "", "explain", path)), " ")
		if !strings.Contains(output, "DESCRIPTION: "+want) {
			t.Errorf("the description of %s does not begin with %q:\n%s", path, want, output)
		}
	}
}

func TestServerSideApplyKeepsEveryManagersFields(t *testing.T) {
	env := framework.Get(t)
	namespace := env.MakeNamespace(t)
	env.Kubectl(t, offloadingManifest, "apply", "--server-side", "--field-manager=gitops", "-n", namespace, "-f", "-")
	env.Kubectl(t,
		`{"apiVersion":"federation.liqo.io/v1alpha1","kind":"NamespaceOffloading","metadata":{"name":"offloading",`+
			`"labels":{"team":"a"}}}`,
		"apply", "--server-side", "--field-manager=team", "-n", namespace, "-f", "-")
	got := env.Kubectl(t, "", "get", "nsof", "offloading", "-n", namespace, "-o",
		"jsonpath={.spec.podOffloadingStrategy} {.metadata.labels.team} {.metadata.managedFields[*].manager}")
	if got != "Remote a gitops team" {
		t.Errorf("got %q", got)
	}

	output, err := env.TryKubectl(t, strings.ReplaceAll(offloadingManifest, "Remote", "Local"), "apply", "--server-side",
		"--field-manager=other", "-n", namespace, "-f", "-")
	if err == nil || !strings.Contains(output, `conflict with "gitops": .spec.podOffloadingStrategy`) {
		t.Errorf("the field of another manager was changed: %s", output)
	}
	before := env.Kubectl(t, "", "get", "nsof", "offloading", "-n", namespace, "-o",
		"jsonpath={.metadata.resourceVersion}")
	env.Kubectl(t, offloadingManifest, "apply", "--server-side", "--field-manager=gitops", "-n", namespace, "-f", "-")
	if after := env.Kubectl(t, "", "get", "nsof", "offloading", "-n", namespace, "-o",
		"jsonpath={.metadata.resourceVersion}"); after != before {
		t.Errorf("applying the same again wrote: resourceVersion %s, then %s", before, after)
	}
}

func TestKubectlDiffShowsWhatWouldChangeAndChangesNothing(t *testing.T) {
	env := framework.Get(t)
	namespace := env.MakeNamespace(t)
	env.Kubectl(t, offloadingManifest, "apply", "-n", namespace, "-f", "-")
	if output := env.Kubectl(t, offloadingManifest, "diff", "-n", namespace, "-f", "-"); output != "" {
		t.Errorf("the same manifest differs:\n%s", output)
	}
	output, err := env.TryKubectl(t, strings.ReplaceAll(offloadingManifest, "Remote", "Local"), "diff", "-n",
		namespace, "-f", "-")
	if err == nil || !strings.Contains(output, "-  podOffloadingStrategy: Remote") ||
		!strings.Contains(output, "+  podOffloadingStrategy: Local") {
		t.Errorf("got %v:\n%s", err, output)
	}
	if got := env.Kubectl(t, "", "get", "nsof", "offloading", "-n", namespace, "-o",
		"jsonpath={.spec.podOffloadingStrategy}"); got != "Remote" {
		t.Errorf("diff changed it to %s", got)
	}
}

func TestUnknownAndDuplicateFieldsAreRefused(t *testing.T) {
	env := framework.Get(t)
	namespace := env.MakeNamespace(t)
	client := admin(t).FederationV1alpha1().RESTClient()
	for name, test := range map[string]struct{ spec, want string }{
		"unknown":        {`{"podOffloadingStratgy":"Local"}`, `unknown field "spec.podOffloadingStratgy"; did you mean "podOffloadingStrategy"?`},
		"duplicate":      {`{"podOffloadingStrategy":"Local","podOffloadingStrategy":"Remote"}`, `duplicate field "spec.podOffloadingStrategy"`},
		"of other type":  {`{"podOffloadingStrategy":[1]}`, "podOffloadingStrategy"},
		"of other value": {`{"podOffloadingStrategy":"Moon"}`, `spec.podOffloadingStrategy: Unsupported value: "Moon"`},
	} {
		body := `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"NamespaceOffloading",` +
			`"metadata":{"name":"offloading"},"spec":` + test.spec + `}`
		err := client.Post().Namespace(namespace).Resource("namespaceoffloadings").Param("fieldValidation", "Strict").
			SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

func TestUnknownFieldNamesTheNearest(t *testing.T) {
	env := framework.Get(t)
	namespace := env.MakeNamespace(t)
	const manifest = `apiVersion: federation.liqo.io/v1alpha1
kind: NamespaceOffloading
metadata: {name: offloading}
spec: {podOffloadingStratgy: Local}
`
	const want = `unknown field "spec.podOffloadingStratgy"; did you mean "podOffloadingStrategy"?`
	request := func() *rest.Request {
		return admin(t).FederationV1alpha1().RESTClient().Post().Namespace(namespace).Resource("namespaceoffloadings").
			SetHeader("Content-Type", "application/yaml")
	}
	err := request().Param("fieldValidation", "Strict").Body([]byte(manifest)).Do(t.Context()).Error()
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("YAML is answered with %v, want %q", err, want)
	}
	var warnings []string
	for _, warning := range request().Param("fieldValidation", "Warn").Body([]byte(manifest)).Do(t.Context()).Warnings() {
		warnings = append(warnings, warning.Text)
	}
	if !slices.Contains(warnings, want) {
		t.Errorf("got the warnings %q, want %q", warnings, want)
	}
	body := strings.Replace(manifest, "kind: NamespaceOffloading", "kind: Offload", 1)
	err = request().Name("offloading").SubResource("offload").Body([]byte(body)).Do(t.Context()).Error()
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("the subresource offload answers %v, want %q", err, want)
	}
}

func TestTablesHaveTheColumnsOfTheResource(t *testing.T) {
	env := framework.Get(t)
	namespace := env.MakeNamespace(t)
	env.Kubectl(t, offloadingManifest, "apply", "-n", namespace, "-f", "-")
	lines := strings.Split(strings.TrimSpace(env.Kubectl(t, "", "get", "nsof", "-n", namespace)), "\n")
	header := strings.Join(strings.Fields(lines[0]), " ")
	if len(lines) != 2 || header != "NAME MAPPING PODS PHASE CLUSTERS REMOTE NAME AGE" ||
		!strings.Contains(lines[1], "Remote") {
		t.Errorf("got\n%s", strings.Join(lines, "\n"))
	}
}
