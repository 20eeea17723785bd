// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/probe"
)

func TestStatusReportsTheTunnel(t *testing.T) {
	traffic := kernel.Traffic{Endpoint: netip.MustParseAddrPort("172.16.2.1:51820"), Handshake: time.Unix(1, 0)}
	answers := probe.Result{Connected: true, Latency: 3 * time.Millisecond}
	for name, test := range map[string]struct {
		facts                   observation
		phase                   v1alpha1.TunnelPhase
		reason, endpoint, words string
	}{
		"connected": {
			observation{traffic: traffic, probes: answers}, v1alpha1.TunnelConnected, reasonReplies, "172.16.2.1:51820",
			"replies",
		},
		"connected, with a mapping left out": {
			observation{traffic: traffic, probes: answers, leftOut: []string{"AddressMapping x: y"}}, v1alpha1.TunnelConnected,
			reasonReplies, "172.16.2.1:51820", "Left out: AddressMapping x: y",
		},
		"refused": {
			observation{refused: "its 10.0.0.0/16 is local", traffic: traffic}, v1alpha1.TunnelError, reasonRefused, "",
			"its 10.0.0.0/16 is local",
		},
		"no handshake": {
			observation{traffic: kernel.Traffic{Endpoint: traffic.Endpoint}}, v1alpha1.TunnelConnecting, reasonHandshake, "",
			"UDP",
		},
		"control plane only": {
			observation{traffic: traffic, controlPlaneUp: true}, v1alpha1.TunnelConnected, reasonControl, "172.16.2.1:51820",
			"carries the control plane only: it has no CIDRs.",
		},
		"no reply": {
			observation{traffic: traffic}, v1alpha1.TunnelConnecting, reasonNoReply, "172.16.2.1:51820", "does not reply",
		},
		"no endpoint resolves": {
			observation{unresolved: true}, v1alpha1.TunnelConnecting, reasonNoEndpoint, "", "endpoints",
		},
		"failed pass": {
			observation{failed: "no such device", unresolved: true}, v1alpha1.TunnelConnecting, reasonNotApplied, "",
			"no such device",
		},
		"failed pass, still connected": {
			observation{failed: "no such device", traffic: traffic, probes: answers}, v1alpha1.TunnelConnected, reasonReplies,
			"172.16.2.1:51820", "replies",
		},
		"port in use": {
			observation{traffic: traffic, probes: answers, listenError: "UDP port 5873"}, v1alpha1.TunnelConnected,
			reasonReplies, "172.16.2.1:51820", "not running: UDP port 5873",
		},
		"port in use, control plane only": {
			observation{traffic: traffic, controlPlaneUp: true, listenError: "UDP port 5873"}, v1alpha1.TunnelConnected,
			reasonControl, "172.16.2.1:51820", "not running: UDP port 5873",
		},
		"long message": {observation{refused: strings.Repeat("ü", maxMessage)}, v1alpha1.TunnelError, reasonRefused, "", "…"},
	} {
		t.Run(name, func(t *testing.T) {
			te := &v1alpha1.TunnelEndpoint{ObjectMeta: metav1.ObjectMeta{Generation: 4}}
			test.facts.gateway, test.facts.implementation = "rome-1", kernel.InProcess
			now := time.Unix(1000, 0)
			got := statusOf(te, test.facts, now)
			c := got.Conditions[0]
			if got.Phase != test.phase || c.Reason != test.reason || got.Endpoint != test.endpoint ||
				!strings.Contains(c.Message, test.words) ||
				len(c.Message) > maxMessage {
				t.Errorf("%+v", got)
			}
			if (c.Status == metav1.ConditionTrue) != (got.Phase == v1alpha1.TunnelConnected) || got.ObservedGeneration != 4 ||
				got.Gateway != "rome-1" ||
				got.Implementation != "wireguard-go" {
				t.Errorf("%+v", got)
			}
			te.Status = got
			if diff := cmp.Diff(got, statusOf(te, test.facts, now.Add(time.Hour))); diff != "" {
				t.Errorf("the status differs after the same observation:\n%s", diff)
			}
		})
	}
}

