// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
)

// inBandPeers returns an in-band consumer and provider whose ForeignClusters have each other's gateway, and
// whose peering is not established yet.
func inBandPeers(t tb) (consumer, provider *world) {
	t.Helper()
	consumer = newWorld(t, "rome", romeID, "milan", milanID, settingsOf("10.0.0.0/16"))
	provider = newWorld(t, "milan", milanID, "rome", romeID, settingsOf("10.0.0.0/16"))
	for _, w := range []*world{consumer, provider} {
		w.publish()
	}
	key := func(w *world) *v1alpha1.PeeringGateway {
		f := &facts{}
		if failed, err := w.r.readKeys(t.Context(), f, nil); err != nil || failed != nil {
			t.Fatal(failed, err)
		}
		return &v1alpha1.PeeringGateway{PublicKey: f.newKey, Endpoints: []string{w.name + ".example.org:51820"}}
	}
	consumer.change(func(fc *v1alpha1.ForeignCluster) {
		fc.Spec.Mode, fc.Spec.Gateway, fc.Spec.Outgoing = v1alpha1.PeeringInBand, key(provider), v1alpha1.PeeringEnabled
	})
	provider.change(func(fc *v1alpha1.ForeignCluster) {
		fc.Spec.Mode, fc.Spec.Gateway, fc.Spec.Incoming = v1alpha1.PeeringInBand, key(consumer), v1alpha1.PeeringEnabled
	})
	return consumer, provider
}

func TestAnInBandPeeringBeginsWithTheTunnel(t *testing.T) {
	rome, milan := inBandPeers(t)
	both := func() bool { return replicate(rome, milan) }
	settle(t, both, rome, milan)
	for w, part := range map[*world]v1alpha1.TunnelControl{rome: v1alpha1.TunnelControlCall,
		milan: v1alpha1.TunnelControlServe} {
		fc := w.fc()
		want := v1alpha1.TunnelEndpointSpec{
			ClusterID: fc.Spec.ClusterID, PublicKey: fc.Spec.Gateway.PublicKey, Endpoints: fc.Spec.Gateway.Endpoints,
			Control: []v1alpha1.TunnelControl{part},
		}
		if w.te() == nil {
			t.Fatalf("%s has no tunnel: %+v", w.name, fc.Status)
		}
		if diff := cmp.Diff(want, w.te().Spec); diff != "" {
			t.Errorf("%s (-want +got):\n%s", w.name, diff)
		}
		if fc.Status.Gateway == nil || fc.Status.Gateway.Endpoints[0] != "gateway.example.org:51820" {
			t.Errorf("%s does not announce its gateway: %+v", w.name, fc.Status.Gateway)
		}
	}

	// Once the peering is established, the ranges are added to the tunnel.
	rome.peered(v1alpha1.PeeringEstablished, v1alpha1.PeeringNone, compatibility.FeatureTunnel)
	milan.peered(v1alpha1.PeeringNone, v1alpha1.PeeringEstablished, compatibility.FeatureTunnel)
	settle(t, both, rome, milan)
	expectAgreement(t, rome, milan)
	if parts := rome.te().Spec.Control; len(rome.te().Spec.Remote) == 0 || len(parts) != 1 ||
		parts[0] != v1alpha1.TunnelControlCall {
		t.Errorf("the tunnel is %+v", rome.te().Spec)
	}

	// While rome ends the peering, the tunnel is needed; then it is deleted.
	rome.change(func(fc *v1alpha1.ForeignCluster) {
		fc.Spec.Outgoing, fc.Status.OutgoingPeering = v1alpha1.PeeringDisabled, v1alpha1.PeeringDisconnecting
	})
	milan.peered(v1alpha1.PeeringNone, v1alpha1.PeeringNone)
	settle(t, both, rome, milan)
	if te := rome.te(); te == nil || len(te.Spec.Control) != 1 {
		t.Errorf("rome has no tunnel to end the peering: %+v", te)
	}
	if te := milan.te(); te != nil {
		t.Errorf("milan keeps the tunnel: %+v", te.Spec)
	}
	rome.change(func(fc *v1alpha1.ForeignCluster) { fc.Status.OutgoingPeering = v1alpha1.PeeringNone })
	settle(t, both, rome, milan)
	if te := rome.te(); te != nil {
		t.Errorf("rome keeps the tunnel: %+v", te.Spec)
	}
}

