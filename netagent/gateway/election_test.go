// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/probe"
)

// The tests run in synctest bubbles: time is simulated.

// watchDelay is the delay of watch events after the response to a write.
const watchDelay = 5 * time.Millisecond

// cluster is an API server with one Lease, and gateways that may be disconnected from it and from each other.
type cluster struct {
	coordinationclient.LeaseInterface

	mu       sync.Mutex
	lease    *coordinationv1.Lease
	version  int
	away     bool
	gateways map[string]*Election
	silent   map[string]bool // nodes whose gateway does not reply to probes
	refuses  map[string]bool // nodes without a listening gateway
	unable   map[string]bool // nodes whose gateway is unhealthy
}

func newCluster() *cluster {
	return &cluster{
		gateways: make(map[string]*Election),
		silent:   make(map[string]bool),
		refuses:  make(map[string]bool),
		unable:   make(map[string]bool),
	}
}

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (c *cluster) write(lease *coordinationv1.Lease, known bool) (*coordinationv1.Lease, error) {
	c.mu.Lock()
	switch {
	case c.away:
		c.mu.Unlock()
		return nil, errors.New("the API server is unavailable")
	case known && c.lease.ResourceVersion != lease.ResourceVersion:
		c.mu.Unlock()
		return nil, apierrors.NewConflict(leases, lease.Name, nil)
	case !known && c.lease != nil:
		c.mu.Unlock()
		return nil, apierrors.NewAlreadyExists(leases, lease.Name)
	}
	c.version++
	c.lease = lease.DeepCopy()
	c.lease.ResourceVersion = strconv.Itoa(c.version)
	written := c.lease.DeepCopy()
	watchers := make([]*Election, 0, len(c.gateways))
	for _, g := range c.gateways {
		watchers = append(watchers, g)
	}
	c.mu.Unlock()
	// The watch event follows the response.
	go func() {
		time.Sleep(watchDelay)
		for _, g := range watchers {
			g.Observe(written)
		}
	}()
	return written, nil
}

func (c *cluster) Create(
	_ context.Context,
	lease *coordinationv1.Lease,
	_ metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	return c.write(lease, false)
}

func (c *cluster) Update(
	_ context.Context,
	lease *coordinationv1.Lease,
	_ metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	return c.write(lease, true)
}

func (c *cluster) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away || c.lease == nil {
		return nil, errors.New("no Lease")
	}
	return c.lease.DeepCopy(), nil
}

func (c *cluster) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// join starts a gateway on a node, and returns its election and the function that stops it.
func (c *cluster) join(t *testing.T, node string) (*Election, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	e := NewElection(node, c, func(_ context.Context, other string, timeout time.Duration) error {
		c.mu.Lock()
		dead, refused := c.silent[other] || c.silent[node], c.refuses[other]
		c.mu.Unlock()
		switch {
		case dead:
			time.Sleep(timeout)
			return context.DeadlineExceeded
		case refused:
			return fmt.Errorf("probing %s: %w", other, probe.ErrRefused)
		}
		return nil
	}, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.unable[node]
	}, func() {})
	c.set(func() { c.gateways[node] = e })
	if lease, err := c.Get(ctx, agent.GatewayName, metav1.GetOptions{}); err == nil {
		e.Observe(lease)
	}
	done := make(chan struct{})
	go func() { defer close(done); e.Run(ctx) }()
	return e, func() { cancel(); <-done; time.Sleep(2 * watchDelay); c.set(func() { delete(c.gateways, node) }) }
}

// two starts a gateway on rome-1, and a second later one on rome-2.
func (c *cluster) two(t *testing.T) (first *Election, stopFirst func(), second *Election, stopSecond func()) {
	t.Helper()
	first, stopFirst = c.join(t, "rome-1")
	time.Sleep(time.Second)
	second, stopSecond = c.join(t, "rome-2")
	return first, stopFirst, second, stopSecond
}

func want(t *testing.T, active string, all ...*Election) {
	t.Helper()
	for _, e := range all {
		if got := e.Active(); got != active {
			t.Errorf("for %s the active gateway is %q, want %q", e.Self, got, active)
		}
	}
}

func TestStandbyGatewayTakesOverWithinSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		first, stopFirst, second, stopSecond := c.two(t)
		time.Sleep(time.Minute)
		want(t, "rome-1", first, second)
		if c.version > 15 {
			t.Errorf("the Lease was written %d times in a minute", c.version)
		}

		c.set(func() { c.silent["rome-1"] = true })
		stopFirst()
		began := time.Now()
		for second.Active() != "rome-2" && time.Since(began) < time.Minute {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("takeover after %s", took)
		}

		// rome-1 is reachable again, and becomes a standby gateway.
		c.set(func() { c.silent["rome-1"] = false })
		first, stopFirst = c.join(t, "rome-1")
		time.Sleep(time.Minute)
		want(t, "rome-2", first, second)
		if n := *c.lease.Spec.LeaseTransitions; n != 2 {
			t.Errorf("the Lease has changed its holder %d times", n)
		}
		stopFirst()
		stopSecond()
	})
}

