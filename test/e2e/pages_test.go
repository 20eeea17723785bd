// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/hack/tools/pages"
	"liqo.io/federation/test/harness"
)

// runsThePage runs the commands of a page in docs, "page.md", or of one of its sections, "page.md#section", in one
// shell, and returns their output. Commands without a context use c. Each pair of replacements is a text of the
// commands and its replacement. hack/tools/checkcommands reads the name of the page in the calls.
func runsThePage(t *testing.T, c *harness.Cluster, page string, replacements ...string) string {
	t.Helper()
	name, section, _ := strings.Cut(page, "#")
	content, err := os.ReadFile(filepath.Join(playground.Root, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	commands := pages.Commands(string(content), section)
	if commands == "" {
		t.Fatalf("docs/%s has no commands", page)
	}
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(commands, replacements[i]) {
			t.Fatalf("the commands of docs/%s do not have %q", page, replacements[i])
		}
		commands = strings.ReplaceAll(commands, replacements[i], replacements[i+1])
	}
	for _, cluster := range clusters {
		commands = strings.ReplaceAll(commands, "$PWD/.playground/"+cluster.Name+".kubeconfig",
			playground.Kubeconfig(cluster.Name))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	// A command that runs in the background does not outlive a failed one.
	shell := harness.Command(ctx, "bash", "-s")
	shell.Stdin = strings.NewReader("set -euxo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || :' EXIT\n" + commands)
	shell.Dir = playground.Root
	// The first file has the current context.
	configs := []string{playground.Kubeconfig(c.Name)}
	for _, cluster := range clusters {
		if cluster != c {
			configs = append(configs, playground.Kubeconfig(cluster.Name))
		}
	}
	shell.Env = append(os.Environ(), "KUBECONFIG="+strings.Join(configs, ":"),
		"PATH="+filepath.Join(playground.Root, ".playground", "bin")+":"+os.Getenv("PATH"))
	result := harness.Run(shell)
	if result.Err != nil {
		t.Fatalf("docs/%s: %v\n%s", page, result.Err, result.Stdout)
	}
	return result.Stdout
}

// offersFollowThePages runs commands of the pages on quotas and reflection, with which a provider changes what it
// offers, and a consumer creates another virtual node.
func offersFollowThePages(t *testing.T) {
	defer func() {
		collect(t)
		ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
		defer cancel()
		const offer = "resourceoffer/batch"
		rome.Kubectl(ctx, "delete", "virtualnode", "milan-batch", "-n", peerNamespace, "--ignore-not-found", "--timeout=110s")
		milan.Kubectl(ctx, "patch", "foreigncluster", "rome", "--type=merge", "-p", `{"spec":{"incomingPolicy":null}}`)
		milan.Kubectl(ctx, "patch", offer, "-n", "liqo-tenant-rome", "--type=merge", "-p", `{"spec":{"withdrawn":true}}`)
		milan.Kubectl(ctx, "wait", offer, "-n", "liqo-tenant-rome", "--for=jsonpath={.status.phase}=Withdrawn",
			"--timeout=60s")
		milan.Kubectl(ctx, "delete", offer, "-n", "liqo-tenant-rome", "--ignore-not-found", "--timeout=60s")
		offersPercent(t, 90)
		virtualNodesAre(t, virtualNode)
	}()
	runsThePage(t, milan, "quotas.md#how-much-is-offered", `{"pool":"shared"}`, `{"kubernetes.io/os":"linux"}`)
	offersPercent(t, 50)
	runsThePage(t, milan, "reflection.md#classes")
	isPrinted(t, rome, "get virtualnode milan -n "+peerNamespace+" -o jsonpath={.status.ingressClasses}", `["partners"]`)
	runsThePage(t, milan, "quotas.md#more-virtual-nodes-on-one-offer")
	virtualNodesAre(t, virtualNode, virtualNode+"-batch")
	runsThePage(t, milan, "quotas.md#more-offers")
	isPrinted(t, milan, "get resourceoffer batch -n liqo-tenant-rome -o jsonpath={.status.phase}",
		string(v1alpha1.NegotiationAccepted))
	runsThePage(t, milan, "quotas.md#pods-that-are-resized")
}

// namespacesFollowThePages runs the commands of the pages on verbs and namespaces, the last of which unoffloads.
func namespacesFollowThePages(t *testing.T) {
	o := offloaded(t, remoteOnly)
	runsThePage(t, rome, "verbs.md#plans", "namespaces/web", "namespaces/"+o.namespace, "-n web", "-n "+o.namespace)
	runsThePage(t, rome, "namespaces.md", "-n demo", "-n "+o.namespace)
	isPrinted(t, milan, "get namespace "+o.remote+" --ignore-not-found -o name", "")
}

// tunnelsFollowThePages runs the commands of the pages on the network, none of which changes anything.
func (f fabric) tunnelsFollowThePages(t *testing.T) {
	runsThePage(t, rome, "addresses.md")
	runsThePage(t, rome, "networking.md")
	runsThePage(t, rome, "network-reference.md")
	runsThePage(t, rome, "network-troubleshooting.md")
}

// installationFollowsThePages runs the commands of the page on the installation, from the invitation to the
// uninstallation of rome, and then the commands of the page on operations, which uninstall milan.
func installationFollowsThePages(t *testing.T) {
	t.Cleanup(func() {
		collect(t)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), soon)
		defer cancel()
		if err := rome.Kubectl(ctx, "delete", "namespace", "demo", "--ignore-not-found", "--timeout=110s").Err; err != nil {
			t.Error(err)
		}
	})
	runsThePage(t, rome, "install.md")
	runsThePage(t, milan, "operations.md#uninstall")
	kubectl(t, rome, "delete", "namespace", "demo", "--timeout=110s")
	uninstallsFromBothClusters(t)
}
