// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apply makes a network namespace hold what the model says: it reads,
// compares, and writes what differs. Where nothing does, nothing is written.
//
// What a state's scope does not take in is never touched: ours are the links of
// known names and what is on them, routes and rules of one protocol, and chains
// of one prefix.
package apply

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// Applier applies states to one namespace. It is not for several goroutines.
type Applier struct {
	kernel kernel.Kernel
	writes int
	// endpoints are those that peers were given. One that was heard from
	// elsewhere since then has moved, and is left there.
	endpoints map[model.PublicKey]netip.AddrPort
	// nat is what the table nat was last seen to do as it should, and stale are the
	// translations whose connections are to be forgotten.
	nat   map[model.Family]effects
	stale map[model.Family][]kernel.Translation
}

// New returns an applier of a namespace.
func New(k kernel.Kernel) *Applier {
	return &Applier{
		kernel: k, endpoints: make(map[model.PublicKey]netip.AddrPort),
		nat: make(map[model.Family]effects), stale: make(map[model.Family][]kernel.Translation),
	}
}

// Apply makes the namespace hold a state, and returns how often it wrote. It
// does as much as it can; after an error, apply again. Connections that could not
// be forgotten are no error. States are applied in this order: the gateway's host,
// the gateway's inside, the route agent's.
func (a *Applier) Apply(s model.State) (writes int, err error) {
	a.writes = 0
	errs := []error{a.links(s), a.sysctls(s), a.onLinks(s), a.narrow(s)}
	// What a peer may call is written before it can call anything, and is not
	// widened before others have lost it.
	unguarded, err := a.chains(s)
	errs = append(errs, err, a.tunnel(s, unguarded), a.routes(s), a.rules(s))
	a.forget()
	return a.writes, errors.Join(errs...)
}

// Teardown removes everything within a scope.
func (a *Applier) Teardown(scope model.Scope) (writes int, err error) {
	return a.Apply(model.State{Scope: scope})
}

// write counts a write.
func (a *Applier) write(err error) error {
	a.writes++
	return err
}

// difference is what must go and what must be written, so that what there is
// becomes what is wanted. What has the same key is replaced by writing.
type difference[V any] struct {
	gone, set []V
}

func diff[K comparable, V any](have, want []V, key func(V) K, same func(have, want V) bool) difference[V] {
	var d difference[V]
	there := make(map[K]V, len(have))
	for _, v := range have {
		there[key(v)] = v
	}
	wanted := make(map[K]bool, len(want))
	for _, v := range want {
		k := key(v)
		wanted[k] = true
		if old, ok := there[k]; !ok || !same(old, v) {
			d.set = append(d.set, v)
		}
	}
	for _, v := range have {
		if !wanted[key(v)] {
			d.gone = append(d.gone, v)
		}
	}
	return d
}

// do deletes and writes a difference, and goes on after errors.
func do[V any](a *Applier, d difference[V], remove, set func(V) error) error {
	var errs []error
	for _, v := range d.gone {
		errs = append(errs, a.write(remove(v)))
	}
	for _, v := range d.set {
		errs = append(errs, a.write(set(v)))
	}
	return errors.Join(errs...)
}

func itself[V any](v V) V             { return v }
func equal[V comparable](a, b V) bool { return a == b }

func (a *Applier) links(s model.State) error {
	all, err := a.kernel.Links()
	if err != nil {
		return err
	}
	var errs []error
	have := make(map[string]kernel.Link)
	for _, l := range all {
		if !slices.Contains(s.Scope.Links, l.Name) {
			continue
		}
		at := slices.IndexFunc(s.Links, func(want model.Link) bool { return want.Name == l.Name })
		if at < 0 || !sameLink(l.Link, s.Links[at]) {
			if at < 0 && l.Kind == model.VethEnd {
				continue // it goes with its other end
			}
			if err := a.write(a.kernel.DeleteLink(l.Name)); err != nil {
				errs = append(errs, err)
				have[l.Name] = l
			}
			continue
		}
		have[l.Name] = l
	}
	for _, want := range s.Links {
		l, there := have[want.Name]
		if there && l.Up && l.MTU == want.MTU && l.MAC == want.MAC {
			continue
		}
		if !there {
			if err := a.write(a.kernel.AddLink(want)); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		errs = append(errs, a.write(a.kernel.SetLink(want)))
	}
	return errors.Join(errs...)
}

// sameLink tells whether a link can become another one without being made anew.
func sameLink(have, want model.Link) bool {
	return have.Kind == want.Kind && have.VNI == want.VNI && have.Port == want.Port && have.Local == want.Local
}

func (a *Applier) sysctls(s model.State) error {
	var errs []error
	for _, want := range s.Sysctls {
		value, err := a.kernel.Sysctl(want.Path)
		if err == nil && value != want.Value {
			err = a.write(a.kernel.SetSysctl(want))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("setting %s to %s: %w", want.Path, want.Value, err))
		}
	}
	return errors.Join(errs...)
}

// onLinks applies what is on links: addresses, neighbours, forwarding entries.
func (a *Applier) onLinks(s model.State) error {
	var errs []error
	for _, l := range s.Links {
		errs = append(errs, a.onLink(s, l))
	}
	return errors.Join(errs...)
}

func (a *Applier) onLink(s model.State, l model.Link) error {
	k := a.kernel
	addresses, err := k.Addresses(l.Name)
	if err != nil {
		return err
	}
	neighbors, err := k.Neighbors(l.Name)
	if err != nil {
		return err
	}
	errs := []error{
		do(a, diff(addresses, on(l.Name, s.Addresses, func(x model.Address) string { return x.Link }), itself, equal),
			k.DeleteAddress, k.AddAddress),
		do(a, diff(neighbors, on(l.Name, s.Neighbors, func(x model.Neighbor) string { return x.Link }),
			func(x model.Neighbor) netip.Addr { return x.Addr }, equal), k.DeleteNeighbor, k.SetNeighbor),
	}
	if l.Kind == model.VXLAN {
		forwards, err := k.FDBEntries(l.Name)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		errs = append(errs, do(a, diff(forwards, on(l.Name, s.FDBEntries, func(x model.FDBEntry) string { return x.Link }),
			func(x model.FDBEntry) model.MAC { return x.MAC }, equal), k.DeleteFDBEntry, k.SetFDBEntry))
	}
	return errors.Join(errs...)
}

// on picks what is on one link.
func on[V any](link string, all []V, of func(V) string) []V {
	var some []V
	for _, v := range all {
		if of(v) == link {
			some = append(some, v)
		}
	}
	return some
}

func (a *Applier) routes(s model.State) error {
	if !s.Scope.Routing {
		return nil
	}
	have, err := a.kernel.Routes()
	if err != nil {
		return err
	}
	type key struct {
		table int
		dst   netip.Prefix
	}
	return do(a, diff(have, s.Routes, func(r model.Route) key { return key{r.Table, r.Dst} }, equal), a.kernel.DeleteRoute, a.kernel.ReplaceRoute)
}

func (a *Applier) rules(s model.State) error {
	if !s.Scope.Routing {
		return nil
	}
	have, err := a.kernel.Rules()
	if err != nil {
		return err
	}
	return do(a, diff(have, s.Rules, itself, equal), a.kernel.DeleteRule, a.kernel.AddRule)
}
