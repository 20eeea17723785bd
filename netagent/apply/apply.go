// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apply makes a network namespace match a state of package model: it reads the kernel, compares, and
// writes the differences. It never changes an object outside of the state's scope.
package apply

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// Applier applies states to one network namespace. It is not safe for concurrent use.
type Applier struct {
	kernel kernel.Kernel
	writes int
	// endpoints are the endpoints that were configured last. If the kernel has another endpoint for a peer, WireGuard
	// learned it from packets of the peer, and it is not overwritten.
	endpoints map[model.PublicKey]netip.AddrPort
	// nat holds the effects of the rules in the nat table that was applied last. stale holds the translations
	// whose connections are still to be flushed.
	nat   map[model.Family]effects
	stale map[model.Family][]kernel.Translation
}

// New returns an applier for a namespace.
func New(k kernel.Kernel) *Applier {
	return &Applier{
		kernel: k, endpoints: make(map[model.PublicKey]netip.AddrPort),
		nat: make(map[model.Family]effects), stale: make(map[model.Family][]kernel.Translation),
	}
}

// Apply makes the namespace match a state and returns the number of writes. It continues after errors, and may be
// called again to retry. It logs connections that could not be flushed instead of returning an error, and flushes
// them in the next call. States must be applied in this order: the gateway's node, the gateway's namespace, the
// route agent.
func (a *Applier) Apply(s model.State) (writes int, err error) {
	a.writes = 0
	errs := []error{a.links(s), a.sysctls(s), a.onLinks(s), a.shrinkTunnel(s)}
	// Filter chains are written before a peer can send packets, and a peer gets a range only after every other
	// peer has lost it.
	unguarded, err := a.chains(s)
	errs = append(errs, err, a.tunnel(s, unguarded), a.routes(s), a.rules(s))
	a.flush()
	return a.writes, errors.Join(errs...)
}

// Teardown deletes all objects within a scope and returns the number of writes. It continues after errors.
func (a *Applier) Teardown(scope model.Scope) (writes int, err error) {
	return a.Apply(model.State{Scope: scope})
}

// write counts a write to the kernel, and returns the error that the write returned.
func (a *Applier) write(err error) error {
	a.writes++
	return err
}

// difference holds the objects to delete (gone) and to write (set). Writing an object replaces the one with the
// same key.
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

// applyDifference deletes and writes objects, and continues after errors.
func applyDifference[V any](a *Applier, d difference[V], remove, set func(V) error) error {
	var errs []error
	for _, v := range d.gone {
		errs = append(errs, a.write(remove(v)))
	}
	for _, v := range d.set {
		errs = append(errs, a.write(set(v)))
	}
	return errors.Join(errs...)
}

func identity[V any](v V) V           { return v }
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
				continue // the kernel deleted it together with its other end
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

// sameLink reports whether a link can be changed into the wanted one without recreating it.
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

// onLinks applies the objects that belong to a link: addresses, neighbours, FDB entries.
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
		applyDifference(
			a,
			diff(addresses, onLinkNamed(l.Name, s.Addresses, func(x model.Address) string { return x.Link }), identity, equal),
			k.DeleteAddress,
			k.AddAddress,
		),
		applyDifference(a, diff(neighbors, onLinkNamed(l.Name, s.Neighbors, func(x model.Neighbor) string { return x.Link }),
			func(x model.Neighbor) netip.Addr { return x.Addr }, equal), k.DeleteNeighbor, k.SetNeighbor),
	}
	if l.Kind == model.VXLAN {
		forwards, err := k.FDBEntries(l.Name)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		errs = append(
			errs,
			applyDifference(a, diff(forwards, onLinkNamed(l.Name, s.FDBEntries, func(x model.FDBEntry) string { return x.Link }),
				func(x model.FDBEntry) model.MAC { return x.MAC }, equal), k.DeleteFDBEntry, k.SetFDBEntry),
		)
	}
	return errors.Join(errs...)
}

// onLinkNamed returns the objects on one link.
func onLinkNamed[V any](link string, all []V, of func(V) string) []V {
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
	return applyDifference(
		a,
		diff(have, s.Routes, func(r model.Route) key { return key{r.Table, r.Dst} }, equal),
		a.kernel.DeleteRoute,
		a.kernel.ReplaceRoute,
	)
}

func (a *Applier) rules(s model.State) error {
	if !s.Scope.Routing {
		return nil
	}
	have, err := a.kernel.Rules()
	if err != nil {
		return err
	}
	return applyDifference(a, diff(have, s.Rules, identity, equal), a.kernel.DeleteRule, a.kernel.AddRule)
}
