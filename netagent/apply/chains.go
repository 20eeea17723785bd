// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// chains writes the iptables tables that differ. It returns the IP families with a table that could not be read or
// written.
func (a *Applier) chains(s model.State) (unguarded []model.Family, err error) {
	var errs []error
	for _, f := range s.Scope.Families {
		chains, jumps, err := a.kernel.Chains(f)
		if err != nil {
			errs, unguarded = append(errs, err), append(unguarded, f)
			continue
		}
		wanted := slices.DeleteFunc(slices.Clone(s.Chains), func(c model.Chain) bool { return c.Family != f })
		changes := tableChanges(f, chains, wanted, jumps, s.Jumps)
		for _, table := range slices.Sorted(maps.Keys(changes)) {
			err := a.changeTable(f, table, changes[table])
			if err != nil {
				errs, unguarded = append(errs, err), append(unguarded, f)
			} else if table == model.NATTable {
				now := natEffects(f, wanted, s.Jumps)
				a.stale[f] = append(a.stale[f], staleTranslations(a.nat[f], natEffects(f, chains, jumps), now)...)
				a.nat[f] = now
			}
		}
		if a.nat[f] == nil {
			a.nat[f] = natEffects(f, wanted, s.Jumps)
		}
	}
	return unguarded, errors.Join(errs...)
}

// tableChange is the difference between the current and the wanted state of a table: the chains to write (set) and to
// delete (gone), and the jumps to add (missing) and to delete (surplus).
type tableChange struct {
	set              []model.Chain
	gone             []string
	missing, surplus []model.Jump
}

// tableChanges returns the changes of the iptables tables of a family, by name of the table.
func tableChanges(
	f model.Family,
	chains, wanted []model.Chain,
	jumps, wantedJumps []model.Jump,
) map[string]*tableChange {
	changes := make(map[string]*tableChange)
	in := func(table string) *tableChange {
		if changes[table] == nil {
			changes[table] = &tableChange{}
		}
		return changes[table]
	}
	type name struct{ table, chain string }
	d := diff(chains, wanted,
		func(c model.Chain) name { return name{c.Table, c.Name} },
		func(have, want model.Chain) bool { return slices.Equal(have.Rules, want.Rules) })
	for _, c := range d.set {
		in(c.Table).set = append(in(c.Table).set, c)
	}
	for _, c := range d.gone {
		in(c.Table).gone = append(in(c.Table).gone, c.Name)
	}
	missing, surplus := jumpDifference(f, jumps, wantedJumps)
	for _, j := range missing {
		in(j.Table).missing = append(in(j.Table).missing, j)
	}
	for _, j := range surplus {
		in(j.Table).surplus = append(in(j.Table).surplus, j)
	}
	return changes
}

// changeTable changes a table: its chains in one call to the kernel, then each jump in a call of its own. Chains
// to which surplus jumps lead can be deleted only after these jumps, in a last call.
func (a *Applier) changeTable(f model.Family, table string, c *tableChange) error {
	first := kernel.ChainChange{Set: c.set}
	if len(c.surplus) == 0 {
		first.Delete = c.gone
	}
	if len(first.Set)+len(first.Delete) > 0 {
		if err := a.write(a.kernel.ChangeChains(f, table, first)); err != nil {
			return err
		}
	}
	for _, j := range c.missing {
		if err := a.write(a.kernel.AddJump(j)); err != nil {
			return fmt.Errorf("adding the jump from %s to %s: %w", j.Base, j.Chain, err)
		}
	}
	for _, j := range c.surplus {
		if err := a.write(a.kernel.DeleteJump(j)); err != nil {
			return fmt.Errorf("deleting the jump from %s to %s: %w", j.Base, j.Chain, err)
		}
	}
	if len(c.surplus) > 0 && len(c.gone) > 0 {
		return a.write(a.kernel.ChangeChains(f, table, kernel.ChainChange{Delete: c.gone}))
	}
	return nil
}

// natEffects returns the effects of the rules in the nat table of a family.
func natEffects(f model.Family, chains []model.Chain, jumps []model.Jump) effects {
	return effectsOf(
		slices.DeleteFunc(slices.Clone(chains), func(c model.Chain) bool { return c.Table != model.NATTable }),
		slices.DeleteFunc(slices.Clone(jumps), func(j model.Jump) bool { return j.Table != model.NATTable || j.Family != f }))
}

// jumpDifference returns the missing and the surplus jumps. It ignores the position of a jump, as other programs
// may insert rules before it.
func jumpDifference(f model.Family, have, want []model.Jump) (missing, surplus []model.Jump) {
	counts := make(map[model.Jump]int)
	for _, j := range have {
		counts[j]++
	}
	for _, j := range want {
		plain := j
		plain.Last = false
		if j.Family != f {
			continue
		}
		if counts[plain] == 0 {
			missing = append(missing, j)
		} else {
			counts[plain]--
		}
	}
	for j, count := range counts {
		for range count {
			surplus = append(surplus, j)
		}
	}
	return missing, surplus
}
