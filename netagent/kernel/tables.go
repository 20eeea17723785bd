// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/coreos/go-iptables/iptables"

	"liqo.io/federation/netagent/model"
)

// backend is one of the two implementations of iptables. Rules of one are invisible to the other.
type backend string

const (
	nft    backend = "nft"
	legacy backend = "legacy"
)

// lockTimeout bounds how long a change waits for the xtables lock, in seconds.
const lockTimeout = 5

// program returns the name of the iptables program of the backend for a family.
func (b backend) program(f model.Family) string {
	if f == model.IPv6 {
		return "ip6tables-" + string(b)
	}
	return "iptables-" + string(b)
}

// Backend returns the iptables backend that the node uses, "nft" or "legacy". It fails if neither can be read.
func (n *Namespace) Backend() (string, error) {
	b, err := n.backend()
	return string(b), err
}

// UseBackend sets the iptables backend, "nft" or "legacy", so that it is not detected. It fails for any other
// name.
func (n *Namespace) UseBackend(name string) error {
	b := backend(name)
	if b != nft && b != legacy {
		return fmt.Errorf("iptables backend %q: must be %q or %q", name, nft, legacy)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tables = &b
	return nil
}

// backend returns the iptables backend. It detects the backend on the first call.
func (n *Namespace) backend() (backend, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tables != nil {
		return *n.tables, nil
	}
	found, err := detectBackend(func(b backend, f model.Family) (string, error) { return n.run(b, f, "save", "") })
	if err != nil {
		return "", err
	}
	n.tables = &found
	return found, nil
}

// detectBackend returns the iptables backend that the node's other components use: the one with a chain of the kubelet,
// otherwise the one with more rules, otherwise nft. A node may lack a backend, or IPv6. As the choice is permanent and
// an error may be transient, legacy is selected after an error of nft only if legacy has rules. If neither is selected,
// detectBackend returns the first error.
func detectBackend(save func(backend, model.Family) (string, error)) (backend, error) {
	var failed error
	rules := make(map[backend]int)
	for _, b := range []backend{nft, legacy} {
		for _, f := range []model.Family{model.IPv4, model.IPv6} {
			out, err := save(b, f)
			if err != nil {
				if failed == nil {
					failed = err
				}
				continue
			}
			if strings.Contains(out, "\n:KUBE-IPTABLES-HINT ") || strings.Contains(out, "\n:KUBE-KUBELET-CANARY ") {
				return b, nil
			}
			rules[b] += strings.Count(out, "\n-A ")
		}
	}
	held, works := rules[nft]
	switch {
	case rules[legacy] > held:
		return legacy, nil
	case works:
		return nft, nil
	}
	return "", failed
}

// Chains returns the chains that the agents own, and the jumps to them.
func (n *Namespace) Chains(f model.Family) ([]model.Chain, []model.Jump, error) {
	b, err := n.backend()
	if err != nil {
		return nil, nil, err
	}
	out, err := n.run(b, f, "save", "")
	if err != nil {
		return nil, nil, err
	}
	chains, jumps := parseTables(f, out)
	return chains, jumps, nil
}

// ChangeChains changes the chains of one table.
func (n *Namespace) ChangeChains(f model.Family, table string, change ChainChange) error {
	b, err := n.backend()
	if err != nil {
		return err
	}
	_, err = n.run(b, f, "restore", writeTable(table, change), "--noflush", "-w", strconv.Itoa(lockTimeout))
	return err
}

// AddJump adds a jump unless it exists at any position in its chain.
func (n *Namespace) AddJump(j model.Jump) error {
	return n.changeRule(j.Family, func(rules *iptables.IPTables) error {
		if j.Last {
			return rules.AppendUnique(j.Table, j.Base, "-j", j.Chain)
		}
		return rules.InsertUnique(j.Table, j.Base, 1, "-j", j.Chain)
	})
}

// DeleteJump deletes one occurrence of a jump. It is no error if there is none.
func (n *Namespace) DeleteJump(j model.Jump) error {
	return n.changeRule(j.Family, func(rules *iptables.IPTables) error {
		return rules.DeleteIfExists(j.Table, j.Base, "-j", j.Chain)
	})
}

// changeRule calls change in the namespace, with a client that adds or deletes single rules.
func (n *Namespace) changeRule(f model.Family, change func(*iptables.IPTables) error) error {
	b, err := n.backend()
	if err != nil {
		return err
	}
	rules, err := newRules(b, f)
	if err != nil {
		return err
	}
	return n.Do(func() error { return change(rules) })
}

// newRules returns a client that adds or deletes single rules of a family.
func newRules(b backend, f model.Family) (*iptables.IPTables, error) {
	program, protocol := b.program(f), iptables.ProtocolIPv4
	if f == model.IPv6 {
		protocol = iptables.ProtocolIPv6
	}
	rules, err := iptables.New(iptables.Path(program), iptables.IPFamily(protocol), iptables.Timeout(lockTimeout))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", program, withHint(err, missingIptables()))
	}
	return rules, nil
}

// run runs iptables-save or iptables-restore for a family and returns its output. It fails with the program's
// error output.
func (n *Namespace) run(b backend, f model.Family, verb, input string, args ...string) (string, error) {
	program := b.program(f) + "-" + verb
	var out, failure bytes.Buffer
	err := n.Do(func() error {
		cmd := exec.Command(program, args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &failure
		return cmd.Run()
	})
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, withHint(err, missingIptables()), strings.TrimSpace(failure.String()))
	}
	return out.String(), nil
}

// parseTables returns the chains that the agents own, and the jumps to them, from the output of iptables-save.
func parseTables(f model.Family, text string) ([]model.Chain, []model.Jump) {
	var chains []model.Chain
	var jumps []model.Jump
	table := ""
	at := make(map[string]int) // indexes of the current table's chains
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "*"):
			table = line[1:]
			clear(at)
		case strings.HasPrefix(line, ":"+model.ChainPrefix):
			name, _, _ := strings.Cut(line[1:], " ")
			at[name] = len(chains)
			chains = append(chains, model.Chain{Family: f, Table: table, Name: name})
		case strings.HasPrefix(line, "-A "):
			name, rule, _ := strings.Cut(line[3:], " ")
			if i, owned := at[name]; owned {
				chains[i].Rules = append(chains[i].Rules, rule)
			} else if target, ok := strings.CutPrefix(rule, "-j "+model.ChainPrefix); ok {
				jumps = append(jumps, model.Jump{Family: f, Table: table, Base: name, Chain: model.ChainPrefix + target})
			}
		}
	}
	return chains, jumps
}

// writeTable returns a change as input of iptables-restore --noflush, which flushes the chains that the input
// declares and keeps all other chains.
func writeTable(table string, change ChainChange) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%s\n", table)
	for _, c := range change.Set {
		fmt.Fprintf(&b, ":%s - [0:0]\n", c.Name)
	}
	for _, c := range change.Set {
		for _, rule := range c.Rules {
			fmt.Fprintf(&b, "-A %s %s\n", c.Name, rule)
		}
	}
	for _, name := range change.Delete {
		fmt.Fprintf(&b, "-F %s\n", name)
	}
	for _, name := range change.Delete {
		fmt.Fprintf(&b, "-X %s\n", name)
	}
	b.WriteString("COMMIT\n")
	return b.String()
}