func TestStatusReportsThePathMTU(t *testing.T) {
	te := &v1alpha1.TunnelEndpoint{ObjectMeta: metav1.ObjectMeta{Generation: 4}}
	describe := func(probes probe.Result) string {
		te.Status = statusOf(te, observation{probes: probes}, time.Unix(1000, 0))
		c := meta.FindStatusCondition(te.Status.Conditions, v1alpha1.ConditionPathMTU)
		if c == nil {
			return ""
		}
		return fmt.Sprintf("%s %s %d: %s", c.Status, c.Reason, c.ObservedGeneration, c.Message)
	}
	for _, step := range []struct {
		what   string
		probes probe.Result
		phase  v1alpha1.TunnelPhase
		want   string // its beginning
		words  string
		mtu    int32
	}{
		{"not measured", probe.Result{Connected: true, MTU: 1420}, v1alpha1.TunnelConnected, "", "", 0},
		{
			"all pass", probe.Result{Connected: true, MTU: 1420, PathMTU: 1420, PathMTUKnown: true}, v1alpha1.TunnelConnected,
			"True PacketsPass 4: ", "1420", 0,
		},
		{
			"large packets do not pass", probe.Result{Connected: true, MTU: 1420, PathMTU: 1376, PathMTUKnown: true},
			v1alpha1.TunnelConnected, "False PacketsTooLarge 4: ", "The largest packets that pass have 1376", 1376,
		},
		{
			"not connected any more", probe.Result{Known: true, MTU: 1420}, v1alpha1.TunnelConnecting,
			"False PacketsTooLarge 4: ", "1376",
			1376,
		},
		{
			"none passes", probe.Result{Connected: true, MTU: 1420, PathMTUKnown: true}, v1alpha1.TunnelConnected,
			"Unknown NoLargePacket 4: ", "1280", 1376,
		},
		{
			"all pass again", probe.Result{Connected: true, MTU: 1420, PathMTU: 1420, PathMTUKnown: true},
			v1alpha1.TunnelConnected, "True PacketsPass 4: ", "1420", 0,
		},
	} {
		if got := describe(step.probes); !strings.HasPrefix(got, step.want) || step.want == "" && got != "" ||
			!strings.Contains(got, step.words) {
			t.Errorf("%s: %q", step.what, got)
		}
		if te.Status.Phase != step.phase || te.Status.PathMTU != step.mtu {
			t.Errorf("%s: the tunnel is %s, path MTU %d", step.what, te.Status.Phase, te.Status.PathMTU)
		}
		if first := te.Status.Conditions[0].Type; first != v1alpha1.ConditionConnected {
			t.Errorf("%s: first reported %s", step.what, first)
		}
	}
}

func TestStatusReportsTheMTUOfTheNode(t *testing.T) {
	te := &v1alpha1.TunnelEndpoint{Spec: v1alpha1.TunnelEndpointSpec{MTU: 1400}}
	for _, test := range []struct {
		measured int
		want     int32
	}{{8921, 8921}, {1420, 1420}, {1280, 1280}, {1279, 0}, {0, 0}} {
		probes := probe.Result{Connected: true, MTU: 1400, PathMTU: 1300, PathMTUKnown: true}
		if te.Status = statusOf(
			te, observation{mtu: test.measured, probes: probes}, time.Unix(1000, 0),
		); te.Status.MTU != test.want ||
			te.Status.PathMTU != 1300 {
			t.Errorf("measured %d: MTU %d, path MTU %d", test.measured, te.Status.MTU, te.Status.PathMTU)
		}
	}
}

func TestLossIsReportedWhenItHasChanged(t *testing.T) {
	for _, test := range []struct{ reported, measured, want int32 }{
		{0, 0, 0}, {0, 8, 0}, {0, 10, 10}, {10, 18, 10}, {10, 20, 20}, {20, 12, 20}, {20, 10, 10}, {10, 2, 10},
		{10, 0, 0}, {4, 0, 0},
	} {
		te := &v1alpha1.TunnelEndpoint{Status: v1alpha1.TunnelEndpointStatus{LossPercent: test.reported}}
		if got := statusOf(
			te, observation{probes: probe.Result{Connected: true, Loss: int(test.measured)}}, time.Unix(1000, 0),
		).LossPercent; got != test.want {
			t.Errorf("loss(%d): got %d after %d, want %d", test.measured, got, test.reported, test.want)
		}
	}
}

func TestLatencyIsReportedWhenItHasChangedByAFifth(t *testing.T) {
	ms := time.Millisecond
	for _, test := range []struct{ reported, measured, want time.Duration }{
		{0, 10 * ms, 10 * ms},
		{10 * ms, 11900 * time.Microsecond, 10 * ms},
		{10 * ms, 12 * ms, 12 * ms},
		{10 * ms, 8100 * time.Microsecond, 10 * ms},
		{10 * ms, 8 * ms, 8 * ms},
		{10 * ms, 0, 0},
		// Less than latencyLeast.
		{300 * time.Microsecond, 500 * time.Microsecond, 300 * time.Microsecond},
		{300 * time.Microsecond, 600 * time.Microsecond, 600 * time.Microsecond},
	} {
		if got := latency(test.reported, test.measured); got != test.want {
			t.Errorf("latency(%s, %s) = %s, want %s", test.reported, test.measured, got, test.want)
		}
	}
}
