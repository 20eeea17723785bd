// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"strings"
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
)

// candidate is one of several processes that want the same lease.
type candidate struct {
	stop    context.CancelFunc
	working chan struct{}
	ended   chan error
}

// run lets a candidate wait and work until it is stopped. working counts those
// that do. A lease that is lost in a test is so after patient.
func run(t *testing.T, client *fake.Clientset, name string, patient time.Duration, working *atomic.Int32) *candidate {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	c := &candidate{stop: stop, working: make(chan struct{}), ended: make(chan error, 1)}
	terms := Terms{
		Name: "federation", Lease: 2 * patient, Renew: patient, Retry: 10 * time.Millisecond,
		Watchdog: leaderelection.NewLeaderHealthzAdaptor(time.Second),
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "liqo", Name: "federation"},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: name},
	}
	go func() {
		c.ended <- Lead(ctx, lock, terms, func(ctx context.Context) {
			if n := working.Add(1); n > 1 {
				t.Errorf("%s works beside another", name)
			}
			close(c.working)
			<-ctx.Done()
			if holder := holderOf(t, client); holder != name {
				t.Errorf("%s still works, and the lease is %q's", name, holder)
			}
			working.Add(-1)
		})
	}()
	return c
}

// holderOf is who has the lease.
func holderOf(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	lease, err := client.CoordinationV1().Leases("liqo").Get(context.WithoutCancel(t.Context()), "federation", metav1.GetOptions{})
	if err != nil {
		t.Error(err)
		return ""
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// patience bounds what takes a moment.
const patience = 20 * time.Second

func wait[T any](t *testing.T, what string, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(patience):
		t.Fatalf("%s did not happen in %s", what, patience)
	}
	return value
}

func TestAStandbyTakesOverWhenTheLeaderIsStopped(t *testing.T) {
	client := fake.NewClientset()
	var working atomic.Int32
	leader := run(t, client, "first", patience, &working)
	wait(t, "the first candidate's work", leader.working)
	standby := run(t, client, "second", patience, &working)
	third := run(t, client, "third", patience, &working)

	// One that never led ends as well.
	third.stop()
	if err := wait(t, "the end of a standby", third.ended); err != nil {
		t.Errorf("a standby that is stopped ends with %v", err)
	}
	leader.stop()
	if err := wait(t, "the end of the leader", leader.ended); err != nil {
		t.Errorf("a leader that is stopped ends with %v", err)
	}
	wait(t, "the standby's work", standby.working)
	if holder := holderOf(t, client); holder != "second" {
		t.Errorf("the lease is %q's", holder)
	}
}

func TestALeaderThatLosesItsLeaseStopsWorkingAndSaysSo(t *testing.T) {
	client := fake.NewClientset()
	var silent atomic.Bool
	client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		lease := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
		// An answer comes back when it is too late, and the lease is given back.
		return silent.Load() && ptr.Deref(lease.Spec.HolderIdentity, "") != "", nil, errors.New("nobody answers")
	})
	var working atomic.Int32
	leader := run(t, client, "first", time.Second, &working)
	wait(t, "the candidate's work", leader.working)

	silent.Store(true)
	if err := wait(t, "the end of the leader", leader.ended); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "the lease liqo/federation was lost") {
		t.Errorf("got %v", err)
	}
	if n := working.Load(); n != 0 {
		t.Errorf("%d still work", n)
	}
	// What was lost is not given back: it may be another one's by now.
	if holder := holderOf(t, client); holder != "first" {
		t.Errorf("the lease is %q's", holder)
	}
}

func TestAContainerThatIsStartedAgainIsWhoItWas(t *testing.T) {
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
		t.Errorf("two processes of one host are both %q (%v)", first, err)
	}
}
