// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/probe"
)

func TestTheStatusTellsHowTheTunnelStands(t *testing.T) {
	heard := kernel.Traffic{Endpoint: netip.MustParseAddrPort("172.16.2.1:51820"), Handshake: time.Unix(1, 0)}
	answers := probe.Result{Connected: true, Latency: 3 * time.Millisecond}
	for name, test := range map[string]struct {
		facts                   facts
		phase                   v1alpha1.TunnelPhase
		reason, endpoint, words string
	}{
		"it answers":              {facts{traffic: heard, probes: answers}, v1alpha1.TunnelConnected, reasonAnswers, "172.16.2.1:51820", "answers"},
		"it answers, with a flaw": {facts{traffic: heard, probes: answers, leftOut: []string{"AddressMapping x: y"}}, v1alpha1.TunnelConnected, reasonAnswers, "172.16.2.1:51820", "Left out: AddressMapping x: y"},
		"it is refused":           {facts{refused: "its 10.0.0.0/16 is ours", traffic: heard}, v1alpha1.TunnelError, reasonRefused, "", "its 10.0.0.0/16 is ours"},
		"no handshake":            {facts{traffic: kernel.Traffic{Endpoint: heard.Endpoint}}, v1alpha1.TunnelConnecting, reasonHandshake, "", "UDP"},
		"no answer":               {facts{traffic: heard}, v1alpha1.TunnelConnecting, reasonNoAnswer, "172.16.2.1:51820", "does not answer"},
		"nowhere to call":         {facts{lost: true}, v1alpha1.TunnelConnecting, reasonNoEndpoint, "", "endpoints"},
		"the node is not set up":  {facts{failed: "no such device", lost: true}, v1alpha1.TunnelConnecting, reasonNotApplied, "", "no such device"},
		"it answers all the same": {facts{failed: "no such device", traffic: heard, probes: answers}, v1alpha1.TunnelConnected, reasonAnswers, "172.16.2.1:51820", "answers"},
		"a long story":            {facts{refused: strings.Repeat("ü", maxMessage)}, v1alpha1.TunnelError, reasonRefused, "", "…"},
	} {
		t.Run(name, func(t *testing.T) {
			te := &v1alpha1.TunnelEndpoint{ObjectMeta: metav1.ObjectMeta{Generation: 4}}
			test.facts.gateway, test.facts.implementation = "rome-1", kernel.InProcess
			now := time.Unix(1000, 0)
			got := statusOf(te, test.facts, now)
			c := got.Conditions[0]
			if got.Phase != test.phase || c.Reason != test.reason || got.Endpoint != test.endpoint || !strings.Contains(c.Message, test.words) || len(c.Message) > maxMessage {
				t.Errorf("%+v", got)
			}
			if (c.Status == metav1.ConditionTrue) != (got.Phase == v1alpha1.TunnelConnected) || got.ObservedGeneration != 4 || got.Gateway != "rome-1" || got.Implementation != "wireguard-go" {
				t.Errorf("%+v", got)
			}
			te.Status = got
			if diff := cmp.Diff(got, statusOf(te, test.facts, now.Add(time.Hour))); diff != "" {
				t.Errorf("the same facts are written again:\n%s", diff)
			}
		})
	}
}

func TestTheLatencyIsToldAgainWhenItHasMovedByAFifth(t *testing.T) {
	ms := time.Millisecond
	for _, test := range []struct{ told, measured, want time.Duration }{
		{0, 10 * ms, 10 * ms},
		{10 * ms, 11900 * time.Microsecond, 10 * ms},
		{10 * ms, 12 * ms, 12 * ms},
		{10 * ms, 8100 * time.Microsecond, 10 * ms},
		{10 * ms, 8 * ms, 8 * ms},
		{10 * ms, 0, 0},
		// Nobody feels that.
		{300 * time.Microsecond, 500 * time.Microsecond, 300 * time.Microsecond},
		{300 * time.Microsecond, 600 * time.Microsecond, 600 * time.Microsecond},
	} {
		if got := latency(test.told, test.measured); got != test.want {
			t.Errorf("%s was told and %s is measured: %s is told, not %s", test.told, test.measured, got, test.want)
		}
	}
}
