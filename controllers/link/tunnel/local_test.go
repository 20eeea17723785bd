// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit/kittest"
)

// publicKeyOf returns the public key that the gateway of a cluster published.
func publicKeyOf(w *world) string {
	w.t.Helper()
	published := kittest.Read(w.Cluster, installation, v1alpha1.WireGuardConfigMap, &corev1.ConfigMap{})
	return published.Data[v1alpha1.WireGuardPublicKey]
}

func TestATunnelWaitsForTheKeyOfTheGateway(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	milan.withdrawKey()
	all := func() bool { return replicate(rome, milan) }
	settle(t, all, rome, milan)
	expectStatus(t, milan, v1alpha1.PeeringPending, ReasonAwaitingGateway, "ConfigMap liqo/federation-gateway")
	if milan.te() != nil || rome.te() != nil {
		t.Error("there is a tunnel")
	}
	if events := strings.Join(milan.Recorded(), " "); strings.Contains(events, corev1.EventTypeWarning) {
		t.Errorf("the events are %s", events)
	}
	milan.newKey()
	settle(t, all, rome, milan)
	expectAgreement(t, rome, milan)
	if key := rome.te().Spec.PublicKey; key != publicKeyOf(milan) {
		t.Errorf("rome has the key %s", key)
	}
}

// The controllers of v0.1.0 create the Secret with the keys. These controllers must not read or create it, because the
// gateway could be impersonated with its private key.
func TestControllersDoNotAccessThePrivateKey(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	for _, w := range []*world{rome, milan} {
		refuse := errors.New("a Secret is read")
		c := interceptor.NewClient(w.Controller, interceptor.Funcs{
			Create: w.create, Patch: w.patch,
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
				options ...client.GetOption) error {
				if _, ok := object.(*corev1.Secret); ok {
					return refuse
				}
				return c.Get(ctx, key, object, options...)
			},
		})
		w.r.Client, w.r.installation, w.r.Live = c, c, c
	}
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	expectAgreement(t, rome, milan)
	for _, w := range []*world{rome, milan} {
		if secrets := kittest.List(w.Cluster, &corev1.SecretList{}).Items; len(secrets) > 0 {
			t.Errorf("%s has %d Secrets", w.name, len(secrets))
		}
	}
}

// uses sets the public key that the gateway reports in the status of the TunnelEndpoint.
func (w *world) uses(key string) {
	w.t.Helper()
	w.changeTunnel(func(endpoint *v1alpha1.TunnelEndpoint) { endpoint.Status.PublicKey = key })
}

// measures sets the MTU that the gateway reports in the status of the TunnelEndpoint.
func (w *world) measures(mtu int32) {
	w.t.Helper()
	w.changeTunnel(func(endpoint *v1alpha1.TunnelEndpoint) { endpoint.Status.MTU = mtu })
}

func TestANewKeyIsAnnouncedOnceTheGatewayUsesIt(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.0.0.0/16"), settingsOf("10.0.0.0/16"))
	all := func() bool { return replicate(rome, milan) }
	settle(t, all, rome, milan)
	older := publicKeyOf(milan)
	milan.uses(older)
	settle(t, all, rome, milan)
	milan.newKey()
	settle(t, all, rome, milan)
	newer := publicKeyOf(milan)
	if newer == older || rome.te().Spec.PublicKey != older {
		t.Errorf("the gateway uses %s, and the peer has %s", older, rome.te().Spec.PublicKey)
	}
	milan.uses(newer)
	settle(t, all, rome, milan)
	if rome.te().Spec.PublicKey != newer {
		t.Errorf("the gateway uses %s, and the peer has %s", newer, rome.te().Spec.PublicKey)
	}
	expectAgreement(t, rome, milan)
}

