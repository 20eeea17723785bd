// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/registry/federation/subresource/subresourcetest"
	"liqo.io/federation/test/integration/framework"
)

const publicKey = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="

// parents are valid specs of the resources that have subresources. IdentityRequests are missing,
// because only the bearer of an invitation can create them.
var parents = map[string]fields{
	"addresspools":         {"cidrs": []any{"10.0.0.0/8"}},
	"clusterinfos":         {},
	"foreignclusters":      {"outgoing": "Disabled", "server": "https://asti.example.org", "clusterID": genoaID},
	"namespacemaps":        {"namespaces": []any{fields{"name": "web", "remoteName": "web-asti"}}},
	"namespaceoffloadings": {},
	"networkconfigs":       {"clusterID": genoaID, "podCIDRs": []any{"10.244.0.0/16"}, "publicKey": publicKey},
	"tunnelendpoints": {
		"clusterID": genoaID, "publicKey": publicKey,
		"local": []any{fields{"cidr": "10.244.0.0/16", "mapped": "10.244.0.0/16"}}, "remote": []any{fields{"cidr": "10.245.0.0/16", "mapped": "10.245.0.0/16"}},
	},
	"peeringtokens":        {},
	"resourceoffers":       {"clusterID": genoaID, "resources": fields{"cpu": "1"}},
	"resourcerequests":     {},
	"shadowpods":           {"pod": fields{"automountServiceAccountToken": false, "containers": []any{fields{"name": "web", "image": "example.org/web:1"}}}},
	"shadowendpointslices": {"addressType": "IPv4"},
	"shadowvolumeclaims":   {"storageClassName": "fast", "accessModes": []any{"ReadWriteOnce"}, "storage": "1Gi"},
	"virtualnodes":         {"clusterID": genoaID, "nodeName": "liqo-asti", "resources": fields{"cpu": "1"}},
	"virtualvolumes":       {},
}

// parentNames are the names of objects of resources that allow only one name.
var parentNames = map[string]string{
	"clusterinfos":         v1alpha1.ClusterInfoName,
	"namespaceoffloadings": v1alpha1.NamespaceOffloadingName,
	"networkconfigs":       v1alpha1.NetworkConfigOfConsumer,
}

// subresource has valid and invalid bodies of one subresource.
type subresource struct {
	// post is a valid body of a POST without metadata.
	post fields
	// wrong are invalid merge patches of a valid body. The key is the field that the refusal must
	// name.
	wrong map[string]fields
	// bodiless is true if bodies have only metadata.
	bodiless bool
	// forbidden is true if no user may write the subresource, so that even valid requests are
	// refused with 403.
	forbidden bool
}

