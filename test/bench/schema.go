// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
	Resource: "customresourcedefinitions"}

// quantity is the name of the schema of resource.Quantity, which structural schemas express as
// x-kubernetes-int-or-string.
const quantity = "io.k8s.apimachinery.pkg.api.resource.Quantity"

// makeCRD creates a CustomResourceDefinition with the schema that the federation's API publishes
// for the compared kind, and waits until it is served.
func (b *bench) makeCRD(ctx context.Context) error {
	published, err := b.rome.Kube.Discovery().RESTClient().Get().AbsPath("/openapi/v3/apis", ourResource.Group,
		ourResource.Version).DoRaw(ctx)
	if err != nil {
		return err
	}
	structural, err := structuralSchema(published, ourKind)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(b.rome.Config)
	if err != nil {
		return err
	}
	_, err = client.Resource(definitions).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": definitions.GroupVersion().String(),
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": customResource.GroupResource().String()},
		"spec": map[string]any{
			"group": customResource.Group,
			"scope": "Namespaced",
			"names": map[string]any{"plural": customResource.Resource, "kind": ourKind},
			"versions": []any{map[string]any{
				"name": customResource.Version, "served": true, "storage": true,
				"schema":       map[string]any{"openAPIV3Schema": structural},
				"subresources": map[string]any{"status": map[string]any{}},
			}},
		},
	}}, metav1.CreateOptions{})
	if err := unless(apierrors.IsAlreadyExists, err); err != nil {
		return err
	}
	return harness.Eventually(ctx, patience, "the custom resource to be served",
		func(ctx context.Context) (bool, string, error) {
			_, err := client.Resource(customResource).Namespace(apiNamespace).List(ctx, metav1.ListOptions{})
			return err == nil, "", err
		})
}

// structuralSchema returns the schema of a kind of v1alpha1 in an OpenAPI v3 document. It resolves
// all references, which structural schemas must not contain. It fails if the document has no such
// kind.
func structuralSchema(document []byte, kind string) (map[string]any, error) {
	var parsed struct {
		Components struct{ Schemas map[string]map[string]any }
	}
	if err := json.Unmarshal(document, &parsed); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	for name, found := range parsed.Components.Schemas {
		if strings.HasSuffix(name, "."+v1alpha1.SchemeGroupVersion.Version+"."+kind) {
			// A CustomResourceDefinition must not specify the fields of metadata.
			if properties, ok := found["properties"].(map[string]any); ok {
				properties["metadata"] = map[string]any{"type": "object"}
			}
			return inline(found, parsed.Components.Schemas), nil
		}
	}
	return nil, fmt.Errorf("the OpenAPI document has no schema of %s", kind)
}

// inline returns a schema with all references replaced by the schemas that they name.
func inline(schema map[string]any, all map[string]map[string]any) map[string]any {
	result := map[string]any{}
	if parts, ok := schema["allOf"].([]any); ok {
		for _, part := range parts {
			maps.Copy(result, inline(part.(map[string]any), all))
		}
	}
	for key, value := range schema {
		switch key {
		case "$ref":
			name := strings.TrimPrefix(value.(string), "#/components/schemas/")
			if name == quantity {
				return map[string]any{"x-kubernetes-int-or-string": true}
			}
			maps.Copy(result, inline(all[name], all))
		case "allOf", "default", "x-kubernetes-group-version-kind":
		case "properties":
			properties := map[string]any{}
			for name, property := range value.(map[string]any) {
				properties[name] = inline(property.(map[string]any), all)
			}
			result[key] = properties
		case "items", "additionalProperties":
			if nested, ok := value.(map[string]any); ok {
				value = inline(nested, all)
			}
			result[key] = value
		default:
			result[key] = value
		}
	}
	return result
}
