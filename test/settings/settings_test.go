// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package settings checks that docs/ is complete: every flag, chart value and metric is on
// settings.md, and every reason is explained. It also checks that programs and the chart refuse unknown names with
// known names.
package settings

import (
	"bytes"
	"context"
	"errors"
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
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/component-base/config"
	"k8s.io/component-base/config/options"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics"
	"sigs.k8s.io/yaml"

	server "liqo.io/federation/apiserver/cmd/federation-apiserver/app"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/storage"
	"liqo.io/federation/apiserver/trust"
	manager "liqo.io/federation/controllers/cmd/federation-controller-manager/app"
	controllermetrics "liqo.io/federation/controllers/metrics"
	"liqo.io/federation/controllers/storage/move"
	"liqo.io/federation/controllers/storage/mover"
	virtualkubelet "liqo.io/federation/controllers/virtualkubelet/app"
	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/gateway"
	"liqo.io/federation/netagent/route"
	"liqo.io/federation/registry/federation/placementreview"
)

var update = flag.Bool("update", false, "write the generated pages and parts of pages")

const intro = `# Settings

Flags, chart values and metrics. This page is written by ` + "`go test ./test/settings -update`" + `.
[values.yaml](../artifacts/chart/values.yaml) documents each value, [operations.md](operations.md) when to change one.
The flags that every Kubernetes server has are listed without their text: it is in the
[reference of kube-apiserver](https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/).
`

func TestEveryFlagValueAndMetricIsOnThePage(t *testing.T) {
	var page bytes.Buffer
	page.WriteString(intro)
	for _, program := range append(programs(), moverFlags()) {
		fmt.Fprintf(&page, "\n## Flags of %s\n", program.Name())
		flags(&page, program)
		for _, sub := range program.Commands() {
			fmt.Fprintf(&page, "\n### %s %s\n", program.Name(), sub.Use)
			flags(&page, sub)
		}
	}
	page.WriteString("\n## Values of the chart\n\n| value | default |\n| --- | --- |\n")
	values(t, &page)
	page.WriteString("\n## Metrics\n\n| metric | |\n| --- | --- |\n")
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

// programs returns the commands of all programs but federation-mover.
func programs() []*cobra.Command {
	ctx := context.Background()
	return []*cobra.Command{
		server.NewCommand(io.Discard), manager.NewCommand(ctx), virtualkubelet.NewCommand(ctx),
		gateway.NewCommand(ctx), route.NewCommand(ctx),
	}
}

// moverFlags returns a command with the flags of federation-mover, which parses its arguments without cobra.
func moverFlags() *cobra.Command {
	command := &cobra.Command{Use: "federation-mover"}
	command.Flags().AddFlagSet(mover.Flags())
	return command
}

func TestChartAndProgramsHaveOneVersion(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", "artifacts", "chart", "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var chart struct{ Version, AppVersion string }
	if err := yaml.Unmarshal(content, &chart); err != nil {
		t.Fatal(err)
	}
	if chart.AppVersion != compatibility.Version || "v"+chart.Version != compatibility.Version {
		t.Errorf("the chart has version %s and appVersion %s, not %s", chart.Version, chart.AppVersion,
			compatibility.Version)
	}
	for _, program := range programs() {
		if program.Version != compatibility.Version {
			t.Errorf("%s --version prints %q, not %s", program.Name(), program.Version, compatibility.Version)
		}
	}
}

func TestUnknownFlagNamesTheNearest(t *testing.T) {
	for _, program := range programs() {
		for _, arguments := range [][]string{{}, {"restore"}, {"uninstall"}} {
			command, rest, err := program.Find(arguments)
			if err != nil || len(rest) > 0 {
				continue
			}
			var flag string
			command.Flags().VisitAll(func(f *pflag.Flag) {
				if len(f.Name) > len(flag) && !f.Hidden && f.Deprecated == "" {
					flag = f.Name
				}
			})
			program.SetArgs(append(arguments, "--"+flag[:len(flag)-1]))
			program.SilenceErrors = true
			err = program.Execute()
			if want := "; did you mean --" + flag + "?"; err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s: got %v, want the end %q", command.CommandPath(), err, want)
			}
		}
	}
}

