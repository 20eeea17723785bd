// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package settings keeps docs/ true: every flag, chart value and metric is on
// settings.md, and every reason is explained somewhere.
package settings

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/metrics"
	"sigs.k8s.io/yaml"

	server "liqo.io/federation/apiserver/cmd/federation-apiserver/app"
	"liqo.io/federation/apiserver/storage"
	manager "liqo.io/federation/controllers/cmd/federation-controller-manager/app"
	controllermetrics "liqo.io/federation/controllers/metrics"
	"liqo.io/federation/controllers/storage/move"
	virtualkubelet "liqo.io/federation/controllers/virtualkubelet/app"
	"liqo.io/federation/registry/federation/placementreview"
)

var update = flag.Bool("update", false, "write docs/settings.md anew")

const intro = `# Settings

Every flag, chart value and metric of our own. This page is written by ` + "`go test ./test/settings -update`" + `.
What the values mean is said in [values.yaml](../artifacts/chart/values.yaml); [operations.md](operations.md) tells when
to change what.
`

func TestEveryFlagValueAndMetricIsOnThePage(t *testing.T) {
	var page bytes.Buffer
	page.WriteString(intro)
	for _, program := range []*cobra.Command{
		server.NewCommand(io.Discard), manager.NewCommand(context.Background()), virtualkubelet.NewCommand(context.Background()),
	} {
		fmt.Fprintf(&page, "\n## Flags of %s\n\n| flag | default | |\n| --- | --- | --- |\n", program.Name())
		flags(&page, program)
		for _, sub := range program.Commands() {
			fmt.Fprintf(&page, "\n### %s %s\n\n| flag | default | |\n| --- | --- | --- |\n", program.Name(), sub.Use)
			flags(&page, sub)
		}
	}
	page.WriteString("\n## Values of the chart\n\n| value | default |\n| --- | --- |\n")
	values(t, &page)
	page.WriteString("\n## Metrics\n\n| metric | what it tells |\n| --- | --- |\n")
	ownMetrics(t, &page)

	path := filepath.Join("..", "..", "docs", "settings.md")
	if *update {
		if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page.String(), string(got)); diff != "" {
		t.Errorf("docs/settings.md (-want +got); run with -update:\n%s", diff)
	}
}

func flags(page io.Writer, command *cobra.Command) {
	command.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" || f.Name == "help" {
			return
		}
		value := f.DefValue
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(page, "| `--%s` | %s | %s |\n", f.Name, value, cell(f.Usage))
	})
}

// cell is a text that fits into a table.
func cell(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`).Replace(text)
}

func values(t *testing.T, page io.Writer) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "artifacts", "chart", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	var walk func(prefix string, values map[string]any)
	walk = func(prefix string, values map[string]any) {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if below, ok := values[key].(map[string]any); ok && len(below) > 0 {
				walk(prefix+key+".", below)
				continue
			}
			value, err := yaml.Marshal(values[key])
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(page, "| `%s%s` | `%s` |\n", prefix, key, strings.TrimSpace(string(value)))
		}
	}
	walk("", all)
}

var description = regexp.MustCompile(`fqName: "([^"]+)", help: "([^"]+)"`)

func ownMetrics(t *testing.T, page io.Writer) {
	t.Helper()
	var all []metrics.Registerable
	several := func(more ...metrics.Registerable) { all = append(all, more...) }
	storage.RegisterMetrics(several)
	placementreview.RegisterMetrics(several)
	controllermetrics.Register(several)
	move.RegisterMetrics(several)
	if _, err := virtualkubelet.NewMetrics(func(one metrics.Registerable) error {
		several(one)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	registry := metrics.NewKubeRegistry()
	var lines []string
	for _, one := range all {
		registry.MustRegister(one)
		descriptions := make(chan *prometheus.Desc, 1)
		one.Describe(descriptions)
		parts := description.FindStringSubmatch((<-descriptions).String())
		if parts == nil || !strings.HasPrefix(parts[1], "liqo_") {
			t.Fatalf("metric %s does not begin with liqo_: %q", one.FQName(), parts)
		}
		lines = append(lines, fmt.Sprintf("| `%s` | %s |\n", parts[1], cell(strings.TrimPrefix(parts[2], "[ALPHA] "))))
	}
	slices.Sort(lines)
	fmt.Fprint(page, strings.Join(lines, ""))
}
