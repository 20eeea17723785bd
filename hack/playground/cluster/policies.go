// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"liqo.io/federation/hack/playground/sandbox"
	"liqo.io/federation/hack/playground/state"
)

// PolicyEngine is the daemon that enforces NetworkPolicies on a node.
const PolicyEngine = "kube-router"

// policyUser is the user as which the policy engine reads from the API server, and the name of its ClusterRole.
const policyUser = "playground:" + PolicyEngine

// PolicyDaemon returns the policy engine of a node. It must start after the node is Ready, as it exits if its Node has
// no address.
func (c *Cluster) PolicyDaemon(n *state.Node) sandbox.Command {
	kubeconfig := c.path(PolicyEngine + ".kubeconfig")
	return c.daemon(n, PolicyEngine, []string{kubeconfig},
		"--kubeconfig="+kubeconfig,
		"--hostname-override="+n.Name,
		"--run-firewall=true",
		// Routes and Services belong to the playground and to kube-proxy.
		"--run-router=false",
		"--run-service-proxy=false",
		"--service-cluster-ip-range="+c.ServiceCIDR.String(),
		// The server of the health port listens on all addresses, and also serves profiles.
		"--health-port=0",
		"--v=1",
	)
}

// WaitForPolicies waits until the policy engine has applied the NetworkPolicies to the pods of a node. It returns at
// once if an earlier process of the policy engine has done so. It fails if the policy engine ends, or after
// readyDeadline.
func (c *Cluster) WaitForPolicies(ctx context.Context, n *state.Node) error {
	return poll(ctx, func() error {
		saved, err := c.savedFilter(ctx, n)
		if err == nil && !appliesPolicies(saved) {
			return fmt.Errorf("%s on %s has not applied NetworkPolicies yet", PolicyEngine, n.Name)
		}
		return err
	}, func() error {
		return c.checkDaemons(n, PolicyEngine)
	})
}

// RemovePolicies stops the policy engine of a node, and deletes its iptables chains and ipsets.
func (c *Cluster) RemovePolicies(ctx context.Context, n *state.Node) error {
	running, err := sandbox.Daemons(n.Holder)
	if err != nil {
		return err
	}
	if daemon, ok := running[PolicyEngine]; ok {
		if err := sandbox.Stop(ctx, daemon.Process); err != nil {
			return fmt.Errorf("%s on %s: %w", PolicyEngine, n.Name, err)
		}
	}
	saved, err := c.savedFilter(ctx, n)
	if err != nil {
		return err
	}
	if input := deletePolicyChains(saved); input != "" {
		_, err := c.run(ctx, n, strings.NewReader(input), "iptables-restore", "--wait", "--noflush")
		if err != nil {
			return err
		}
	}
	// The kernel uses the sets of a deleted rule for some time.
	return poll(ctx, func() error {
		sets, err := c.run(ctx, n, nil, "ipset", "list", "-name")
		if err != nil {
			return err
		}
		input := deletePolicySets(sets)
		if input == "" {
			return nil
		}
		_, err = c.run(ctx, n, strings.NewReader(input), "ipset", "restore")
		return err
	}, func() error { return nil })
}

// DeletePolicyRights deletes the rights of the policy engine in the cluster.
func (c *Cluster) DeletePolicyRights(ctx context.Context) error {
	return c.kubectl(ctx, policyManifest(), "delete", "--ignore-not-found", "-f", "-")
}

// policyManifest returns the objects with the rights of the policy engine.
func policyManifest() []byte {
	return render(addonTemplates.Lookup("policies.yaml"), struct{ User string }{policyUser})
}

// savedFilter returns the rules of the iptables table filter of a node.
func (c *Cluster) savedFilter(ctx context.Context, n *state.Node) (string, error) {
	return c.run(ctx, n, nil, "iptables-save", "--table", "filter")
}

// appliesPolicies reports whether the output of iptables-save has the rule that the policy engine adds last, which
// accepts the packets that the policy engine admitted.
func appliesPolicies(saved string) bool {
	for line := range strings.Lines(saved) {
		if strings.HasPrefix(line, "-A KUBE-ROUTER-FORWARD ") && strings.Contains(line, " --mark 0x20000/0x20000 ") {
			return true
		}
	}
	return false
}

// deletePolicyChains returns the input of iptables-restore that deletes the chains of the policy engine, and the rules
// that jump to them, from the output of iptables-save. It is empty if there are none.
func deletePolicyChains(saved string) string {
	var flushed, jumps, deleted strings.Builder
	for line := range strings.Lines(saved) {
		if chain, ok := strings.CutPrefix(line, ":"); ok {
			if chain, _, _ = strings.Cut(chain, " "); isPolicyChain(chain) {
				fmt.Fprintf(&flushed, ":%s - [0:0]\n", chain)
				fmt.Fprintf(&deleted, "-X %s\n", chain)
			}
		}
		if rule, ok := strings.CutPrefix(line, "-A "); ok {
			words := strings.Fields(rule)
			jump := slices.Index(words, "-j")
			if !isPolicyChain(words[0]) && jump >= 0 && jump+1 < len(words) && isPolicyChain(words[jump+1]) {
				jumps.WriteString("-D " + rule)
			}
		}
	}
	if deleted.Len() == 0 {
		return ""
	}
	return "*filter\n" + flushed.String() + jumps.String() + deleted.String() + "COMMIT\n"
}

// deletePolicySets returns the input of ipset restore that deletes the sets of the policy engine, from the names of all
// sets. It is empty if there are none.
func deletePolicySets(names string) string {
	var b strings.Builder
	for _, name := range strings.Fields(names) {
		if hasPrefix(name, "KUBE-SRC-", "KUBE-DST-", "TMP-") {
			fmt.Fprintf(&b, "destroy %s\n", name)
		}
	}
	return b.String()
}

func isPolicyChain(name string) bool {
	return hasPrefix(name, "KUBE-ROUTER-", "KUBE-NWPLCY-", "KUBE-POD-FW-")
}

func hasPrefix(name string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}