func TestTerminatedGatewayIsReplacedSoonerThanAnUnresponsiveOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, end := range []struct {
			what        string
			dead        func(*cluster) map[string]bool
			least, most time.Duration
		}{
			{
				"no gateway listens", func(c *cluster) map[string]bool { return c.refuses }, (maxMissed - 1) * refusedRetry,
				holderProbeInterval + (maxMissed+1)*refusedRetry,
			},
			{
				"no reply", func(c *cluster) map[string]bool { return c.silent }, (maxMissed - 1) * holderProbeInterval,
				(maxMissed + 2) * holderProbeInterval,
			},
		} {
			c := newCluster()
			_, stopFirst := c.join(t, "rome-1")
			time.Sleep(time.Second)
			second, stopSecond := c.join(t, "rome-2")
			time.Sleep(time.Minute)
			began := time.Now()
			c.set(func() { end.dead(c)["rome-1"] = true })
			stopFirst()
			for second.Active() != "rome-2" && time.Since(began) < time.Minute {
				time.Sleep(time.Millisecond)
			}
			if took := time.Since(began); took < end.least || took > end.most {
				t.Errorf("%s: takeover after %s, want %s to %s", end.what, took, end.least, end.most)
			}
			stopSecond()
		}
	})
}

func TestFewRefusedProbesDoNotReplaceTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		first, stopFirst, second, stopSecond := c.two(t)
		time.Sleep(time.Minute)
		for range 10 {
			// The holder is probed at most maxMissed-1 times while it refuses.
			c.set(func() { c.refuses["rome-1"] = true })
			time.Sleep((maxMissed-1)*refusedRetry - time.Millisecond)
			c.set(func() { c.refuses["rome-1"] = false })
			time.Sleep(time.Second)
		}
		want(t, "rome-1", first, second)
		stopFirst()
		stopSecond()
	})
}

func TestActiveGatewayStaysDuringAnAPIServerOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		first, stopFirst, second, stopSecond := c.two(t)
		time.Sleep(time.Second)
		c.set(func() { c.away = true })
		time.Sleep(time.Hour)
		want(t, "rome-1", first, second)
		// The standby gateway restarts during the outage, and has observed no Lease.
		stopSecond()
		second, stopSecond = c.join(t, "rome-2")
		time.Sleep(time.Minute)
		want(t, "", second)
		c.set(func() { c.away = false })
		time.Sleep(time.Minute)
		want(t, "rome-1", first, second)
		stopFirst()
		stopSecond()
	})
}

func TestGatewayThatOnlyCannotReachTheAPIServerIsNotReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		first, stopFirst, second, stopSecond := c.two(t)
		time.Sleep(time.Second)
		stopFirst() // it does not renew the Lease, but replies to probes
		time.Sleep(time.Hour)
		want(t, "rome-1", first, second)
		stopSecond()
	})
}

func TestPartitionedGatewaysDoNotAlternate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		first, stopFirst, second, stopSecond := c.two(t)
		time.Sleep(time.Second)
		c.set(func() { c.silent["rome-1"] = true })
		time.Sleep(time.Hour)
		want(t, "rome-2", first, second)
		if n := *c.lease.Spec.LeaseTransitions; n != 2 {
			t.Errorf("the Lease has changed its holder %d times", n)
		}
		stopFirst()
		stopSecond()
	})
}

func TestReleasedLeaseIsAcquiredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		first, stopFirst, second, stopSecond := c.two(t)
		time.Sleep(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := second.Release(ctx); err != nil {
			t.Errorf("Release by a standby gateway: %v", err)
		}
		stopFirst()
		c.set(func() { c.gateways["rome-1"] = first })
		began := time.Now()
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > holderProbeInterval {
			t.Errorf("takeover after %s", took)
		}
		want(t, "rome-2", first, second)
		stopSecond()
	})
}

// A terminating gateway stops replying to probes before it releases the Lease, so that a standby gateway may
// acquire it earlier.
func TestLeaseMayBeAcquiredDuringRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		first, stopFirst, second, stopSecond := c.two(t)
		time.Sleep(time.Minute)
		stopFirst()
		c.set(func() { c.refuses["rome-1"] = true })
		time.Sleep(time.Minute)
		want(t, "rome-2", second)
		want(t, "rome-1", first)
		if err := first.Release(t.Context()); err != nil {
			t.Error(err)
		}
		want(t, "rome-2", first, second)
		stopSecond()
	})
}

func TestHolderWithoutAnyReplyIsReplacedWhenItsLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		_, stopFirst := c.join(t, "rome-1")
		time.Sleep(time.Second)
		stopFirst()
		c.set(func() { c.silent["rome-1"] = true })
		second, stopSecond := c.join(t, "rome-2")
		time.Sleep(leaseDuration - time.Second)
		want(t, "rome-1", second)
		time.Sleep(5 * time.Second)
		want(t, "rome-2", second)
		stopSecond()
	})
}

