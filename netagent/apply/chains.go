// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"maps"
	"slices"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// chains changes the tables that differ, each in one call. It returns the families
// of which not all tables are as they should be.
func (a *Applier) chains(s model.State) (unguarded []model.Family, err error) {
	var errs []error
	for _, f := range s.Scope.Families {
		chains, jumps, err := a.kernel.Chains(f)
		if err != nil {
			errs, unguarded = append(errs, err), append(unguarded, f)
			continue
		}
		changes := make(map[string]*kernel.ChainChange)
		in := func(table string) *kernel.ChainChange {
			if changes[table] == nil {
				changes[table] = &kernel.ChainChange{}
			}
			return changes[table]
		}
		wanted := slices.DeleteFunc(slices.Clone(s.Chains), func(c model.Chain) bool { return c.Family != f })
		type name struct{ table, chain string }
		d := diff(chains, wanted,
			func(c model.Chain) name { return name{c.Table, c.Name} },
			func(have, want model.Chain) bool { return slices.Equal(have.Rules, want.Rules) })
		for _, c := range d.set {
			in(c.Table).Set = append(in(c.Table).Set, c)
		}
		for _, c := range d.gone {
			in(c.Table).Delete = append(in(c.Table).Delete, c.Name)
		}
		missing, spare := jumpDifference(f, jumps, s.Jumps)
		for _, j := range missing {
			in(j.Table).AddJumps = append(in(j.Table).AddJumps, j)
		}
		for _, j := range spare {
			in(j.Table).DeleteJumps = append(in(j.Table).DeleteJumps, j)
		}
		for _, table := range slices.Sorted(maps.Keys(changes)) {
			err := a.write(a.kernel.ChangeChains(f, table, *changes[table]))
			if err != nil {
				errs, unguarded = append(errs, err), append(unguarded, f)
			} else if table == model.NATTable {
				now := natEffects(f, wanted, s.Jumps)
				a.stale[f] = append(a.stale[f], translations(a.nat[f], natEffects(f, chains, jumps), now)...)
				a.nat[f] = now
			}
		}
		if a.nat[f] == nil {
			a.nat[f] = natEffects(f, wanted, s.Jumps)
		}
	}
	return unguarded, errors.Join(errs...)
}

// natEffects are those of the table nat of a family.
func natEffects(f model.Family, chains []model.Chain, jumps []model.Jump) effects {
	return effectsOf(
		slices.DeleteFunc(slices.Clone(chains), func(c model.Chain) bool { return c.Table != model.NATTable }),
		slices.DeleteFunc(slices.Clone(jumps), func(j model.Jump) bool { return j.Table != model.NATTable || j.Family != f }))
}

// jumpDifference tells which jumps are missing, and which are there once too
// often. Where among the rules of others one stands does not matter: others may
// want to be first as well.
func jumpDifference(f model.Family, have, want []model.Jump) (missing, spare []model.Jump) {
	there := make(map[model.Jump]int)
	for _, j := range have {
		there[j]++
	}
	for _, j := range want {
		plain := j
		plain.Last = false
		if j.Family != f {
			continue
		}
		if there[plain] == 0 {
			missing = append(missing, j)
		} else {
			there[plain]--
		}
	}
	for j, count := range there {
		for range count {
			spare = append(spare, j)
		}
	}
	return missing, spare
}