// subresources has an entry for each subresource in discovery. The test fails if one is missing.
var subresources = map[string]subresource{
	"foreignclusters/peer": {
		post: fields{"spec": fields{"clusterID": genoaID, "server": "https://asti.example.org", "token": peerToken}},
		wrong: map[string]fields{
			"spec.server": {"spec": fields{"server": "https://127.0.0.1"}}, "spec.clusterID": {"spec": fields{"clusterID": "asti"}},
			"spec.outgoing": {"spec": fields{"outgoing": "Maybe"}}, "spec.caBundle": {"spec": fields{"caBundle": "bm90IFBFTQ=="}},
			"spec.token": {"spec": fields{"token": "a b"}}, "spec.resources[cpu]": {"spec": fields{"resources": fields{"cpu": "-1"}}},
			"spec.disconnectTimeoutSeconds": {"spec": fields{"disconnectTimeoutSeconds": -1}},
		},
	},
	"namespaceoffloadings/offload": {
		post: fields{},
		wrong: map[string]fields{
			"spec.podOffloadingStrategy": {"spec": fields{"podOffloadingStrategy": "Somewhere"}}, "spec.namespaceMappingStrategy": {"spec": fields{"namespaceMappingStrategy": "Other"}},
			"spec.clusterSelector.nodeSelectorTerms[0]": {"spec": fields{"clusterSelector": fields{"nodeSelectorTerms": []any{fields{}}}}},
		},
	},
	"virtualvolumes/move": {
		post: fields{"spec": fields{"target": fields{"local": true}}},
		wrong: map[string]fields{
			"spec.target.clusterName":     {"spec": fields{"target": fields{"clusterName": "asti"}}},
			"spec.target":                 {"spec": fields{"target": fields{"local": nil}}},
			"spec.strategy":               {"spec": fields{"strategy": "Sometimes"}},
			"spec.verify":                 {"spec": fields{"verify": "Maybe"}},
			"spec.bandwidth":              {"spec": fields{"bandwidth": "1"}},
			"spec.evictionTimeoutSeconds": {"spec": fields{"evictionTimeoutSeconds": 0}},
			// The request is valid, but is refused because the claim does not exist.
			"metadata.name": {},
		},
	},
	"virtualvolumes/status":    {wrong: map[string]fields{"status.phase": {"status": fields{"phase": "Great"}}}},
	"peeringtokens/invitation": {post: fields{}, bodiless: true},
	"resourcerequests/identity": {
		post:      fields{"spec": fields{"clusterID": genoaID, "clusterName": "genoa", "request": []byte("x")}},
		forbidden: true,
	},
	"foreignclusters/status":      {wrong: map[string]fields{"status.outgoingPeering": {"status": fields{"outgoingPeering": "Great"}}, "status.peerNamespace": {"status": fields{"peerNamespace": "../x"}}}},
	"identityrequests/status":     {wrong: map[string]fields{"status.tenantNamespace": {"status": fields{"tenantNamespace": "../kube-system"}}}},
	"namespacemaps/status":        {wrong: map[string]fields{"status.observedGeneration": {"status": fields{"observedGeneration": -1}}}},
	"namespaceoffloadings/status": {wrong: map[string]fields{"status.phase": {"status": fields{"phase": "Great"}}}},
	"peeringtokens/status":        {wrong: map[string]fields{"status.usedBy": {"status": fields{"used": true, "usedBy": "asti"}}}},
	"resourceoffers/status":       {wrong: map[string]fields{"status.phase": {"status": fields{"phase": "Great"}}}},
	"resourcerequests/status":     {wrong: map[string]fields{"status.phase": {"status": fields{"phase": "Great"}}}},
	"addresspools/status":         {wrong: map[string]fields{"status.mappings": {"status": fields{"mappings": -1}}, "status.cidrs[0].cidr": {"status": fields{"cidrs": []any{fields{"cidr": "10", "usedPercent": 1}}}}}},
	"clusterinfos/status":         {wrong: map[string]fields{"status.clusterID": {"status": fields{"clusterID": "asti"}}, "status.ranges[0].cidr": {"status": fields{"ranges": []any{fields{"use": "Pods", "cidr": "10.0.0.0/4", "source": "Value"}}}}}},
	"networkconfigs/status":       {wrong: map[string]fields{"status.cidrs[0].mapped": {"status": fields{"cidrs": []any{fields{"cidr": "10.244.0.0/16", "mapped": "10.0.0.0/17"}}}}}},
	"tunnelendpoints/status":      {wrong: map[string]fields{"status.phase": {"status": fields{"phase": "Great"}}, "status.latencyMicroseconds": {"status": fields{"latencyMicroseconds": -1}}}},
	// This subresource is read-only.
	"shadowpods/stats":            {},
	"shadowpods/status":           {wrong: map[string]fields{"status.phase": {"status": fields{"phase": "Running"}}}},
	"shadowvolumeclaims/status":   {wrong: map[string]fields{"status.phase": {"status": fields{"phase": "Great"}}, "status.capacity": {"status": fields{"capacity": "-1"}}}},
	"shadowendpointslices/status": {wrong: map[string]fields{"status.conditions[0].reason": {"status": fields{"conditions": []any{fields{"type": "Ready", "status": "True", "message": "", "reason": "", "lastTransitionTime": "2026-11-21T08:00:00Z"}}}}}},
	"virtualnodes/status":         {wrong: map[string]fields{"status.pods": {"status": fields{"pods": -1}}}},
}

// TestValidationOnEverySubresource sends all invalid requests to every method of every subresource in
// discovery.
func TestValidationOnEverySubresource(t *testing.T) {
	env := framework.Get(t)
	served, err := env.Kube.Discovery().ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	env.Kubectl(t, env.Chart(t, "rbac-user-roles.yaml"), "apply", "-f", "-")
	tried := 0
	for _, route := range served.APIResources {
		resource, name, isSubresource := strings.Cut(route.Name, "/")
		if !isSubresource {
			continue
		}
		tried++
		t.Run(route.Name, func(t *testing.T) {
			known, ok := subresources[route.Name]
			if !ok {
				t.Fatal("this test has no invalid requests: add a line to its table")
			}
			s := wrongRequests{subresource: known, env: env, resource: resource, name: name, route: route}
			s.client = versioned.NewForConfigOrDie(env.Admin).FederationV1alpha1().RESTClient()
			s.run(t)
		})
	}
	if tried != len(subresources) {
		t.Errorf("%d of %d subresources are served", tried, len(subresources))
	}
}

