// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"liqo.io/federation/hack/playground/instance"
)

func TestInvalidCommandLineExitsWithTwo(t *testing.T) {
	for _, line := range []string{"foo", "up --nothing", "kubeconfig", "exec node", "partition a", "load", "image x",
		"digest", "sbom image.tar",
		"--instance Bad status", "up rome --cluster-pod-cidr milan=10.0.0.0/16", "up --pod-cidr x",
		"up --kube-proxy-mode ipvs"} {
		if code := Execute(t.Context(), strings.Fields(line)); code != 2 {
			t.Errorf("%q: exit code %d", line, code)
		}
	}
	if code := Execute(t.Context(), []string{"--help"}); code != 0 {
		t.Errorf("--help: exit code %d", code)
	}
}

func TestUnknownFlagNamesTheNearest(t *testing.T) {
	for line, want := range map[string]string{
		"up --worker 2": "unknown flag: --worker; did you mean --workers?",
		"up --nothing":  "unknown flag: --nothing; see: playground up --help",
	} {
		root := newRoot()
		root.SetArgs(strings.Fields(line))
		if err := root.ExecuteContext(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", line, err, want)
		}
	}
}

func TestFlagsThatAreNotSetChangeNothing(t *testing.T) {
	parse := func(args ...string) instance.Want {
		t.Helper()
		f := &upFlags{}
		c := &common{instance: "demo", stateDir: "/s"}
		cmd := newUpWith(c, f)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		w, err := f.want(cmd, c, []string{"rome", "milan"})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := parse()
	if w.Workers != nil || w.FakeNodes != nil || w.Audit != nil || w.Durable != nil || w.NetworkPolicies != nil ||
		w.KubeProxyMode != "" || len(w.PodCIDRs) != 0 || w.Pool != instance.DefaultPool {
		t.Errorf("without flags: %+v", w)
	}
	w = parse("--workers=0", "--pod-cidr=10.1.0.0/16", "--cluster-pod-cidr=milan=10.2.0.0/16")
	if w.Workers == nil || *w.Workers != 0 {
		t.Errorf("got %v workers", w.Workers)
	}
	for flag, enforced := range map[string]bool{"--network-policies": true, "--network-policies=false": false} {
		if w := parse(flag); w.NetworkPolicies == nil || *w.NetworkPolicies != enforced || w.Enforces() != enforced {
			t.Errorf("%s: got %+v", flag, w)
		}
	}
	for _, mode := range []string{"iptables", "nftables"} {
		if w := parse("--kube-proxy-mode=" + mode); w.KubeProxyMode != mode {
			t.Errorf("--kube-proxy-mode=%s: got %q", mode, w.KubeProxyMode)
		}
	}
	if diff := cmp.Diff(map[string]string{"": "10.1.0.0/16", "milan": "10.2.0.0/16"}, texts(w.PodCIDRs)); diff != "" {
		t.Error(diff)
	}
}

func texts(m map[string]netip.Prefix) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[k] = v.String()
	}
	return out
}

func TestEveryCommandHasADescription(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" {
			t.Errorf("%s has no description", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
}
