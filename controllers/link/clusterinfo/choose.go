// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/controllers/remote"
)

// Reasons of the condition RangesKnown of a ClusterInfo.
const (
	// ReasonDetected means that the ranges are detected; the message has their sources.
	ReasonDetected = "Detected"
	// ReasonConfigured means that ranges of pods are values of the chart; the message has all sources.
	ReasonConfigured = "Configured"
	// ReasonPodRangesUnknown means that no range of pods is in use, because none is detected, or all overlap ranges
	// of peers. Set network.podCIDRs.
	ReasonPodRangesUnknown = "PodRangesUnknown"
)

// Reasons of the condition RangesConsistent of a ClusterInfo. If several contradictions are found, the condition has
// the reason that is first in reasonsInOrder.
const (
	// ReasonSourcesAgree means that detected ranges, values of the chart and ranges of tunnels are consistent.
	ReasonSourcesAgree = "SourcesAgree"
	// ReasonValueContradicted means that a value of the chart does not contain the ranges that are detected, or an
	// external CIDR overlaps ranges of pods. A detected range of pods that a tunnel uses stays in use. Correct or
	// remove the value.
	ReasonValueContradicted = "ValueContradicted"
	// ReasonRangeTakenByPeer means that a detected or configured range overlaps a range by which a tunnel reaches a
	// peer, and is not used until that tunnel is removed.
	ReasonRangeTakenByPeer = "RangeTakenByPeer"
	// ReasonSourcesDisagree means that two sources have different ranges of pods or Services. The ranges of the less
	// reliable source are only reserved: if pods use them, set network.podCIDRs.
	ReasonSourcesDisagree = "SourcesDisagree"
	// ReasonRangesRetained means that a former range of pods stays in use because a tunnel uses it, although pods have
	// other ranges now, or a part of the former one. Set network.podCIDRs to the new ranges, or remove the tunnel.
	ReasonRangesRetained = "RangesRetained"
	// ReasonInvalidRange means that a source has an invalid range, for example 0.0.0.0/0, or cannot be decoded, and is
	// ignored. Correct the source that the message names.
	ReasonInvalidRange = "InvalidRange"
)

var reasonsInOrder = []string{
	ReasonValueContradicted, ReasonRangeTakenByPeer, ReasonSourcesDisagree, ReasonRangesRetained, ReasonInvalidRange,
}

const (
	// maxPodRanges is the maximum number of pod ranges of one IP family. A NetworkConfig has at most 64
	// CIDRs, including external CIDRs and both families.
	maxPodRanges = 31
	// maxRanges is the maximum number of ranges of one IP family for each other use, except nodes.
	// maxNodeRanges is the maximum for nodes, and is greater because each node has its own addresses.
	maxRanges     = 64
	maxNodeRanges = 512
	// maxFindings is the maximum number of sentences in a condition, and maxListed the maximum number of
	// CIDRs in a sentence.
	maxFindings = 8
	maxListed   = 8
)

// podSources are the sources of pod ranges, the most reliable one first. The CNI comes first, because it
// assigns the addresses, and may ignore the configuration of the distribution and of the nodes.
var podSources = []v1alpha1.ClusterRangeSource{
	v1alpha1.SourceCalico, v1alpha1.SourceCilium, v1alpha1.SourceFlannel, v1alpha1.SourceKubeadm, v1alpha1.SourceK3s,
	v1alpha1.SourceNode, v1alpha1.SourcePod,
}

// serviceSources are the sources of Service ranges, the most reliable one first.
var serviceSources = []v1alpha1.ClusterRangeSource{
	v1alpha1.SourceServiceCIDR, v1alpha1.SourceKubeadm, v1alpha1.SourceK3s,
}

// input has everything that determines the ranges of the cluster.
type input struct {
	detected detected
	values   Values
	// previous are the ranges that ClusterInfo local has now.
	previous []v1alpha1.ClusterRange
	// tunnels are all TunnelEndpoints.
	tunnels []*v1alpha1.TunnelEndpoint
}

