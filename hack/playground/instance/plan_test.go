// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/federation/hack/playground/sandbox"
	"liqo.io/federation/hack/playground/state"
)

func number(n int) *int { return &n }

func want(clusters ...string) Want {
	return Want{Instance: "test", Dir: "/checkout/.playground", Clusters: clusters, Pool: DefaultPool}
}

// layout describes the clusters of an instance as lines, for comparisons.
func layout(i *state.Instance) []string {
	var out []string
	for _, c := range i.Clusters {
		out = append(out, c.Name+" "+c.NodeCIDR.String()+" "+c.PodCIDR.String()+" "+c.ServiceCIDR.String())
		for _, n := range c.Nodes {
			out = append(out, "  "+n.Name+" "+n.Address.String()+" "+n.PodCIDR.String())
		}
	}
	return out
}

func planned(t *testing.T, w Want, used ...netip.Prefix) *state.Instance {
	t.Helper()
	i, err := newInstance(w, used)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan(i, w, used); err != nil {
		t.Fatal(err)
	}
	return i
}

func TestClustersHaveEqualPodCIDRsAndDifferentNodeCIDRs(t *testing.T) {
	i := planned(t, want("rome", "milan"), netip.MustParsePrefix("172.30.1.0/24"))
	if diff := cmp.Diff([]string{
		"rome 172.30.2.0/24 10.244.0.0/16 10.96.0.0/16",
		"  rome-control-plane 172.30.2.2 10.244.0.0/24",
		"  rome-worker-1 172.30.2.3 10.244.1.0/24",
		"milan 172.30.3.0/24 10.244.0.0/16 10.96.0.0/16",
		"  milan-control-plane 172.30.3.2 10.244.0.0/24",
		"  milan-worker-1 172.30.3.3 10.244.1.0/24",
	}, layout(i)); diff != "" {
		t.Error(diff)
	}
	if len(i.HostLink.Name) > 15 {
		t.Errorf("%s is too long for an interface", i.HostLink.Name)
	}
	if i.HostLink.Host.Masked() != netip.MustParsePrefix("172.30.0.0/30") {
		t.Errorf("the host link is in %s", i.HostLink.Host)
	}
}

func TestCIDROfOneClusterOverridesThatOfAll(t *testing.T) {
	w := want("rome", "milan")
	w.Workers = number(0)
	w.PodCIDRs = map[string]netip.Prefix{"": netip.MustParsePrefix("10.50.0.0/16"),
		"milan": netip.MustParsePrefix("10.60.0.0/16")}
	i := planned(t, w)
	if diff := cmp.Diff([]string{
		"rome 172.30.1.0/24 10.50.0.0/16 10.96.0.0/16",
		"  rome-control-plane 172.30.1.2 10.50.0.0/24",
		"milan 172.30.2.0/24 10.60.0.0/16 10.96.0.0/16",
		"  milan-control-plane 172.30.2.2 10.60.0.0/24",
	}, layout(i)); diff != "" {
		t.Error(diff)
	}
}

func TestUpAddsClustersAndNodes(t *testing.T) {
	i := planned(t, want("rome"))
	before := layout(i)
	if err := plan(i, want("rome"), nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, layout(i)); diff != "" {
		t.Errorf("the same plan changed the record: %s", diff)
	}
	w := want("rome", "milan")
	w.Workers, w.FakeNodes = number(2), number(5)
	if err := plan(i, w, nil); err != nil {
		t.Fatal(err)
	}
	if got := layout(i)[:len(before)]; cmp.Diff(before, got) != "" {
		t.Errorf("existing nodes changed: %s", cmp.Diff(before, got))
	}
	if len(i.Clusters) != 2 || len(i.Clusters[0].Nodes) != 3 || i.Clusters[1].FakeNodes != 5 {
		t.Errorf("got %v", layout(i))
	}
}

func TestSettingsThatCannotChangeAreRefused(t *testing.T) {
	yes := true
	for name, test := range map[string]struct {
		change func(*Want)
		reason string
	}{
		"fewer workers":       {func(w *Want) { w.Workers = number(0) }, "can only grow"},
		"fewer fake nodes":    {func(w *Want) { w.FakeNodes = number(1) }, "can only grow"},
		"too many workers":    {func(w *Want) { w.Workers = number(1000) }, "0 to 99 workers"},
		"too many fake nodes": {func(w *Want) { w.FakeNodes = number(100000) }, "0 to 5000 fake nodes"},
		"another pod CIDR":    {func(w *Want) { w.PodCIDRs = map[string]netip.Prefix{"rome": netip.MustParsePrefix("10.9.0.0/16")} }, "cannot change"},
		"an audit log later":  {func(w *Want) { w.Audit = &yes }, "runs with --audit=false and --durable=false, which cannot change"},
		"another mode of kube-proxy": {func(w *Want) { w.KubeProxyMode = "nftables" },
			"runs with --kube-proxy-mode=iptables, which cannot change"},
		"durability later":  {func(w *Want) { w.Durable = &yes }, "cannot change"},
		"another state dir": {func(w *Want) { w.Dir = "/other" }, "has the state directory /checkout/.playground"},
		"a bad name":        {func(w *Want) { w.Clusters = []string{"Rome"} }, "lower-case"},
		"overlapping CIDRs": {func(w *Want) {
			w.Clusters = []string{"x"}
			w.ServiceCIDRs = map[string]netip.Prefix{"": DefaultPodCIDR}
		}, "overlap"},
		"a pool of one subnet": {func(w *Want) { w.Clusters = []string{"x"}; w.Pool = netip.MustParsePrefix("172.30.0.0/24") }, "no free /24"},
	} {
		t.Run(name, func(t *testing.T) {
			first := want("rome")
			first.FakeNodes = number(2)
			i := planned(t, first)
			w := want("rome")
			test.change(&w)
			err := plan(i, w, nil)
			if err == nil || !strings.Contains(err.Error(), test.reason) {
				t.Fatalf("want %q, got %v", test.reason, err)
			}
		})
	}
}

