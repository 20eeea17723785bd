// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/integration/framework"
)

func TestDiscoveryHasEveryResourceWithShortNameAndCategory(t *testing.T) {
	env := framework.Get(t)
	client, err := discovery.NewDiscoveryClientForConfig(env.Admin)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, resource := range list.APIResources {
		if strings.Contains(resource.Name, "/") || resource.Name == "placementreviews" {
			continue
		}
		if !slices.Contains(resource.Categories, "liqo") {
			t.Errorf("%s is not in the category liqo", resource.Name)
		}
		if resource.StorageVersionHash == "" {
			t.Errorf("%s has no storage version", resource.Name)
		}
		for _, verb := range []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"} {
			if !slices.Contains(resource.Verbs, verb) {
				t.Errorf("%s lacks the verb %s", resource.Name, verb)
			}
		}
		got[resource.Name] = fmt.Sprintf("%s %s %v", resource.Kind, strings.Join(resource.ShortNames, ","),
			resource.Namespaced)
	}
	want := map[string]string{
		"foreignclusters":      "ForeignCluster fc false",
		"peeringtokens":        "PeeringToken pt false",
		"identityrequests":     "IdentityRequest  false",
		"resourcerequests":     "ResourceRequest rr true",
		"resourceoffers":       "ResourceOffer ro true",
		"virtualnodes":         "VirtualNode vn true",
		"virtualvolumes":       "VirtualVolume vvol true",
		"namespaceoffloadings": "NamespaceOffloading nsof true",
		"namespacemaps":        "NamespaceMap nm true",
		"shadowpods":           "ShadowPod sp true",
		"shadowvolumeclaims":   "ShadowVolumeClaim shvc true",
		"shadowendpointslices": "ShadowEndpointSlice seps true",
		"addresspools":         "AddressPool apool false",
		"clusterinfos":         "ClusterInfo ci false",
		"addressmappings":      "AddressMapping am true",
		"networkconfigs":       "NetworkConfig netcfg true",
		"tunnelendpoints":      "TunnelEndpoint te true",
		"tunnelreaches":        "TunnelReach tr true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

func TestTheGroupIsInTheClustersAggregatedDiscovery(t *testing.T) {
	env := framework.Get(t)
	groups, resources, err := env.Kube.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(groups, func(group *metav1.APIGroup) bool { return group.Name == v1alpha1.GroupName }) {
		t.Errorf("the cluster does not serve the group")
	}
	if !slices.ContainsFunc(resources, func(list *metav1.APIResourceList) bool {
		return list.GroupVersion == v1alpha1.SchemeGroupVersion.String() && len(list.APIResources) > 0
	}) {
		t.Errorf("the cluster does not serve the group's resources")
	}
}

// openAPIPatience is the maximal time until kube-apiserver has merged the OpenAPI v2 document.
// After a failure it retries once a minute.
const openAPIPatience = 3 * time.Minute

// document has the parts of OpenAPI v2 and v3 documents that the test reads.
type document struct {
	Paths       map[string]json.RawMessage `json:"paths"`
	Definitions map[string]schema          `json:"definitions"`
	Components  struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

type schema struct {
	Description string            `json:"description"`
	Properties  map[string]schema `json:"properties"`
}

func TestOpenAPIHasEveryReferenceAndTheDocComments(t *testing.T) {
	env := framework.Get(t)
	tests := map[string]struct {
		path    string
		schemas func(document) map[string]schema
	}{
		"v2 of the cluster": {"/openapi/v2", func(d document) map[string]schema { return d.Definitions }},
		"v3 of the group":   {"/openapi/v3/apis/federation.liqo.io/v1alpha1", func(d document) map[string]schema { return d.Components.Schemas }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			raw := retryFor(t, openAPIPatience, func() ([]byte, error) {
				raw, err := env.Kube.Discovery().RESTClient().Get().AbsPath(test.path).SetHeader("Accept",
					"application/json").DoRaw(t.Context())
				if err == nil && !strings.Contains(string(raw), "ForeignCluster") {
					err = fmt.Errorf("no ForeignCluster in %s yet", test.path)
				}
				return raw, err
			})
			var doc document
			if err := json.Unmarshal(raw, &doc); err != nil {
				t.Fatal(err)
			}
			schemas := test.schemas(doc)
			var anything any
			if err := json.Unmarshal(raw, &anything); err != nil {
				t.Fatal(err)
			}
			references := 0
			walk(anything, func(reference string) {
				references++
				if !resolves(anything, reference) {
					t.Errorf("dangling reference %s", reference)
				}
			})
			if references == 0 {
				t.Error("no references at all")
			}
			found := 0
			for name, schema := range schemas {
				if !strings.HasPrefix(name, "io.liqo.federation.v1alpha1.") {
					continue
				}
				found++
				if schema.Description == "" {
					t.Errorf("%s has no description", name)
				}
				for property, field := range schema.Properties {
					if property != "apiVersion" && property != "kind" && property != "metadata" && field.Description == "" {
						t.Errorf("%s.%s has no description", name, property)
					}
				}
			}
			if found == 0 {
				t.Error("no schema of the federation")
			}
			if got := schemas["io.liqo.federation.v1alpha1.ForeignCluster"].Description; !strings.HasPrefix(got,
				"ForeignCluster represents a peer") {
				t.Errorf("ForeignCluster is described as %q", got)
			}
			if len(doc.Paths) == 0 {
				t.Error("no paths")
			}
		})
	}
}

// resolves reports whether a document has the target of a reference such as "#/definitions/x".
func resolves(document any, reference string) bool {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	parts := strings.Split(reference, "/")
	if parts[0] != "#" {
		return false
	}
	for _, part := range parts[1:] {
		object, ok := document.(map[string]any)
		if !ok {
			return false
		}
		if document, ok = object[unescape.Replace(part)]; !ok {
			return false
		}
	}
	return true
}

func walk(value any, reference func(string)) {
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			if target, ok := child.(string); ok && key == "$ref" {
				reference(target)
			}
			walk(child, reference)
		}
	case []any:
		for _, child := range value {
			walk(child, reference)
		}
	}
}
