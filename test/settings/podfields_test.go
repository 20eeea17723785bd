// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/pattern"
	"liqo.io/federation/apiserver/podspec"
)

// begin and end are the lines of docs/pods.md between which the table is generated.
const (
	beginFields = "<!-- begin: written by go test ./test/settings -update -->\n"
	endFields   = "<!-- end -->\n"
)

func TestEveryFieldOfAPodIsOnThePage(t *testing.T) {
	var tables strings.Builder
	tables.WriteString("\n### Fields of pods\n\n")
	fieldTable(&tables, reflect.TypeFor[corev1.PodSpec](), podspec.PodFields)
	tables.WriteString("\n### Fields of containers\n\n")
	fieldTable(&tables, reflect.TypeFor[corev1.Container](), podspec.ContainerFields)
	tables.WriteString("\n### Labels and annotations\n\n" +
		"Trust [Tenant](trust.md) limits those that control components of " +
		"the provider:\n\n")
	metadataTable(&tables)
	tables.WriteString("\n")

	path := filepath.Join("..", "..", "docs", "pods.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(page), beginFields)
	got, after, ends := strings.Cut(rest, endFields)
	if !begins || !ends {
		t.Fatalf("%s has no place for the fields: it is between %q and %q", path, beginFields, endFields)
	}
	if *update {
		written := before + beginFields + tables.String() + endFields + after
		if err := os.WriteFile(path, []byte(written), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(tables.String(), got); diff != "" {
		t.Errorf("docs/pods.md (-want +got); run with -update:\n%s", diff)
	}
}

// metadataTable writes the rules for labels and annotations to page.
func metadataTable(page *strings.Builder) {
	page.WriteString("| keys | control | on the provider |\n| --- | --- | --- |\n")
	handling := map[podspec.MetadataHandling]string{
		podspec.MetadataLocal: "dropped", podspec.MetadataRefused: "the pod is refused",
	}
	for _, rule := range podspec.MetadataRules {
		var keys []string
		for _, domain := range rule.Domains {
			keys = append(keys, "`"+domain+"/…`")
		}
		for _, key := range rule.Keys {
			keys = append(keys, "`"+strings.ReplaceAll(key, pattern.Any, "…")+"`")
		}
		fmt.Fprintf(page, "| %s | %s | %s |\n", strings.Join(keys, ", "), rule.Controls, handling[rule.Handling])
	}
}

// fieldTable writes a table to page, in which fields with the same text share a row.
func fieldTable(page *strings.Builder, of reflect.Type, fields []podspec.Field) {
	var texts []string
	names := map[string][]string{}
	for _, field := range fields {
		if _, known := names[field.Page]; !known {
			texts = append(texts, field.Page)
		}
		names[field.Page] = append(names[field.Page], "`"+field.JSONName(of)+"`")
	}
	page.WriteString("| field | on the provider |\n| --- | --- |\n")
	for _, text := range texts {
		fmt.Fprintf(page, "| %s | %s |\n", strings.Join(names[text], ", "), text)
	}
}
