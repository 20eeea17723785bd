// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/federation/netagent/model"
)

// Routes returns the routes that the agents own.
func (n *Namespace) Routes() ([]model.Route, error) {
	var all []netlink.Route
	filter := &netlink.Route{Protocol: model.RouteProtocol}
	err := retry(func() (err error) {
		all = nil
		for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			some, err := n.handle.RouteListFiltered(family, filter, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
			if err != nil {
				return err
			}
			all = append(all, some...)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	names, err := n.linkNames()
	if err != nil {
		return nil, err
	}
	var routes []model.Route
	for _, r := range all {
		routes = append(routes, model.Route{
			Table: r.Table, Dst: destination(r), Via: addrOf(r.Gw), Link: names[r.LinkIndex], Src: addrOf(r.Src), MTU: r.MTU,
		})
	}
	return routes, nil
}

func destination(r netlink.Route) netip.Prefix {
	if r.Dst == nil {
		if r.Family == netlink.FAMILY_V4 {
			return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		}
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return cidrOf(r.Dst)
}

// ReplaceRoute creates a route, or replaces the route with the same table and destination.
func (n *Namespace) ReplaceRoute(r model.Route) error {
	return n.route("writing", r, n.handle.RouteReplace)
}

// DeleteRoute deletes a route.
func (n *Namespace) DeleteRoute(r model.Route) error {
	return ignoreGone(n.route("deleting", r, n.handle.RouteDel))
}

func (n *Namespace) route(doing string, r model.Route, do func(*netlink.Route) error) error {
	index, err := n.index(r.Link)
	if err == nil {
		route := &netlink.Route{
			LinkIndex: index, Table: r.Table, Dst: netOf(r.Dst), Protocol: model.RouteProtocol,
			Gw: r.Via.AsSlice(), Src: r.Src.AsSlice(), MTU: r.MTU,
		}
		if r.Via.IsValid() {
			route.Flags = int(netlink.FLAG_ONLINK)
		} else if r.Dst.Addr().Is4() {
			route.Scope = netlink.SCOPE_LINK
		}
		err = do(route)
	}
	if err != nil {
		return fmt.Errorf("%s the route to %s in table %d by %s: %w", doing, r.Dst, r.Table, r.Link, err)
	}
	return nil
}

func (n *Namespace) linkNames() (map[int]string, error) {
	var links []netlink.Link
	if err := retry(func() (err error) { links, err = n.handle.LinkList(); return err }); err != nil {
		return nil, fmt.Errorf("listing links: %w", err)
	}
	names := make(map[int]string, len(links))
	indexes := make(map[string]int, len(links))
	for _, l := range links {
		names[l.Attrs().Index], indexes[l.Attrs().Name] = l.Attrs().Name, l.Attrs().Index
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.indexes = indexes
	return names, nil
}

// index returns the index of a link, from the last listing of routes: a request for each of thousands of routes
// would double the time of writing them. If the link was recreated since, writing the route fails.
func (n *Namespace) index(link string) (int, error) {
	n.mu.Lock()
	index, ok := n.indexes[link]
	n.mu.Unlock()
	if ok {
		return index, nil
	}
	l, err := n.link(link)
	if err != nil {
		return 0, err
	}
	return l.Attrs().Index, nil
}

// Rules returns the routing rules that the agents own.
func (n *Namespace) Rules() ([]model.Rule, error) {
	var rules []model.Rule
	for f, family := range families {
		var all []netlink.Rule
		if err := retry(func() (err error) { all, err = n.handle.RuleList(family); return err }); err != nil {
			return nil, fmt.Errorf("listing routing rules: %w", err)
		}
		for _, r := range all {
			if r.Protocol == model.RouteProtocol {
				rule := model.Rule{Family: f, Priority: r.Priority, Table: r.Table, From: r.IifName, Goto: max(r.Goto, 0)}
				if r.Src != nil {
					rule.Source = cidrOf(r.Src)
				}
				if r.Sport != nil {
					rule.Port = int(r.Sport.Start)
				}
				rules = append(rules, rule)
			}
		}
	}
	return rules, nil
}

// AddRule adds a routing rule.
func (n *Namespace) AddRule(r model.Rule) error {
	return n.rule("adding", r, n.handle.RuleAdd)
}

// DeleteRule deletes a routing rule.
func (n *Namespace) DeleteRule(r model.Rule) error {
	return ignoreGone(n.rule("deleting", r, n.handle.RuleDel))
}

func (n *Namespace) rule(doing string, r model.Rule, do func(*netlink.Rule) error) error {
	rule := netlink.NewRule()
	rule.Family, rule.Priority, rule.Table = families[r.Family], r.Priority, r.Table
	rule.IifName, rule.Protocol = r.From, model.RouteProtocol
	if r.Goto != 0 {
		rule.Goto = r.Goto
	}
	if r.Source.IsValid() {
		rule.Src = netOf(r.Source)
	}
	if r.Port != 0 {
		rule.IPProto, rule.Sport = unix.IPPROTO_UDP, netlink.NewRulePortRange(uint16(r.Port), uint16(r.Port))
	}
	if err := do(rule); err != nil {
		return fmt.Errorf("%s the %s routing rule with priority %d and table %d: %w",
			doing, r.Family, r.Priority, r.Table, err)
	}
	return nil
}

var families = map[model.Family]int{model.IPv4: netlink.FAMILY_V4, model.IPv6: netlink.FAMILY_V6}