// choice has the result of choose while it is computed.
type choice struct {
	input    input
	ranges   []v1alpha1.ClusterRange
	taken    map[v1alpha1.ClusterRangeUse][]netip.Prefix
	findings []finding
}

// finding is a sentence of the condition RangesConsistent.
type finding struct{ reason, message string }

// choose returns the ranges to write to ClusterInfo local, and its conditions.
func choose(in input) ([]v1alpha1.ClusterRange, []metav1.Condition) {
	c := &choice{input: in, taken: map[v1alpha1.ClusterRangeUse][]netip.Prefix{}}
	for _, is4 := range []bool{true, false} {
		c.use(v1alpha1.RangeOfPods, is4, podSources, maxPodRanges)
	}
	c.retain()
	for _, is4 := range []bool{true, false} {
		c.compare(v1alpha1.RangeOfPods, is4, podSources, maxPodRanges)
	}
	for _, is4 := range []bool{true, false} {
		c.use(v1alpha1.RangeOfServices, is4, serviceSources, maxRanges)
		c.compare(v1alpha1.RangeOfServices, is4, serviceSources, maxRanges)
	}
	for _, is4 := range []bool{true, false} {
		c.take(v1alpha1.RangeOfNodes, v1alpha1.SourceValue, ofFamily(in.values.found(v1alpha1.RangeOfNodes), is4))
		nodes := c.without(v1alpha1.RangeOfNodes, in.detected.of(v1alpha1.RangeOfNodes, v1alpha1.SourceNode, is4))
		c.take(v1alpha1.RangeOfNodes, v1alpha1.SourceNode, aggregate(nodes, maxNodeRanges))
		c.external(is4)
	}
	for _, is4 := range []bool{true, false} {
		c.take(v1alpha1.RangeReserved, v1alpha1.SourceValue, ofFamily(in.values.found(v1alpha1.RangeReserved), is4))
		servers := in.detected.of(v1alpha1.RangeReserved, v1alpha1.SourceAPIServer, is4)
		c.take(v1alpha1.RangeReserved, v1alpha1.SourceAPIServer, c.without(v1alpha1.RangeOfNodes, servers))
	}
	for _, invalid := range in.detected.invalid {
		c.find(ReasonInvalidRange, "%q of %s is not a valid range of a cluster, and is ignored.",
			remote.Text(invalid.text), invalid.source)
	}
	for _, undecoded := range in.detected.undecoded {
		c.find(ReasonInvalidRange, "The configuration of %s is ignored: %s.",
			undecoded.source, remote.Text(undecoded.err.Error()))
	}
	slices.SortStableFunc(c.ranges, func(a, b v1alpha1.ClusterRange) int {
		return slices.Index(uses, a.Use) - slices.Index(uses, b.Use)
	})
	return c.ranges, []metav1.Condition{c.known(), c.consistent()}
}

// uses are all uses of ranges, in the order in which ClusterInfo lists them.
var uses = []v1alpha1.ClusterRangeUse{
	v1alpha1.RangeOfPods, v1alpha1.RangeOfServices, v1alpha1.RangeOfNodes, v1alpha1.RangeExternal, v1alpha1.RangeReserved,
}

// preferred returns the ranges of one use and family that take precedence, and their source: the values of the chart
// or, if they name none for this use, the ranges of the first source that has any. most is the maximum number of ranges
// of each source.
func (c *choice) preferred(
	use v1alpha1.ClusterRangeUse, is4 bool, sources []v1alpha1.ClusterRangeSource, most int,
) (by v1alpha1.ClusterRangeSource, cidrs []netip.Prefix) {
	if values := c.input.values.found(use); len(values) > 0 {
		return v1alpha1.SourceValue, ofFamily(values, is4)
	}
	for _, by = range sources {
		if cidrs = aggregate(c.input.detected.of(use, by, is4), most); len(cidrs) > 0 {
			break
		}
	}
	return by, cidrs
}