// flags writes a table of a command's own flags, and below it the names of the flags of Kubernetes'
// libraries.
func flags(page io.Writer, command *cobra.Command) {
	var rows, kubernetes []string
	shared := kubernetesFlags()
	command.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" || f.Name == "help" {
			return
		}
		if known := shared.Lookup(f.Name); known != nil && known.Usage == f.Usage && known.DefValue == f.DefValue {
			kubernetes = append(kubernetes, "`--"+f.Name+"`")
			return
		}
		value := f.DefValue
		if value != "" {
			value = "`" + value + "`"
		}
		rows = append(rows, fmt.Sprintf("| `--%s` | %s | %s |\n", f.Name, value, cell(f.Usage)))
	})
	if len(rows) > 0 {
		fmt.Fprintf(page, "\n| flag | default | |\n| --- | --- | --- |\n%s", strings.Join(rows, ""))
	}
	if len(kubernetes) > 0 {
		fmt.Fprintf(page, "\n%s\n", wrapped("Kubernetes' own: "+strings.Join(kubernetes, ", ")+"."))
	}
}

// wrapped breaks a text into lines of at most 120 columns, between words.
func wrapped(text string) string {
	var lines strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i > 0 && column+1+len(word) > 120:
			lines.WriteByte('\n')
			column = 0
		case i > 0:
			lines.WriteByte(' ')
			column++
		}
		lines.WriteString(word)
		column += len(word)
	}
	return lines.String()
}

// kubernetesFlags returns the flags that Kubernetes' libraries define for servers, with their
// defaults there.
func kubernetesFlags() *pflag.FlagSet {
	all := pflag.NewFlagSet("kubernetes", pflag.ContinueOnError)
	genericoptions.NewSecureServingOptions().AddFlags(all)
	genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig("", nil)).AddFlags(all)
	genericoptions.NewDelegatingAuthenticationOptions().AddFlags(all)
	genericoptions.NewDelegatingAuthorizationOptions().AddFlags(all)
	genericoptions.NewAdmissionOptions().AddFlags(all)
	genericoptions.NewAuditOptions().AddFlags(all)
	genericoptions.NewFeatureOptions().AddFlags(all)
	genericoptions.NewTracingOptions().AddFlags(all)
	logsapi.AddFlags(logs.NewOptions(), all)
	options.BindLeaderElectionFlags(&config.LeaderElectionConfiguration{}, all)
	return all
}

// cell returns a text in which characters that would end a table cell are replaced.
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
	trust.RegisterMetrics(several)
	controllermetrics.Register(several)
	move.RegisterMetrics(several)
	one := func(metric metrics.Registerable) error {
		several(metric)
		return nil
	}
	_, kubeletErr := virtualkubelet.NewMetrics(one)
	_, agentErr := agent.NewMetrics(one)
	_, gatewayErr := gateway.NewMetrics(one)
	if err := errors.Join(kubeletErr, agentErr, gatewayErr); err != nil {
		t.Fatal(err)
	}
	registry := metrics.NewKubeRegistry()
	var lines []string
	for _, one := range all {
		registry.MustRegister(one)
		descriptions := make(chan *prometheus.Desc, 1)
		one.Describe(descriptions)
		parts := description.FindStringSubmatch((<-descriptions).String())
		if parts == nil || !strings.HasPrefix(parts[1], "federation_") {
			t.Fatalf("metric %s does not begin with federation_: %q", one.FQName(), parts)
		}
		lines = append(lines, fmt.Sprintf("| `%s` | %s |\n", parts[1], cell(strings.TrimPrefix(parts[2], "[ALPHA] "))))
	}
	slices.Sort(lines)
	fmt.Fprint(page, strings.Join(lines, ""))
}