func TestATunnelForTheControlPlaneAloneIsNotConnectedWithoutAGateway(t *testing.T) {
	rome, _ := inBandPeers(t)
	alone := func() bool { return false }
	settle(t, alone, rome)
	rome.changeTunnel(func(te *v1alpha1.TunnelEndpoint) {
		te.Status = v1alpha1.TunnelEndpointStatus{Phase: v1alpha1.TunnelConnected, ObservedGeneration: te.Generation}
	})
	settle(t, alone, rome)
	expectStatus(t, rome, v1alpha1.PeeringPending, ReasonAwaitingPeering, "carries the control plane")
	rome.r.life.set(true)
	settle(t, alone, rome)
	expectStatus(t, rome, v1alpha1.PeeringPending, ReasonGatewayLeaseExpired, "Lease federation-gateway")
	rome.r.life.set(false)
	settle(t, alone, rome)
	expectStatus(t, rome, v1alpha1.PeeringPending, ReasonAwaitingPeering, "carries the control plane")
}

func TestWithoutTunnelsForPodsTheControlPlaneHasOne(t *testing.T) {
	for mode, networking := range map[v1alpha1.NetworkingMode]v1alpha1.PeeringPhase{
		v1alpha1.NetworkingNone: v1alpha1.PeeringNone, v1alpha1.NetworkingFlat: v1alpha1.PeeringEstablished,
	} {
		t.Run(string(mode), func(t *testing.T) {
			rome, milan := inBandPeers(t)
			both := func() bool { return replicate(rome, milan) }
			rome.r.Networking, milan.r.Networking = mode, mode
			rome.peered(v1alpha1.PeeringEstablished, v1alpha1.PeeringNone, compatibility.FeatureTunnel)
			milan.peered(v1alpha1.PeeringNone, v1alpha1.PeeringEstablished, compatibility.FeatureTunnel)
			// The controller in package link/foreigncluster writes this value, which is not the state of the tunnel.
			rome.change(func(fc *v1alpha1.ForeignCluster) { fc.Status.Networking = networking })
			settle(t, both, rome, milan)
			if te := rome.te(); te == nil || len(te.Spec.Remote) > 0 {
				t.Fatalf("the tunnel is %+v", te)
			}
			for _, stage := range []struct {
				name    string
				phase   v1alpha1.TunnelPhase
				expired bool
				reason  string
				status  metav1.ConditionStatus
			}{
				{"before the first handshake", v1alpha1.TunnelConnecting, false, ReasonConnecting, metav1.ConditionFalse},
				{"connected", v1alpha1.TunnelConnected, false, ReasonConnected, metav1.ConditionTrue},
				{"without a gateway", v1alpha1.TunnelConnected, true, ReasonGatewayLeaseExpired, metav1.ConditionFalse},
				{"with a gateway again", v1alpha1.TunnelConnected, false, ReasonConnected, metav1.ConditionTrue},
				{"failed", v1alpha1.TunnelError, false, ReasonTunnelFailing, metav1.ConditionFalse},
			} {
				rome.gatewayReports(stage.phase, "")
				rome.r.life.set(stage.expired)
				settle(t, both, rome, milan)
				expectStatus(t, rome, networking, stage.reason, "")
				if c := condition(rome); c.Status != stage.status {
					t.Errorf("%s: condition %s: %s", stage.name, c.Status, c.Message)
				}
			}
		})
	}
}