// use chooses the preferred ranges of one use and family.
func (c *choice) use(use v1alpha1.ClusterRangeUse, is4 bool, sources []v1alpha1.ClusterRangeSource, most int) {
	by, cidrs := c.preferred(use, is4, sources, most)
	c.take(use, by, cidrs)
}

// compare gives the use Reserved to ranges of one use and family that were not chosen. It adds a finding for each
// source of such ranges if there are preferred ones.
func (c *choice) compare(use v1alpha1.ClusterRangeUse, is4 bool, sources []v1alpha1.ClusterRangeSource, most int) {
	by, preferred := c.preferred(use, is4, sources, most)
	for _, source := range sources {
		var others []netip.Prefix
		for _, cidr := range aggregate(c.input.detected.of(use, source, is4), most) {
			if !netmap.Covers(preferred, cidr) && !netmap.Covers(c.taken[use], cidr) {
				others = append(others, cidr)
			}
		}
		if len(others) == 0 {
			continue
		}
		c.take(v1alpha1.RangeReserved, source, others)
		switch {
		case by != v1alpha1.SourceValue:
			c.find(ReasonSourcesDisagree, "%s has %s for %s, and %s has %s: the first ranges take precedence, the second ones "+
				"are only reserved.",
				by, list(preferred), use, source, list(others))
		case len(preferred) > 0:
			c.find(ReasonValueContradicted, "The chart's values have %s for %s, and %s has %s: the first ranges take "+
				"precedence, the second ones are only reserved.", list(preferred), use, source, list(others))
		}
	}
}

// retain keeps previous ranges of pods in use that were not chosen again, if a tunnel uses them. It does not keep them
// if an administrator replaced them by values of the chart that are in use, or by detected ranges; except ranges that
// contradict the values because they are still detected. It must be called after the ranges of pods of both families
// were chosen, and before other ranges.
func (c *choice) retain() {
	const use = v1alpha1.RangeOfPods
	values, chosen := c.input.values.found(use), slices.Clone(c.taken[use])
	for _, before := range c.input.previous {
		cidr, ok := parse(before.CIDR)
		if !ok || before.Use != use || !c.retains(cidr) || netmap.Covers(c.taken[use], cidr) {
			continue
		}
		is4 := cidr.Addr().Is4()
		replaced := len(ofFamily(chosen, is4)) > 0 && (len(values) > 0 || before.Source == v1alpha1.SourceValue)
		removed := len(chosen) > 0 && len(values) > 0 && len(ofFamily(values, is4)) == 0
		contradicted := len(values) > 0 && !slices.ContainsFunc(chosen, cidr.Overlaps) && c.detects(cidr)
		if (replaced || removed) && !contradicted {
			continue
		}
		if c.takenBy(cidr) != "" {
			c.take(use, before.Source, []netip.Prefix{cidr}) // adds a finding
			continue
		}
		within := c.keep(cidr, before.Source)
		switch {
		case len(within) > 0:
			c.find(ReasonRangesRetained, "%s of %s stays in use instead of %s, because tunnels use it. "+
				"Set network.podCIDRs to remove it.", cidr, before.Source, list(within))
		case contradicted && (replaced || removed):
			c.find(ReasonValueContradicted, "The chart's values have %s for Pods. %s of %s, which overlaps a detected range, "+
				"stays in use because tunnels use it. Correct network.podCIDRs, or remove the tunnels.",
				list(values), cidr, before.Source)
		case len(values) > 0:
			c.find(ReasonRangesRetained, "%s of %s stays in use until a CIDR in network.podCIDRs can be used, because "+
				"tunnels use it.", cidr, before.Source)
		default:
			c.find(ReasonRangesRetained, "%s of %s is no longer a range of pods, but stays in use because tunnels use it. "+
				"Set network.podCIDRs to remove it.", cidr, before.Source)
		}
	}
}