func TestUnhealthyGatewayNeitherAcquiresNorKeepsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		first, stopFirst := c.join(t, "rome-1")
		time.Sleep(time.Second)
		c.set(func() { c.unable["rome-2"] = true })
		second, stopSecond := c.join(t, "rome-2")
		// rome-1 restarts, while the other gateway is unhealthy.
		c.set(func() { c.silent["rome-1"] = true })
		time.Sleep(time.Minute)
		want(t, "rome-1", first, second)
		c.set(func() { c.silent["rome-1"] = false })
		time.Sleep(time.Second)

		// The holder becomes unhealthy and stops replying.
		c.set(func() {
			c.unable = map[string]bool{"rome-1": true}
			c.silent["rome-1"] = true
		})
		time.Sleep(2 * leaseDuration)
		want(t, "rome-2", first, second)
		stopFirst()
		stopSecond()
	})
}

// If all gateways are unhealthy by a cause common to all nodes, one of them must be active nevertheless.
func TestOneOfOnlyUnhealthyGatewaysHoldsTheLease(t *testing.T) {
	// missed is the time without a renewal after which the controllers report the gateways as unresponsive.
	const missed = 40 * time.Second
	for name, able := range map[string]bool{"from the beginning": false, "after some time": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				fail := func() {
					for _, node := range []string{"rome-1", "rome-2"} {
						c.unable[node], c.silent[node] = true, true
					}
				}
				if !able {
					fail()
				}
				first, stopFirst, second, stopSecond := c.two(t)
				time.Sleep(unhealthyAcquire + time.Second)
				c.set(fail)
				for range 100 {
					before, err := c.Get(t.Context(), agent.GatewayName, metav1.GetOptions{})
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(missed)
					if now, err := c.Get(t.Context(), agent.GatewayName, metav1.GetOptions{}); err != nil ||
						now.ResourceVersion == before.ResourceVersion {
						t.Errorf("the Lease was not renewed: %v", err)
					}
				}
				want(t, "rome-1", first, second)
				if n := *c.lease.Spec.LeaseTransitions; n != 1 {
					t.Errorf("the Lease has changed its holder %d times", n)
				}
				// The holder stops, and only the other gateway is left.
				stopFirst()
				time.Sleep(unhealthyAcquire + time.Second)
				want(t, "rome-2", second)
				stopSecond()
			})
		})
	}
}

func TestHealthyGatewayPrecedesAnUnhealthyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		transitions := func(want int32) {
			t.Helper()
			lease, err := c.Get(t.Context(), agent.GatewayName, metav1.GetOptions{})
			if err != nil || *lease.Spec.LeaseTransitions != want {
				t.Errorf("the Lease has not changed its holder %d times: %v, %v", want, lease, err)
			}
		}
		c.set(func() { c.unable["rome-1"], c.refuses["rome-1"] = true, true })
		first, stopFirst := c.join(t, "rome-1")
		time.Sleep(time.Hour)
		want(t, "rome-1", first)
		second, stopSecond := c.join(t, "rome-2")
		time.Sleep(unhealthyRenewal)
		want(t, "rome-2", first, second)
		time.Sleep(time.Hour)
		want(t, "rome-2", first, second)
		transitions(2)
		// The healthy gateway restarts, and the unhealthy one does not acquire the Lease.
		stopSecond()
		c.set(func() { c.refuses["rome-2"] = true })
		time.Sleep(unhealthyAcquire - 2*renewInterval)
		want(t, "rome-2", first)
		c.set(func() { c.refuses["rome-2"] = false })
		second, stopSecond = c.join(t, "rome-2")
		time.Sleep(time.Hour)
		want(t, "rome-2", first, second)
		transitions(2)
		stopFirst()
		stopSecond()
	})
}

// Probes that fail while a gateway is unhealthy do not count once it is healthy.
func TestRecoveredGatewayDoesNotReplaceAResponsiveHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		first, stopFirst, second, stopSecond := c.two(t)
		time.Sleep(time.Minute)
		c.set(func() { c.unable["rome-2"], c.refuses["rome-1"] = true, true })
		time.Sleep(10 * time.Second)
		c.set(func() { c.refuses["rome-1"] = false })
		time.Sleep(time.Second)
		c.set(func() { c.unable["rome-2"] = false })
		time.Sleep(time.Minute)
		want(t, "rome-1", first, second)
		stopFirst()
		stopSecond()
	})
}

func TestOlderVersionOfTheLeaseIsIgnored(t *testing.T) {
	e := NewElection("rome-2", nil, nil, nil, func() {})
	state := func(version, holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: version},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
		}
	}
	e.Observe(state("11", "rome-2"))
	e.Observe(state("9", "rome-1"))
	want(t, "rome-2", e)
	e.Observe(nil)
	want(t, "rome-2", e)
	if do, _ := e.next(true); do != acquire {
		t.Errorf("action after the Lease was deleted: %s", do)
	}
}
