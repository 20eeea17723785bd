// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
)

// A node of rome, 172.18.0.2, whose pods are in 10.0.0.0/16. It calls milan's
// 10.1.0.0/16, and milan calls it 10.2.0.0/16, as rome calls naples.
func TestConnectionsOfAPeerAloneAreForgotten(t *testing.T) {
	pods, milan, naples := netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.2.0.0/16")
	anything := netip.MustParsePrefix("0.0.0.0/0")
	for name, test := range map[string]struct {
		translation            Translation
		from, to               string // of the first packet
		answeredBy, answeredTo string // of the answers
		want                   bool
	}{
		"a pod calls the peer":                     {Translation{pods, []netip.Prefix{milan}}, "10.0.1.2", "10.1.1.2", "10.1.1.2", "10.0.1.2", true},
		"the peer calls a pod":                     {Translation{pods, []netip.Prefix{milan}}, "10.1.1.2", "10.0.1.2", "10.0.1.2", "10.1.1.2", true},
		"a pod calls a Service of the peer's pods": {Translation{pods, []netip.Prefix{milan}}, "10.0.1.2", "10.96.0.9", "10.1.1.2", "10.0.1.2", true},
		"a pod that was masqueraded":               {Translation{anything, []netip.Prefix{milan}}, "10.0.1.2", "10.1.1.2", "10.1.1.2", "172.18.0.2", true},
		"another peer":                             {Translation{pods, []netip.Prefix{milan}}, "10.0.1.2", "10.2.1.2", "10.2.1.2", "10.0.1.2", false},
		"a pod and a pod":                          {Translation{pods, []netip.Prefix{milan}}, "10.0.1.2", "10.0.1.3", "10.0.1.3", "10.0.1.2", false},
		"a pod calls a Service":                    {Translation{anything, []netip.Prefix{milan}}, "10.0.1.2", "10.96.0.1", "172.18.0.3", "172.18.0.2", false},
		"a pod and a pod, with nobody":             {Translation{pods, nil}, "10.0.1.2", "10.0.1.3", "10.0.1.3", "10.0.1.2", false},
		"something else was made of it":            {Translation{pods, []netip.Prefix{milan}}, "10.0.1.2", "10.1.1.2", "10.1.1.2", "10.2.1.2", false},
		"milan calls us as we call naples":         {Translation{anything, []netip.Prefix{naples}}, "10.0.1.2", "10.1.1.2", "10.1.1.2", "10.2.1.2", false},
	} {
		t.Run(name, func(t *testing.T) {
			flow := &netlink.ConntrackFlow{
				Forward: netlink.IPTuple{SrcIP: net.ParseIP(test.from), DstIP: net.ParseIP(test.to)},
				Reverse: netlink.IPTuple{SrcIP: net.ParseIP(test.answeredBy), DstIP: net.ParseIP(test.answeredTo)},
			}
			if got := (anyOf{test.translation}).MatchConntrackFlow(flow); got != test.want {
				t.Errorf("it is forgotten: %v", got)
			}
		})
	}
}