// keep adds a range of pods in place of the chosen ranges within it, which it returns. The agreement with peers about
// the range stays valid, and ranges of pods do not overlap.
func (c *choice) keep(cidr netip.Prefix, source v1alpha1.ClusterRangeSource) (within []netip.Prefix) {
	at := len(c.ranges)
	for i := len(c.ranges) - 1; i >= 0; i-- {
		if chosen := netip.MustParsePrefix(c.ranges[i].CIDR); cidr.Overlaps(chosen) {
			at, within = i, append([]netip.Prefix{chosen}, within...)
			c.ranges = slices.Delete(c.ranges, i, i+1)
		}
	}
	c.taken[v1alpha1.RangeOfPods] = slices.DeleteFunc(c.taken[v1alpha1.RangeOfPods], cidr.Overlaps)
	c.taken[v1alpha1.RangeOfPods] = append(c.taken[v1alpha1.RangeOfPods], cidr)
	c.ranges = slices.Insert(c.ranges, at,
		v1alpha1.ClusterRange{Use: v1alpha1.RangeOfPods, CIDR: cidr.String(), Source: source})
	return within
}

// detects reports whether a source has a range of pods that overlaps a CIDR.
func (c *choice) detects(cidr netip.Prefix) bool {
	return slices.ContainsFunc(podSources, func(source v1alpha1.ClusterRangeSource) bool {
		detected := c.input.detected.of(v1alpha1.RangeOfPods, source, cidr.Addr().Is4())
		return slices.ContainsFunc(detected, cidr.Overlaps)
	})
}

// retains reports whether a tunnel uses a local CIDR.
func (c *choice) retains(cidr netip.Prefix) bool {
	return slices.ContainsFunc(c.input.tunnels, func(tunnel *v1alpha1.TunnelEndpoint) bool {
		return slices.ContainsFunc(tunnel.Spec.Local, func(m v1alpha1.CIDRMapping) bool { return m.CIDR == cidr.String() })
	})
}

// external sets the external CIDRs: the values of the chart, or the CIDRs of AddressPool external.
func (c *choice) external(is4 bool) {
	by, cidrs := v1alpha1.SourceValue, ofFamily(c.input.values.found(v1alpha1.RangeExternal), is4)
	if len(c.input.values.ExternalCIDRs) == 0 {
		by, cidrs = v1alpha1.SourceAddressPool, c.input.detected.of(v1alpha1.RangeExternal, v1alpha1.SourceAddressPool, is4)
	}
	for _, cidr := range cidrs {
		if pods := c.taken[v1alpha1.RangeOfPods]; slices.ContainsFunc(pods, cidr.Overlaps) {
			c.find(ReasonValueContradicted, "The external CIDR %s of %s overlaps ranges of pods, and is not in use.", cidr, by)
			continue
		}
		c.take(v1alpha1.RangeExternal, by, []netip.Prefix{cidr})
	}
}

// take adds CIDRs with a use and a source to the chosen ranges. For each CIDR that overlaps a range by which a tunnel
// reaches a peer, it adds a finding instead.
func (c *choice) take(use v1alpha1.ClusterRangeUse, source v1alpha1.ClusterRangeSource, cidrs []netip.Prefix) {
	for _, cidr := range cidrs {
		if peer := c.takenBy(cidr); peer != "" {
			c.find(ReasonRangeTakenByPeer, "%s, which %s has for %s, overlaps a range of peer %s, and is not in use until "+
				"the tunnel to that peer is removed.", cidr, source, use, peer)
			continue
		}
		if !slices.Contains(c.taken[use], cidr) {
			c.taken[use] = append(c.taken[use], cidr)
			c.ranges = append(c.ranges, v1alpha1.ClusterRange{Use: use, CIDR: cidr.String(), Source: source})
		}
	}
}