func TestClustersKeepTheirModeOfKubeProxy(t *testing.T) {
	i := planned(t, want("rome"))
	// The record of an older program has no mode.
	i.Clusters[0].KubeProxyMode = ""
	for _, test := range []struct{ cluster, mode string }{
		{"rome", ""}, {"rome", "iptables"}, {"milan", "nftables"}, {"milan", ""}, {"milan", "nftables"},
	} {
		w := want(test.cluster)
		w.KubeProxyMode = test.mode
		if err := plan(i, w, nil); err != nil {
			t.Errorf("%+v: %v", test, err)
		}
	}
	if rome, milan := i.Clusters[0].KubeProxyMode, i.Clusters[1].KubeProxyMode; rome != "" || milan != "nftables" {
		t.Errorf("rome has mode %q, and milan %q", rome, milan)
	}
	w := want("milan")
	w.KubeProxyMode = "iptables"
	if err := plan(i, w, nil); err == nil || !strings.Contains(err.Error(), "--kube-proxy-mode=nftables") {
		t.Errorf("another mode: %v", err)
	}
}

func TestNetworkPoliciesCanChange(t *testing.T) {
	yes, no := true, false
	i := planned(t, want("rome", "milan"))
	for _, test := range []struct {
		want        *bool
		rome, milan bool
	}{{nil, false, false}, {&yes, false, true}, {nil, false, true}, {&no, false, false}} {
		w := want("milan")
		w.NetworkPolicies = test.want
		if err := plan(i, w, nil); err != nil {
			t.Fatal(err)
		}
		if rome, milan := i.Clusters[0], i.Clusters[1]; rome.NetworkPolicies != test.rome ||
			milan.NetworkPolicies != test.milan {
			t.Errorf("want %+v, got %t on rome and %t on milan", test, rome.NetworkPolicies, milan.NetworkPolicies)
		}
	}
}

func TestParseReady(t *testing.T) {
	got, err := parseReady("a True\nb False\nc Unknown\nd \n")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "Ready", "b": "NotReady", "c": "Unknown", "d": "NotReady"},
		got); diff != "" {
		t.Error(diff)
	}
	if _, err := parseReady("a Perhaps\n"); err == nil {
		t.Error("a condition that does not exist was accepted")
	}
}

func TestInstanceWithoutStateDirectoryIsAbandoned(t *testing.T) {
	w := want("rome")
	w.Dir = t.TempDir()
	i := planned(t, w)
	if err := mark(i); err != nil {
		t.Fatal(err)
	}
	if lost, err := abandoned(i, w.Dir); lost || err != nil {
		t.Fatalf("abandoned at once: %v, %v", lost, err)
	}
	// Running daemons may create files in the deleted directory.
	if err := os.RemoveAll(i.Path()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(i.Path("nodes"), 0o755); err != nil {
		t.Fatal(err)
	}
	if lost, err := abandoned(i, w.Dir); !lost || err != nil {
		t.Fatalf("not abandoned: %v, %v", lost, err)
	}
}

func TestInstanceOfAnotherCheckoutThatDoesNotRunIsAbandoned(t *testing.T) {
	w := want("rome")
	w.Dir = t.TempDir()
	i := planned(t, w)
	if err := mark(i); err != nil {
		t.Fatal(err)
	}
	self, err := sandbox.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	i.Router = self
	if lost, err := abandoned(i, t.TempDir()); lost || err != nil {
		t.Errorf("abandoned while the instance runs: %v, %v", lost, err)
	}
	i.Router = state.Process{}
	if lost, err := abandoned(i, t.TempDir()); !lost || err != nil {
		t.Errorf("not abandoned: %v, %v", lost, err)
	}
	if lost, err := abandoned(i, w.Dir); lost || err != nil {
		t.Errorf("abandoned for its own state directory: %v, %v", lost, err)
	}
}
