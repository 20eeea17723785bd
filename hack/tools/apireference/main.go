// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Apireference writes docs/api-reference.md to standard output, from the definitions that
// kubectl explain reads.
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"liqo.io/federation/generated/openapi"
)

const (
	// group is the prefix of the names of the types of the API.
	group      = "io.liqo.federation.v1alpha1."
	references = "#/definitions/"

	intro = `# API reference: federation.liqo.io/v1alpha1

With this page you can look up every kind and field of the API. It is generated from the API types by "make generate";
"kubectl explain" prints the same. Every object has apiVersion, kind and the standard metadata in addition to what is
listed here. A field with a star is required.
`
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "apireference: %v\n", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	buffered := bufio.NewWriter(out)
	definitions := openapi.GetOpenAPIDefinitions(func(name string) spec.Ref {
		return spec.MustCreateRef(references + name)
	})
	write(buffered, definitions)
	return buffered.Flush()
}

// write writes the kinds by name, each with the types of its fields that were not written
// before.
func write(out io.Writer, definitions map[string]common.OpenAPIDefinition) {
	var kinds []string
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		if strings.HasPrefix(name, group) && isKind(definitions[name].Schema) {
			kinds = append(kinds, name)
		}
	}
	fmt.Fprint(out, intro)
	for _, kind := range kinds {
		fmt.Fprintf(out, "\n- [%s](#%s)", short(kind), anchor(kind))
	}
	fmt.Fprintln(out)
	written := map[string]bool{}
	for _, kind := range kinds {
		// A kind has its own heading even if another kind contains it.
		written[kind] = true
	}
	for _, kind := range kinds {
		fmt.Fprintf(out, "\n## %s\n", short(kind))
		writeType(out, definitions, kind, written)
	}
}

// isKind reports whether a type is a kind, and not a list.
func isKind(schema spec.Schema) bool {
	_, versioned := schema.Properties["apiVersion"]
	_, list := schema.Properties["items"]
	return versioned && !list
}

func writeType(out io.Writer, definitions map[string]common.OpenAPIDefinition, name string, written map[string]bool) {
	schema := definitions[name].Schema
	fmt.Fprintf(out, "\n%s\n\n| field | type | |\n| --- | --- | --- |\n", schema.Description)
	var inner []string
	for _, field := range slices.SortedFunc(maps.Keys(schema.Properties), func(a, b string) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), strings.Compare(a, b))
	}) {
		if slices.Contains([]string{"apiVersion", "kind", "metadata"}, field) {
			continue
		}
		property := schema.Properties[field]
		star := ""
		if slices.Contains(schema.Required, field) {
			star = " *"
		}
		fmt.Fprintf(out, "| `%s`%s | %s | %s |\n", field, star, typeOf(property), cell(property.Description))
		if named := reference(property); strings.HasPrefix(named, group) && !written[named] {
			written[named] = true
			inner = append(inner, named)
		}
	}
	for _, named := range inner {
		fmt.Fprintf(out, "\n### %s\n", short(named))
		writeType(out, definitions, named, written)
	}
}

// order returns the position of a field: spec and status come after the other fields.
func order(field string) int { return slices.Index([]string{"spec", "status"}, field) }

// reference returns the name of the type of a field, or of its elements; empty for a basic type.
func reference(schema spec.Schema) string {
	switch {
	case schema.Items != nil && schema.Items.Schema != nil:
		return reference(*schema.Items.Schema)
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		return reference(*schema.AdditionalProperties.Schema)
	case len(schema.AllOf) > 0:
		return reference(schema.AllOf[0])
	}
	return strings.TrimPrefix(schema.Ref.String(), references)
}

func typeOf(schema spec.Schema) string {
	switch {
	case schema.Items != nil && schema.Items.Schema != nil:
		return "list of " + typeOf(*schema.Items.Schema)
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(*schema.AdditionalProperties.Schema)
	}
	switch name := reference(schema); {
	case strings.HasPrefix(name, group):
		return fmt.Sprintf("[%s](#%s)", short(name), anchor(name))
	case name != "":
		return short(name)
	case schema.Format == "byte":
		return "bytes, base64"
	}
	return strings.Join(schema.Type, " or ")
}

func short(name string) string { return name[strings.LastIndex(name, ".")+1:] }

func anchor(name string) string { return strings.ToLower(short(name)) }

// cell returns a description as a cell of a table. The values of an enum follow it, one per
// line.
func cell(description string) string {
	text, values, _ := strings.Cut(description, "\n\nPossible enum values:\n")
	text = strings.Join(strings.Fields(text), " ")
	for value := range strings.Lines(values) {
		text += "<br>" + strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(value), "- "))
	}
	return strings.ReplaceAll(text, "|", `\|`)
}