func TestTheLowestMTUIsAgreedUpon(t *testing.T) {
	small := settingsOf("10.1.0.0/16")
	small.MTU = 1380
	for name, test := range map[string]struct {
		rome        settings
		here, there int32
		want        int32
	}{
		"the lower one":                  {settingsOf("10.1.0.0/16"), 8921, 1420, 1420},
		"also where it is the own one":   {settingsOf("10.1.0.0/16"), 1370, 1420, 1370},
		"or the only one":                {settingsOf("10.1.0.0/16"), 0, 1420, 1420},
		"or the MTU of the settings":     {small, 8921, 1420, 1380},
		"not where a gateway finds less": {small, 1300, 1420, 1300},
	} {
		t.Run(name, func(t *testing.T) {
			rome, milan := peers(t, test.rome, settingsOf("10.2.0.0/16"))
			all := func() bool { return replicate(rome, milan) }
			settle(t, all, rome, milan)
			rome.measures(test.here)
			milan.measures(test.there)
			settle(t, all, rome, milan)
			expectAgreement(t, rome, milan)
			if mtu := rome.te().Spec.MTU; mtu != test.want {
				t.Errorf("%d is agreed upon, not %d", mtu, test.want)
			}
		})
	}
}

func TestAnotherMTUIsAnnouncedOnce(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	all := func() bool { return replicate(rome, milan) }
	settle(t, all, rome, milan)
	rome.measures(8921)
	settle(t, all, rome, milan)
	rome.measures(1420)
	if writes := rome.pass(); !slices.Equal(writes,
		[]string{"patch NetworkConfig consumer", "patch TunnelEndpoint milan"}) {
		t.Errorf("it writes %v", writes)
	}
	settle(t, all, rome, milan)
	expectAgreement(t, rome, milan)
	read := func() *v1alpha1.NetworkConfig {
		return kittest.Read(rome.Cluster, naming.PeerNamespace("milan"), v1alpha1.NetworkConfigOfConsumer,
			&v1alpha1.NetworkConfig{})
	}
	config := read()
	if config.Spec.MTU != 1420 {
		t.Errorf("an MTU of %d is announced", config.Spec.MTU)
	}
	// A change of the path MTU to the peer does not change the announced MTU.
	rome.changeTunnel(func(endpoint *v1alpha1.TunnelEndpoint) { endpoint.Status.PathMTU = 1300 })
	if writes := rome.pass(); len(writes) > 0 {
		t.Errorf("for a smaller MTU of the path it writes %v", writes)
	}
	if again := read(); again.Generation != config.Generation {
		t.Errorf("it is announced again: %v", again)
	}
}

func TestTheMTUOfAnotherTunnelHoldsForANewOne(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	rome.put(&v1alpha1.TunnelEndpoint{
		ObjectMeta: metav1.ObjectMeta{Name: "naples", Namespace: installation},
		Status:     v1alpha1.TunnelEndpointStatus{MTU: 1420},
	})
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	expectAgreement(t, rome, milan)
	if mtu := milan.te().Spec.MTU; mtu != 1420 {
		t.Errorf("%d is agreed upon", mtu)
	}
}

// A configured CIDR contains detected ones. The peer would not keep it if it had kept these before.
func TestDetectedPodCIDRsAreNotSentWhileOthersAreConfigured(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"), settingsOf())
	all := func() bool { return replicate(rome, milan) }
	milan.r.PodCIDRs = []string{"10.2.0.0/16"}
	milan.own = []v1alpha1.ClusterRange{
		{Use: v1alpha1.RangeOfPods, CIDR: "10.2.0.0/24", Source: v1alpha1.SourceNode},
	}
	settle(t, all, rome, milan)
	expectStatus(t, milan, v1alpha1.PeeringError, ReasonNotConfigured, "network.podCIDRs is not used yet")
	milan.Settings.PodCIDRs, milan.own = milan.r.PodCIDRs, nil
	settle(t, all, rome, milan)
	want := []v1alpha1.CIDRMapping{{CIDR: "10.2.0.0/16", Mapped: "10.2.0.0/16"}}
	if diff := cmp.Diff(want, rome.te().Spec.Remote); diff != "" {
		t.Errorf("the ranges of milan differ (-want +got):\n%s", diff)
	}
}