// wrongRequests sends invalid requests to a subresource of one object.
type wrongRequests struct {
	subresource
	env            *framework.Environment
	client         rest.Interface
	route          metav1.APIResource
	resource, name string
	namespace      string
	parent         string
}

func (s *wrongRequests) run(t *testing.T) {
	if s.route.Namespaced {
		s.namespace = s.env.MakeNamespace(t)
	}
	s.makeParent(t)
	scope := s.namespace
	if scope == "" {
		scope = framework.Namespace
	}
	before := revisions(t, s.env, scope)
	for _, method := range s.route.Verbs {
		t.Run(method, func(t *testing.T) {
			switch method {
			case "create":
				s.bodies(t, http.MethodPost, merge(s.meta(), s.post))
			case "update":
				s.bodies(t, http.MethodPut, s.current(t))
			case "patch":
				s.patches(t)
			case "delete":
				s.deletes(t)
			case "get":
			default:
				t.Errorf("this test has no invalid requests of the method %s", method)
			}
		})
	}
	if diff := written(before, revisions(t, s.env, scope)); diff != "" {
		t.Errorf("objects were written (-before +after):\n%s", diff)
	}
}

func (s *wrongRequests) makeParent(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	s.parent = "asti"
	switch s.resource {
	case "identityrequests":
		bearer, token := bearerOf(t, s.env, "asti")
		made := retry(t, func() (*v1alpha1.IdentityRequest, error) {
			return bearer.Create(ctx, identityFor(t, string(token.UID), v1alpha1.PeerGroup), metav1.CreateOptions{})
		})
		s.parent = made.Name
		t.Cleanup(func() {
			if err := s.client.Delete().Resource("peeringtokens").Name("asti").Do(ctx).Error(); err != nil {
				t.Error(err)
			}
		})
	default:
		s.parent = cmp.Or(parentNames[s.resource], s.parent)
		spec, ok := parents[s.resource]
		if !ok {
			t.Fatalf("this test has no valid spec of %s", s.resource)
		}
		kind := s.parentKind(t)
		body := fields{"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": kind,
			"metadata": fields{"name": s.parent}, "spec": spec}
		request := s.client.Post().Resource(s.resource).NamespaceIfScoped(s.namespace,
			s.namespace != "").SetHeader("Content-Type", "application/json").Body(encode(body))
		if err := request.Do(ctx).Error(); err != nil {
			t.Fatal(err)
		}
		if s.resource == "addresspools" {
			// A controller in the server updates the status of the AddressPool, while it must not
			// store the invalid requests.
			awaitPool(t, versioned.NewForConfigOrDie(s.env.Admin), s.parent,
				func(status v1alpha1.AddressPoolStatus) bool { return status.ObservedGeneration == 1 })
		}
	}
	t.Cleanup(func() {
		at := func(request *rest.Request) *rest.Request {
			return request.Resource(s.resource).NamespaceIfScoped(s.namespace, s.namespace != "").Name(s.parent)
		}
		if err := at(s.client.Delete()).Do(ctx).Error(); err != nil {
			t.Error(err)
		}
		if err := at(s.client.Patch(types.MergePatchType)).Body([]byte(`{"metadata":{"finalizers":null}}`)).Do(
			ctx).Error(); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

func (s *wrongRequests) parentKind(t *testing.T) string {
	t.Helper()
	served, err := s.env.Kube.Discovery().ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(served.APIResources, func(route metav1.APIResource) bool { return route.Name == s.resource })
	return served.APIResources[at].Kind
}

// meta returns the apiVersion, kind and metadata of every valid body.
func (s *wrongRequests) meta() fields {
	metadata := fields{"name": s.parent}
	if s.namespace != "" {
		metadata["namespace"] = s.namespace
	}
	return fields{"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": s.route.Kind, "metadata": metadata}
}

// current returns the subresource as JSON.
func (s *wrongRequests) current(t *testing.T) fields {
	t.Helper()
	body, err := s.at(s.client.Get()).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var object fields
	decode(t, string(body), &object)
	return object
}

func (s *wrongRequests) at(request *rest.Request) *rest.Request {
	return request.Resource(s.resource).NamespaceIfScoped(s.namespace,
		s.namespace != "").Name(s.parent).SubResource(s.name).MaxRetries(0)
}

func (s *wrongRequests) send(t *testing.T, method, contentType string, body []byte) error {
	t.Helper()
	return s.at(s.client.Verb(method)).Param("fieldValidation", "Strict").SetHeader("Content-Type",
		contentType).Body(body).Do(t.Context()).Error()
}

// bodies sends PUT or POST requests with invalid variants of the valid body good.
func (s *wrongRequests) bodies(t *testing.T, method string, good fields) {
	const contentType = "application/json"
	for name, test := range map[string]struct {
		body []byte
		code int32
	}{
		"no JSON":                    {[]byte(`{`), http.StatusBadRequest},
		"a list":                     {[]byte(`[]`), http.StatusBadRequest},
		"an object of another":       {encode(merge(good, fields{"metadata": fields{"name": "other"}})), http.StatusBadRequest},
		"another namespace":          {encode(merge(good, fields{"metadata": fields{"namespace": "other"}})), http.StatusBadRequest},
		"a kind of others":           {encode(fields{"apiVersion": "v1", "kind": "ConfigMap", "metadata": fields{"name": s.parent}}), http.StatusBadRequest},
		"another kind of the group":  {encode(fields{"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "ShadowPodList"}), http.StatusBadRequest},
		"an unknown field of a kind": {encode(merge(good, fields{"surprise": true})), http.StatusBadRequest},
		"an unknown type":            {encode(merge(good, fields{"spec": 7})), http.StatusBadRequest},
		"the uid of another":         {encode(merge(good, fields{"metadata": fields{"uid": "other"}})), http.StatusConflict},
	} {
		if name == "another namespace" && s.namespace == "" {
			// Invalid variants need fields, so subresources without fields are skipped.
			continue
		}
		if s.forbidden && (name == "an object of another" || name == "the uid of another") {
			test.code = http.StatusForbidden
		}
		t.Run(name, func(t *testing.T) { refused(t, s.send(t, method, contentType, test.body), test.code) })
	}
	t.Run("no supported media type", func(t *testing.T) {
		refused(t, s.send(t, method, "text/plain", encode(good)), http.StatusUnsupportedMediaType)
	})
	if s.forbidden {
		t.Run("anything",
			func(t *testing.T) { refused(t, s.send(t, method, contentType, encode(good)), http.StatusForbidden) })
	}
	if s.bodiless || s.forbidden {
		return
	}
	if len(s.wrong) == 0 {
		t.Fatal("this test has no invalid values: add some to its table")
	}
	for field, patch := range s.wrong {
		t.Run(field, func(t *testing.T) { expectCause(t, s.send(t, method, contentType, encode(merge(good, patch))), field) })
	}
}

func (s *wrongRequests) patches(t *testing.T) {
	for name, test := range map[string]struct {
		kind types.PatchType
		body string
		code int32
	}{
		"no JSON":                              {types.MergePatchType, `{`, http.StatusBadRequest},
		"a name":                               {types.MergePatchType, `{"metadata":{"name":"other"}}`, http.StatusBadRequest},
		"an unknown field of a kind":           {types.MergePatchType, `{"surprise":true}`, http.StatusUnprocessableEntity},
		"an old resourceVersion":               {types.MergePatchType, `{"metadata":{"resourceVersion":"1"}}`, http.StatusConflict},
		"a test that fails":                    {types.JSONPatchType, `[{"op":"test","path":"/metadata/name","value":"other"}]`, http.StatusUnprocessableEntity},
		"an unknown patch operation":           {types.JSONPatchType, `[{"op":"surprise","path":"/spec"}]`, http.StatusUnprocessableEntity},
		"an unsupported media type of a patch": {"text/plain", `{}`, http.StatusUnsupportedMediaType},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, s.send(t, http.MethodPatch, string(test.kind), []byte(test.body)), test.code)
		})
	}
	for field, patch := range s.wrong {
		t.Run(field, func(t *testing.T) {
			expectCause(t, s.send(t, http.MethodPatch, string(types.MergePatchType), encode(patch)), field)
		})
	}
	if s.name == "status" {
		return
	}
	t.Run("an apply", func(t *testing.T) {
		err := s.at(s.client.Patch(types.ApplyPatchType)).Param("fieldManager",
			"test").Body(encode(s.meta())).Do(t.Context()).Error()
		subresourcetest.ExpectStatus(t, err, http.StatusMethodNotAllowed, "server-side apply")
	})
}

func (s *wrongRequests) deletes(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		code int32
	}{
		"no JSON":                {`{`, http.StatusBadRequest},
		"the uid of another":     {`{"preconditions":{"uid":"other"}}`, http.StatusConflict},
		"an old resourceVersion": {`{"preconditions":{"resourceVersion":"1"}}`, http.StatusConflict},
		"an unknown dryRun":      {`{"dryRun":["Some"]}`, http.StatusUnprocessableEntity},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, s.send(t, http.MethodDelete, "application/json", []byte(test.body)), test.code)
		})
	}
}

// refused fails the test unless err has this HTTP status code.
func refused(t *testing.T, err error, code int32) {
	t.Helper()
	subresourcetest.ExpectStatus(t, err, code, "")
}