func TestTheEndpointsAndTheUsedKeyOfTheGatewayAreAnnounced(t *testing.T) {
	rome, _ := inBandPeers(t)
	exposed(rome)
	expect := func(when, key string, endpoints ...string) {
		t.Helper()
		settle(t, func() bool { return false }, rome)
		if diff := cmp.Diff(&v1alpha1.PeeringGateway{PublicKey: key, Endpoints: endpoints},
			rome.fc().Status.Gateway); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	key := publicKeyOf(rome)
	expect("without a Service", key)
	rome.put(serviceOf(corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: "192.0.2.1"}))
	expect("with an address", key, "192.0.2.1:4500")
	rome.replace(serviceOf(corev1.ServiceTypeNodePort))
	rome.put(nodeAt("a", "10.0.0.1"), podOn("a"))
	expect("for a moment", key, "192.0.2.1:4500")
	rome.Clock.Step(settleTime)
	expect("of another type", key, "10.0.0.1:30820")

	older := strings.Repeat("o", 42) + "A="
	rome.uses(older)
	expect("before the gateway uses its new key", older, "10.0.0.1:30820")
	rome.Settings.PodCIDRs = nil
	expect("while the ranges of pods are unknown", older, "10.0.0.1:30820")
}

func TestARefusedTunnelKeepsNoRanges(t *testing.T) {
	rome, milan := inBandPeers(t)
	both := func() bool { return replicate(rome, milan) }
	rome.peered(v1alpha1.PeeringEstablished, v1alpha1.PeeringNone, compatibility.FeatureTunnel)
	milan.peered(v1alpha1.PeeringNone, v1alpha1.PeeringEstablished, compatibility.FeatureTunnel)
	settle(t, both, rome, milan)
	expectAgreement(t, rome, milan)
	rome.change(func(fc *v1alpha1.ForeignCluster) {
		fc.Spec.Networking, fc.Spec.Gateway.PublicKey = v1alpha1.NetworkingNone, publicKeyOf(rome)
	})
	settle(t, both, rome, milan)
	if te := rome.te(); te != nil {
		t.Errorf("the tunnel is %+v", te.Spec)
	}
}

func TestATunnelThatCarriesPodsDoesNotGoToAnotherClustersGateway(t *testing.T) {
	rome, milan := inBandPeers(t)
	both := func() bool { return replicate(rome, milan) }
	rome.peered(v1alpha1.PeeringEstablished, v1alpha1.PeeringNone, compatibility.FeatureTunnel)
	milan.peered(v1alpha1.PeeringNone, v1alpha1.PeeringEstablished, compatibility.FeatureTunnel)
	settle(t, both, rome, milan)
	before := rome.te().Spec
	turins := strings.Repeat("t", 42) + "A="
	rome.put(&v1alpha1.TunnelEndpoint{
		ObjectMeta: metav1.ObjectMeta{Name: "turin", Namespace: installation},
		Spec:       v1alpha1.TunnelEndpointSpec{ClusterID: "turin", PublicKey: turins},
	})
	rome.change(func(fc *v1alpha1.ForeignCluster) { fc.Spec.Gateway.PublicKey = turins })
	settle(t, both, rome, milan)
	if diff := cmp.Diff(before, rome.te().Spec); diff != "" {
		t.Errorf("the tunnel (-before +after):\n%s", diff)
	}
	expectStatus(t, rome, v1alpha1.PeeringError, ReasonGatewayRefused, "another cluster's gateway")
}

func TestTheGatewayOfAnotherClusterIsRefused(t *testing.T) {
	for name, change := range map[string]func(rome *world, fc *v1alpha1.ForeignCluster){
		"the local key": func(rome *world, fc *v1alpha1.ForeignCluster) { fc.Spec.Gateway.PublicKey = publicKeyOf(rome) },
		"the key of another peer": func(rome *world, fc *v1alpha1.ForeignCluster) {
			rome.put(&v1alpha1.TunnelEndpoint{
				ObjectMeta: metav1.ObjectMeta{Name: "turin", Namespace: installation},
				Spec:       v1alpha1.TunnelEndpointSpec{ClusterID: "turin", PublicKey: fc.Spec.Gateway.PublicKey},
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			rome, _ := inBandPeers(t)
			rome.change(func(fc *v1alpha1.ForeignCluster) { change(rome, fc) })
			settle(t, func() bool { return false }, rome)
			if c := condition(rome); rome.te() != nil || c.Reason != ReasonGatewayRefused {
				t.Errorf("the tunnel is %v: %s: %s", rome.te(), c.Reason, c.Message)
			}
		})
	}
}