// The local cluster may fail to prepare a change of a tunnel. The existing tunnel must stay as it is, and its state
// must remain Established while the gateway reports that it is connected. Otherwise EndpointSlices with the pods of
// the peer are deleted.
func TestFailureToChangeATunnelKeepsItEstablished(t *testing.T) {
	detected := []v1alpha1.ClusterRange{{Use: v1alpha1.RangeOfPods, CIDR: "10.2.0.0/24", Source: v1alpha1.SourceNode}}
	for name, test := range map[string]struct {
		fail            func(rome, milan *world)
		reason, message string
		// undo ends the failure.
		undo func(rome, milan *world)
	}{
		"a value that is not used yet": {
			fail:   func(_, milan *world) { milan.r.PodCIDRs = []string{"10.2.0.0/16"} },
			reason: ReasonNotConfigured, message: "network.podCIDRs is not used yet",
			undo: func(_, milan *world) { milan.Settings.PodCIDRs, milan.own = milan.r.PodCIDRs, nil },
		},
		"unknown ranges of pods": {
			fail:   func(_, milan *world) { milan.own = nil },
			reason: ReasonNotConfigured, message: "set network.podCIDRs",
			undo: func(_, milan *world) { milan.own = detected },
		},
		"an invalid key": {
			fail:   func(_, milan *world) { milan.publishKey("none") },
			reason: ReasonKeyInvalid, message: "ConfigMap liqo/federation-gateway",
			undo: func(_, milan *world) { milan.newKey() },
		},
		"no published key": {
			fail:   func(_, milan *world) { milan.withdrawKey() },
			reason: ReasonAwaitingGateway, message: "ConfigMap liqo/federation-gateway",
			undo: func(_, milan *world) { milan.newKey() },
		},
		"no free range for a new range of the peer": {
			fail:   func(rome, _ *world) { rome.Settings.PodCIDRs = []string{"10.1.0.0/16", "10.8.0.0/14"} },
			reason: ReasonAddressesExhausted, message: "no free IPv4 range",
			undo: func(rome, _ *world) { rome.Settings.PodCIDRs = []string{"10.1.0.0/16"} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			provider := settingsOf()
			provider.PoolCIDRs, provider.ReservedCIDRs = []string{"10.6.0.0/16"}, []string{"10.8.0.0/24"}
			rome, milan := peers(t, settingsOf("10.1.0.0/16"), provider)
			milan.own = detected
			all := func() bool { return replicate(rome, milan) }
			settle(t, all, rome, milan)
			rome.gatewayReports(v1alpha1.TunnelConnected, "")
			milan.gatewayReports(v1alpha1.TunnelConnected, "")
			settle(t, all, rome, milan)
			expectStatus(t, milan, v1alpha1.PeeringEstablished, ReasonConnected, "")
			before := milan.te().Spec

			test.fail(rome, milan)
			settle(t, all, rome, milan)
			expectStatus(t, milan, v1alpha1.PeeringEstablished, test.reason, test.message)
			if c := condition(milan); c.Status != metav1.ConditionFalse {
				t.Errorf("the condition is %s", c.Status)
			}
			if phase := rome.fc().Status.Networking; phase != v1alpha1.PeeringEstablished {
				t.Errorf("the peer reports %s: %v", phase, condition(rome))
			}
			if diff := cmp.Diff(before, milan.te().Spec); diff != "" {
				t.Errorf("the tunnel (-before +after):\n%s", diff)
			}

			milan.gatewayReports(v1alpha1.TunnelConnecting, "no handshake")
			milan.Clock.Step(settleTime)
			settle(t, all, rome, milan)
			failed := v1alpha1.PeeringError
			if test.reason == ReasonAwaitingGateway {
				failed = v1alpha1.PeeringPending
			}
			expectStatus(t, milan, failed, test.reason, test.message)
			milan.gatewayReports(v1alpha1.TunnelConnected, "")
			test.undo(rome, milan)
			settle(t, all, rome, milan)
			expectAgreement(t, rome, milan)
			expectStatus(t, milan, v1alpha1.PeeringEstablished, ReasonConnected, "")
		})
	}
}
