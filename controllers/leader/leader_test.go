// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"liqo.io/federation/test/fakes"
)

// candidate is one of several processes in one election.
type candidate struct {
	stop    context.CancelFunc
	working chan struct{}
	// standby is closed when another candidate is observed to lead.
	standby chan struct{}
	ended   chan error
}

// run runs a candidate until it is stopped. working counts the processes
// that work.
func run(t *testing.T, client *fake.Clientset, name string, renew time.Duration, working *atomic.Int32) *candidate {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	c := &candidate{stop: stop, working: make(chan struct{}), standby: make(chan struct{}), ended: make(chan error, 1)}
	var standby sync.Once
	terms := Terms{
		Name: "federation", Lease: 2 * renew, Renew: renew, Retry: 10 * time.Millisecond,
		Watchdog: leaderelection.NewLeaderHealthzAdaptor(time.Second),
		Standby:  func() { standby.Do(func() { close(c.standby) }) },
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "liqo", Name: "federation"},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: name},
	}
	go func() {
		c.ended <- Lead(ctx, lock, terms, func(ctx context.Context) {
			if n := working.Add(1); n > 1 {
				t.Errorf("%s works at the same time as another", name)
			}
			close(c.working)
			<-ctx.Done()
			if holder := holderOf(t, client); holder != name {
				t.Errorf("%s still works, and the holder of the lease is %q", name, holder)
			}
			working.Add(-1)
		})
	}()
	return c
}

// holderOf returns the holder of the lease.
func holderOf(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	lease, err := client.CoordinationV1().Leases("liqo").Get(
		context.WithoutCancel(t.Context()), "federation", metav1.GetOptions{},
	)
	if err != nil {
		t.Error(err)
		return ""
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// timeout is the timeout of eventually.
const timeout = 20 * time.Second

func wait[T any](t *testing.T, what string, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(timeout):
		t.Fatalf("%s did not happen in %s", what, timeout)
	}
	return value
}

func TestAStandbyTakesOverWhenTheLeaderIsStopped(t *testing.T) {
	client := fake.NewClientset()
	var working atomic.Int32
	leader := run(t, client, "first", timeout, &working)
	wait(t, "the first candidate's work", leader.working)
	standby := run(t, client, "second", timeout, &working)
	third := run(t, client, "third", timeout, &working)
	wait(t, "the report that the second candidate is a standby", standby.standby)
	wait(t, "the report that the third candidate is a standby", third.standby)
	select {
	case <-leader.standby:
		t.Error("the leader is reported as a standby")
	default:
	}

	// A standby that never led ends as well.
	third.stop()
	if err := wait(t, "the end of a standby", third.ended); err != nil {
		t.Errorf("a stopped standby ends with %v", err)
	}
	leader.stop()
	if err := wait(t, "the end of the leader", leader.ended); err != nil {
		t.Errorf("a stopped leader ends with %v", err)
	}
	wait(t, "the standby's work", standby.working)
	if holder := holderOf(t, client); holder != "second" {
		t.Errorf("the holder of the lease is %q", holder)
	}
}

func TestALeaderThatLosesItsLeaseStopsAndReturnsErrLost(t *testing.T) {
	client := fake.NewClientset()
	var failing atomic.Bool
	fakes.React(client, "update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		lease := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
		// Renewals fail; a release would succeed.
		return failing.Load() && ptr.Deref(lease.Spec.HolderIdentity, "") != "", nil, errors.New("unavailable")
	})
	var working atomic.Int32
	leader := run(t, client, "first", time.Second, &working)
	wait(t, "the candidate's work", leader.working)

	failing.Store(true)
	if err := wait(t, "the end of the leader", leader.ended); !errors.Is(err, ErrLost) ||
		!strings.Contains(err.Error(), "the lease liqo/federation was lost") {
		t.Errorf("got %v", err)
	}
	if n := working.Load(); n != 0 {
		t.Errorf("%d still work", n)
	}
	// A lost lease is not released: another process may hold it.
	if holder := holderOf(t, client); holder != "first" {
		t.Errorf("the holder of the lease is %q", holder)
	}
}

func TestARestartedContainerHasTheSameIdentity(t *testing.T) {
	t.Setenv(PodName, "federation-controller-manager-x")
	if got, err := Identity(); err != nil || got != "federation-controller-manager-x" {
		t.Errorf("in a pod: got %q and %v", got, err)
	}
	t.Setenv(PodName, "")
	first, err := Identity()
	if err != nil {
		t.Fatal(err)
	}
	if second, err := Identity(); err != nil || second == first {
		t.Errorf("two processes of one host have the identity %q (%v)", first, err)
	}
}