// takenBy returns the name of a peer that this cluster reaches at addresses in cidr; empty if there is none.
// The peer's range was allocated before the local cluster used cidr.
func (c *choice) takenBy(cidr netip.Prefix) string {
	for _, tunnel := range c.input.tunnels {
		for _, mapping := range tunnel.Spec.Remote {
			if mapped, err := netip.ParsePrefix(mapping.Mapped); err == nil && mapped.Overlaps(cidr) {
				return tunnel.Name
			}
		}
	}
	return ""
}

// without returns the CIDRs that no range chosen for a use contains.
func (c *choice) without(use v1alpha1.ClusterRangeUse, cidrs []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(cidrs), func(p netip.Prefix) bool { return netmap.Covers(c.taken[use], p) })
}

func (c *choice) find(reason, format string, args ...any) {
	found := finding{reason, fmt.Sprintf(format, args...)}
	if !slices.Contains(c.findings, found) {
		c.findings = append(c.findings, found)
	}
}

// known returns the condition RangesKnown.
func (c *choice) known() metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionRangesKnown, Status: metav1.ConditionTrue, Reason: ReasonDetected,
	}
	if slices.ContainsFunc(c.ranges, func(r v1alpha1.ClusterRange) bool {
		return r.Use == v1alpha1.RangeOfPods && r.Source == v1alpha1.SourceValue
	}) {
		condition.Reason = ReasonConfigured
	}
	if len(c.taken[v1alpha1.RangeOfPods]) == 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, ReasonPodRangesUnknown
		condition.Message = "No pod CIDRs are in use, because none are detected, or all overlap ranges of peers, so " +
			"tunnels cannot be created: set network.podCIDRs in the values of the chart."
		return condition
	}
	var sentences []string
	for _, use := range uses[:2] {
		var parts []string
		sources := slices.Concat([]v1alpha1.ClusterRangeSource{v1alpha1.SourceValue}, podSources, serviceSources[:1])
		for _, source := range sources {
			var cidrs []netip.Prefix
			for _, r := range c.ranges {
				if r.Use == use && r.Source == source {
					cidrs = append(cidrs, netip.MustParsePrefix(r.CIDR))
				}
			}
			if len(cidrs) > 0 {
				parts = append(parts, fmt.Sprintf("%s of %s", list(cidrs), source))
			}
		}
		if len(parts) > 0 {
			sentences = append(sentences, fmt.Sprintf("%s have %s.", use, strings.Join(parts, " and ")))
		}
	}
	condition.Message = strings.Join(sentences, " ")
	return condition
}

// consistent returns the condition RangesConsistent.
func (c *choice) consistent() metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionRangesConsistent, Status: metav1.ConditionTrue,
		Reason: ReasonSourcesAgree, Message: "The detected ranges, the values of the chart and the ranges of tunnels " +
			"are consistent with the ranges in use."}
	if len(c.findings) == 0 {
		return condition
	}
	slices.SortStableFunc(c.findings, func(a, b finding) int {
		return slices.Index(reasonsInOrder, a.reason) - slices.Index(reasonsInOrder, b.reason)
	})
	condition.Status, condition.Reason = metav1.ConditionFalse, c.findings[0].reason
	var sentences []string
	for _, f := range c.findings[:min(len(c.findings), maxFindings)] {
		sentences = append(sentences, f.message)
	}
	if more := len(c.findings) - maxFindings; more > 0 {
		sentences = append(sentences, fmt.Sprintf("%d more contradictions are not listed.", more))
	}
	condition.Message = strings.Join(sentences, " ")
	return condition
}

// list returns the first maxListed CIDRs as text, and the number of further ones.
func list(cidrs []netip.Prefix) string {
	var texts []string
	for _, cidr := range cidrs[:min(len(cidrs), maxListed)] {
		texts = append(texts, cidr.String())
	}
	if more := len(cidrs) - maxListed; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
}

func ofFamily(cidrs []netip.Prefix, is4 bool) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(cidrs), func(p netip.Prefix) bool { return p.Addr().Is4() != is4 })
}
