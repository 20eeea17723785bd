// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
)

// gatewayReports sets the phase and the condition Connected of the TunnelEndpoint, as the gateway does.
func (w *world) gatewayReports(phase v1alpha1.TunnelPhase, message string) {
	w.t.Helper()
	w.changeTunnel(func(endpoint *v1alpha1.TunnelEndpoint) {
		endpoint.Status.Phase, endpoint.Status.ObservedGeneration = phase, endpoint.Generation
		status := metav1.ConditionFalse
		if phase == v1alpha1.TunnelConnected {
			status = metav1.ConditionTrue
		}
		endpoint.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionConnected, Status: status, Reason: "Test", Message: message,
			LastTransitionTime: metav1.NewTime(w.Clock.Now()),
		}}
	})
}

func TestTheStatusOfTheGatewayIsReported(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	rome.gatewayReports(v1alpha1.TunnelConnecting, "no handshake\x1b[2J")
	rome.pass()
	expectStatus(t, rome, v1alpha1.PeeringPending, ReasonConnecting, "no handshake[2J")
	rome.gatewayReports(v1alpha1.TunnelConnected, "")
	rome.pass()
	expectStatus(t, rome, v1alpha1.PeeringEstablished, ReasonConnected, "")
	rome.gatewayReports(v1alpha1.TunnelConnecting, "the gateway moves")
	rome.pass()
	if expectStatus(t, rome, v1alpha1.PeeringEstablished, ReasonConnecting, "moves"); rome.after != settleTime {
		t.Errorf("requeued after %v", rome.after)
	}
	rome.Clock.Step(settleTime)
	rome.pass()
	expectStatus(t, rome, v1alpha1.PeeringPending, ReasonConnecting, "moves")
	rome.gatewayReports(v1alpha1.TunnelError, "10.2.0.0/16 overlaps a node")
	rome.pass()
	expectStatus(t, rome, v1alpha1.PeeringError, ReasonTunnelFailing, "overlaps a node")
}

// lateCache is a reader whose Lease is outdated, and that reads all other objects from the API server.
type lateCache struct {
	client.Reader
	lease *coordinationv1.Lease
}

func (c *lateCache) Get(ctx context.Context, key client.ObjectKey, object client.Object,
	options ...client.GetOption) error {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return c.Reader.Get(ctx, key, object, options...)
	}
	if c.lease == nil {
		return apierrors.NewNotFound(coordinationv1.Resource("leases"), key.Name)
	}
	c.lease.DeepCopyInto(lease)
	return nil
}

// The gateway may have stopped after it wrote that the tunnel is connected.
func TestATunnelWithoutAGatewayIsNotConnected(t *testing.T) {
	rome, milan := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	settle(t, func() bool { return replicate(rome, milan) }, rome, milan)
	late := &lateCache{Reader: rome.r.installation}
	rome.r.installation = late
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := rome.r.lifeChanged.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: v1alpha1.GatewayName}}
	renew := func(cached bool) {
		t.Helper()
		if !rome.Has(lease) {
			rome.put(lease)
		} else if err := rome.Update(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		if cached {
			late.lease = lease.DeepCopy()
		}
	}
	// expect advances the clock, reconciles the Lease, and verifies the time of the next reconcile, and whether
	// all tunnels are enqueued.
	expect := func(after time.Duration, want time.Duration, all bool) {
		t.Helper()
		rome.Clock.Step(after)
		result, err := rome.r.Reconcile(t.Context(), leaseRequest)
		if requested := queue.Len(); err != nil || result.RequeueAfter != want || (requested > 0) != all {
			t.Errorf("after %s, requeued after %s, want %s; %d other requests; %v", after, result.RequeueAfter, want,
				requested, err)
		}
		for queue.Len() > 0 {
			request, _ := queue.Get()
			queue.Done(request)
		}
		rome.pass()
	}
	rome.changeTunnel(func(te *v1alpha1.TunnelEndpoint) {
		te.Status = v1alpha1.TunnelEndpointStatus{Phase: v1alpha1.TunnelConnected, ObservedGeneration: te.Generation,
			LatencyMicroseconds: 4200}
	})
	latency := func(want int64) {
		t.Helper()
		if got := rome.fc().Status.LatencyMicroseconds; got != want {
			t.Errorf("the latency is %d µs, want %d", got, want)
		}
	}
	expect(time.Hour, leaseTimeout, false)
	expectStatus(t, rome, v1alpha1.PeeringEstablished, ReasonConnected, "")

	renew(true)
	expect(time.Second, leaseTimeout, false)
	renew(false)
	expect(leaseTimeout, leaseTimeout, false)
	expectStatus(t, rome, v1alpha1.PeeringEstablished, ReasonConnected, "")
	latency(4200)
	expect(leaseTimeout, 0, true)
	expectStatus(t, rome, v1alpha1.PeeringPending, ReasonGatewayLeaseExpired, "Lease federation-gateway")
	latency(0)
	renew(true)
	expect(time.Second, leaseTimeout, true)
	expectStatus(t, rome, v1alpha1.PeeringEstablished, ReasonConnected, "")
}

func TestNothingIsAnnouncedWithoutATunnel(t *testing.T) {
	rome, _ := peers(t, settingsOf("10.1.0.0/16"), settingsOf("10.2.0.0/16"))
	for _, mode := range []v1alpha1.NetworkingMode{v1alpha1.NetworkingNone, v1alpha1.NetworkingFlat} {
		rome.r.Networking = mode
		if writes := rome.pass(); len(writes) > 0 {
			t.Errorf("with %s it writes %v", mode, writes)
		}
	}
	rome.r.Networking = v1alpha1.NetworkingTunnel
	rome.peered(v1alpha1.PeeringEstablished, v1alpha1.PeeringNone)
	rome.pass()
	expectStatus(t, rome, v1alpha1.PeeringPending, ReasonVersionUnsupported, "upgrade")
	rome.peered(v1alpha1.PeeringPending, v1alpha1.PeeringNone, compatibility.FeatureTunnel)
	rome.pass()
	expectStatus(t, rome, v1alpha1.PeeringPending, ReasonAwaitingPeering, "")
	if rest := left(rome); len(rest) > 0 {
		t.Errorf("there are %v", rest)
	}
}
