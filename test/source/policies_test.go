// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
)

const chartTemplates = "artifacts/chart/templates/"

// refusedKeys matches the condition by which the policy for peers selects keys of ObjectMetadataRules.
var refusedKeys = regexp.MustCompile(`(?s)name: controllingKeys\n.*?\.filter\(k, (k == .*?)\)\n    - name:`)

func TestPolicyForPeersRefusesTheKeysOfThePodSpecPackage(t *testing.T) {
	var exact, between, prefixes []string
	for _, rule := range podspec.ObjectMetadataRules {
		for _, key := range rule.Keys {
			switch prefix, suffix, pattern := strings.Cut(key, "*"); {
			case !pattern:
				exact = append(exact, fmt.Sprintf("k == '%s'", key))
			case suffix != "":
				between = append(between, fmt.Sprintf("k.startsWith('%s') && k.endsWith('%s')", prefix, suffix))
			default:
				prefixes = append(prefixes, "'"+prefix+"'")
			}
		}
	}
	want := strings.Join(slices.Concat(exact, between,
		[]string{"[" + strings.Join(prefixes, ", ") + "].exists(p, k.startsWith(p))"}), " || ")
	match := refusedKeys.FindStringSubmatch(read(t, chartTemplates+"policies-peers.yaml"))
	if match == nil {
		t.Fatal("the policy has no variable controllingKeys")
	}
	if diff := cmp.Diff(want, strings.Join(strings.Fields(match[1]), " ")); diff != "" {
		t.Errorf("controllingKeys in policies-peers.yaml (-want +got):\n%s", diff)
	}
}

// reflectionRow matches a row of the table of keys in docs/reflection.md.
var reflectionRow = regexp.MustCompile("(?m)^\\| (`[^|]+`) \\| ([^|]+) \\|$")

func TestKeysThatProvidersRefuseAreOnThePage(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs/reflection.md"), "## Labels and annotations that providers refuse")
	section, _, _ = strings.Cut(section, "\n## ")
	var want, got []string
	for _, rule := range podspec.ObjectMetadataRules {
		var keys []string
		for _, key := range rule.Keys {
			keys = append(keys, "`"+strings.ReplaceAll(key, "*", "…")+"`")
		}
		want = append(want, strings.Join(keys, ", ")+" | "+rule.Controls)
	}
	for _, row := range reflectionRow.FindAllStringSubmatch(section, -1) {
		got = append(got, row[1]+" | "+row[2])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows in docs/reflection.md (-want +got):\n%s", diff)
	}
}

// createdLabels matches the keys that labels of a created namespace may have.
var createdLabels = regexp.MustCompile(`(?s)variables\.labels\.all\(k, k in \[(.*?)\]`)

func TestPolicyForNamespacesPermitsTheLabelsThatControllersSet(t *testing.T) {
	match := createdLabels.FindStringSubmatch(read(t, chartTemplates+"policies-controllers.yaml"))
	if match == nil {
		t.Fatal("the policy does not limit the labels of created namespaces")
	}
	got := strings.Split(strings.ReplaceAll(strings.Join(strings.Fields(match[1]), " "), "'", ""), ", ")
	want := []string{"kubernetes.io/metadata.name", v1alpha1.LabelManagedBy, v1alpha1.LabelRole,
		v1alpha1.LabelForeignCluster, v1alpha1.LabelOrigin, v1alpha1.LabelDestination,
		"pod-security.kubernetes.io/enforce"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys in policies-controllers.yaml (-want +got):\n%s", diff)
	}
}
