// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/test/etcd"
)

// pods is a Lister that returns list.
type pods struct {
	rest.Lister
	list federation.ShadowPodList
}

func (p *pods) List(context.Context, *internalversion.ListOptions) (runtime.Object, error) {
	return p.list.DeepCopy(), nil
}

func onePod(uid types.UID, revision string) federation.ShadowPod {
	return federation.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: revision},
		Status:     federation.ShadowPodStatus{ForeignCluster: "milan"},
	}
}

func count(n int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(n, resource.DecimalSI)}
}

// sum is a number of pods.
type sum int64

func (s sum) Plus(list corev1.ResourceList) sum  { return s + sum(list.Pods().Value()) }
func (s sum) Minus(list corev1.ResourceList) sum { return s - sum(list.Pods().Value()) }

type (
	ledgers = Ledgers[corev1.ResourceList, corev1.ResourceList, sum]
	stored  = Ledger[corev1.ResourceList]
)

var (
	// errExceeded is the error of the policy for a request that exceeds the limit.
	errExceeded = errors.New("there are too many pods")
	// errOver is the error of the policy if at least mayBeOver pods are over.
	errOver = errors.New("too many pods are over")
)

// mayBeOver is the number of pods that are over at which the policy refuses new ones.
const mayBeOver = 3

// kindOf returns a kind of shadow pods whose policy limits their total size. The size of a shadow pod is its
// generation, at least 1.
func kindOf(limits corev1.ResourceList) Kind[corev1.ResourceList, corev1.ResourceList, sum] {
	return Kind[corev1.ResourceList, corev1.ResourceList, sum]{
		Objects: "shadowpods", Ledgers: "ledgers",
		Entry: func(obj runtime.Object) (string, corev1.ResourceList, bool) {
			pod := obj.(*federation.ShadowPod)
			return pod.Status.ForeignCluster, count(max(1, pod.Generation)), pod.Status.Phase == ""
		},
		Policy: func(context.Context, string) (Policy[corev1.ResourceList, corev1.ResourceList, sum], error) {
			return func(used Used[sum], requested corev1.ResourceList) (corev1.ResourceList, error) {
				if used.Over >= mayBeOver {
					return nil, errOver
				}
				if used.Sum.Plus(requested) > sum(limits.Pods().Value()) {
					return nil, errExceeded
				}
				return requested, nil
			}, nil
		},
		Keep: func(context.Context, string) (bool, error) { return len(limits) > 0, nil },
	}
}

func listMeta(revision string) metav1.ListMeta { return metav1.ListMeta{ResourceVersion: revision} }

// codec encodes and decodes stored ledgers.
var codec = newCodec[corev1.ResourceList]()

// ledgersOf returns the ledgers of a server whose view contains no shadow pods, and its clock.
func ledgersOf(
	t *testing.T, endpoint string, alone bool, limits corev1.ResourceList,
) (*ledgers, *clocktesting.FakePassiveClock) {
	t.Helper()
	l, err := Open(kindOf(limits), etcd.NewOptions(endpoint, codec), alone)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC))
	l.clock = clock
	if _, err := l.view.replace(&federation.ShadowPodList{ListMeta: listMeta("1")}); err != nil {
		t.Fatal(err)
	}
	return l, clock
}

// storedBy returns the ledger of account milan; nil if it does not exist.
func storedBy(t *testing.T, l *ledgers) *stored {
	t.Helper()
	all, err := l.ledgers.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(all, func(ledger *stored) bool { return ledger.Name == "milan" })
	if at < 0 {
		return nil
	}
	return all[at]
}

func reserved(t *testing.T, l *ledgers, uids ...types.UID) {
	t.Helper()
	var got []types.UID
	if ledger := storedBy(t, l); ledger != nil {
		for _, reservation := range ledger.Reservations {
			got = append(got, reservation.UID)
		}
	}
	if diff := cmp.Diff(uids, got); diff != "" {
		t.Fatalf("reservations (-want +got):\n%s", diff)
	}
}

// abandon reserves amounts for milan, and never ends the reservations.
func abandon(t *testing.T, l *ledgers) {
	t.Helper()
	for _, uid := range []types.UID{"lost", "stored"} {
		if _, err := l.Reserve(t.Context(), "milan", uid, count(1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Grow(t.Context(), "milan", "growth", "grown", 1, count(1)); err != nil {
		t.Fatal(err)
	}
}

func TestReservationsOfACrashedServerAreReleasedAfterAbandoned(t *testing.T) {
	endpoint := etcd.Start(t)
	crashed, _ := ledgersOf(t, endpoint, false, count(3))
	abandon(t, crashed)
	next, clock := ledgersOf(t, endpoint, false, count(3))
	existing := &pods{list: federation.ShadowPodList{Items: []federation.ShadowPod{onePod("stored", "7"),
		onePod("grown", "8")}}}
	repair := func() {
		t.Helper()
		if err := next.Repair(t.Context(), existing); err != nil {
			t.Fatal(err)
		}
	}
	repair()
	reserved(t, next, "lost", "stored", "growth")
	clock.SetTime(clock.Now().Add(abandoned - time.Second))
	repair()
	reserved(t, next, "lost", "stored", "growth")
	clock.SetTime(clock.Now().Add(time.Second))
	repair()
	reserved(t, next)
	if seen := storedBy(t, next).Seen; seen != 8 {
		t.Errorf("the minimum revision is %d, want 8", seen)
	}
}

// The objects of reservations that a server held in memory are in etcd when the next server starts. It lists them
// before it reserves anything.
func TestReservationsEndWithAServerThatIsAlone(t *testing.T) {
	endpoint := etcd.Start(t)
	crashed, _ := ledgersOf(t, endpoint, true, count(3))
	abandon(t, crashed)
	if _, err := crashed.Reserve(t.Context(), "milan", "one-too-many", count(1)); !errors.Is(err, errExceeded) {
		t.Errorf("beyond what is reserved: got %v, want %v", err, errExceeded)
	}
	next, _ := ledgersOf(t, endpoint, true, count(3))
	reserved(t, next)
	list := &federation.ShadowPodList{ListMeta: listMeta("8"),
		Items: []federation.ShadowPod{onePod("stored", "7"), onePod("grown", "8")}}
	list.Items[1].Generation = 2
	if _, err := next.view.replace(list); err != nil {
		t.Fatal(err)
	}
	if _, err := next.Reserve(t.Context(), "milan", "new", count(1)); !errors.Is(err, errExceeded) {
		t.Errorf("beyond what was written: got %v, want %v", err, errExceeded)
	}
}

// The slower writer's first attempt is interrupted by a complete update of the quicker one.
func TestConcurrentUpdatesOfALedgerAreBothStored(t *testing.T) {
	m := &memory[corev1.ResourceList]{ledgers: map[string]*stored{}}
	reserve := func(uid types.UID) func(*stored) error {
		return func(l *stored) error {
			l.Reservations = append(l.Reservations, Reservation[corev1.ResourceList]{UID: uid})
			return nil
		}
	}
	tries := 0
	if err := m.update(t.Context(), "milan", func(l *stored) error {
		if tries++; tries == 1 {
			if err := m.update(t.Context(), "milan", reserve("quicker")); err != nil {
				return err
			}
		}
		return reserve("slower")(l)
	}); err != nil {
		t.Fatal(err)
	}
	listed, _ := m.list(t.Context())
	if len(listed) != 1 || tries != 2 {
		t.Fatalf("%d ledgers after %d tries", len(listed), tries)
	}
	var got []types.UID
	for _, r := range listed[0].Reservations {
		got = append(got, r.UID)
	}
	if diff := cmp.Diff([]types.UID{"quicker", "slower"}, got); diff != "" {
		t.Errorf("reservations (-want +got):\n%s", diff)
	}
	// A ledger that changed since it was listed is not removed.
	if err := m.update(t.Context(), "milan", reserve("third")); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{1, 0} {
		if err := m.remove(t.Context(), listed[0]); err != nil {
			t.Fatal(err)
		}
		if listed, _ = m.list(t.Context()); len(listed) != want {
			t.Fatalf("after removing it %d times there are %d", i+1, len(listed))
		}
	}
}

// inMemory returns a store with one ledger. A store in memory allows synctest to detect that a request is blocked,
// which etcd does not.
func inMemory(ledger *stored) store[corev1.ResourceList] {
	return &memory[corev1.ResourceList]{ledgers: map[string]*stored{ledger.Name: ledger}}
}

func TestReservingWaitsForTheMinimumRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedgers(kindOf(count(1)), inMemory(&stored{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Seen: 9}))
		if _, err := l.view.replace(&federation.ShadowPodList{ListMeta: listMeta("8")}); err != nil {
			t.Fatal(err)
		}
		answer := make(chan error, 1)
		go func() {
			_, err := l.Reserve(t.Context(), "milan", "new", count(1))
			answer <- err
		}()
		synctest.Wait()
		select {
		case err := <-answer:
			t.Fatalf("decided before the shadow pods were listed: %v", err)
		default:
		}
		pod := onePod("settled", "9")
		if err := l.view.observe(watch.Event{Type: watch.Added, Object: &pod}); err != nil {
			t.Fatal(err)
		}
		if err := <-answer; !errors.Is(err, errExceeded) {
			t.Errorf("a shadow pod from the watch does not count: %v", err)
		}
	})
}

// An amount that a policy adds may count instead of an object from before the object is deleted. Here the object is
// deleted just after the policy was read.
func TestPolicyIsReadAfterTheUsage(t *testing.T) {
	kind := kindOf(count(1))
	policyOf := kind.Policy
	l := newLedgers(kind, inMemory(&stored{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}))
	pod := onePod("deleted", "7")
	if _, err := l.view.replace(&federation.ShadowPodList{ListMeta: listMeta("8"),
		Items: []federation.ShadowPod{pod}}); err != nil {
		t.Fatal(err)
	}
	l.kind.Policy = func(ctx context.Context, account string) (Policy[corev1.ResourceList, corev1.ResourceList, sum],
		error) {
		policy, err := policyOf(ctx, account)
		l.Changed(&pod, true)
		return policy, err
	}
	if _, err := l.Reserve(t.Context(), "milan", "new", count(1)); !errors.Is(err, errExceeded) {
		t.Errorf("got %v, want %v", err, errExceeded)
	}
	if _, err := l.Reserve(t.Context(), "milan", "new", count(1)); err != nil {
		t.Errorf("after the object was deleted: %v", err)
	}
}

func TestGrowingWaitsForTheRevisionThatWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedgers(kindOf(count(4)), inMemory(&stored{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}))
		if _, err := l.view.replace(&federation.ShadowPodList{ListMeta: listMeta("8"),
			Items: []federation.ShadowPod{onePod("a", "7"), onePod("b", "8")}}); err != nil {
			t.Fatal(err)
		}
		answer := make(chan error, 1)
		go func() {
			_, err := l.Grow(t.Context(), "milan", "growth", "a", 9, count(2))
			answer <- err
		}()
		synctest.Wait()
		select {
		case err := <-answer:
			t.Fatalf("decided before the watch reported the revision that was read: %v", err)
		default:
		}
		pod := onePod("a", "9")
		pod.Generation = 2
		if err := l.view.observe(watch.Event{Type: watch.Modified, Object: &pod}); err != nil {
			t.Fatal(err)
		}
		if err := <-answer; !errors.Is(err, errExceeded) {
			t.Errorf("2 in addition to 3 of 4: got %v, want %v", err, errExceeded)
		}
		if _, err := l.Grow(t.Context(), "milan", "growth", "a", 9, count(1)); err != nil {
			t.Errorf("1 in addition to 3 of 4: %v", err)
		}
		if _, err := l.Reserve(t.Context(), "milan", "c", count(1)); !errors.Is(err, errExceeded) {
			t.Errorf("beyond what is reserved: got %v, want %v", err, errExceeded)
		}
	})
}

func TestGrowingObjectCountsOnceAtAnyLag(t *testing.T) {
	growth := []Reservation[corev1.ResourceList]{{UID: "growth", Of: "a", Since: 5, Requests: count(2)}}
	of := func(revision string, size int64) *federation.ShadowPod {
		pod := onePod("a", revision)
		pod.Generation = size
		return &pod
	}
	for _, test := range []struct {
		name   string
		events []*federation.ShadowPod
		gone   bool
		want   sum
	}{
		{"update is not stored yet", []*federation.ShadowPod{of("5", 1)}, false, 3},
		{"reported version is old and larger", []*federation.ShadowPod{of("4", 4)}, false, 6},
		{"update is stored", []*federation.ShadowPod{of("5", 1), of("6", 3)}, false, 3},
		{"another update is stored first", []*federation.ShadowPod{of("5", 1), of("6", 1)}, false, 1},
		{"old event arrives late", []*federation.ShadowPod{of("6", 3), of("5", 1)}, false, 3},
		{"object is removed", []*federation.ShadowPod{of("5", 1)}, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := newView(kindOf(nil))
			for _, pod := range test.events {
				if err := v.observe(watch.Event{Type: watch.Modified, Object: pod}); err != nil {
					t.Fatal(err)
				}
				if test.gone {
					v.change(pod, true)
				}
			}
			used := v.usedWith("milan", growth)
			if used.Sum != test.want {
				t.Errorf("%d are used, want %d", used.Sum, test.want)
			}
			if used.Objects > 1 {
				t.Errorf("one object counts as %d", used.Objects)
			}
		})
	}
}

// cacheable wraps a shadow pod like the watch cache does for an object that it sends to several watches.
type cacheable struct {
	runtime.Object
	runtime.CacheableObject
	pod *federation.ShadowPod
}

func (s cacheable) GetObject() runtime.Object { return s.pod }

func TestObjectOfSeveralWatchesCountsOnce(t *testing.T) {
	l, _ := ledgersOf(t, etcd.Start(t), true, count(1))
	pod := onePod("a", "2")
	if err := l.view.observe(watch.Event{Type: watch.Added, Object: cacheable{pod: &pod}}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Reserve(t.Context(), "milan", "b", count(1)); !errors.Is(err, errExceeded) {
		t.Errorf("the pod did not count: %v", err)
	}
}

func TestPodCountsAfterAnOlderServerDroppedItsConsumer(t *testing.T) {
	l, _ := ledgersOf(t, etcd.Start(t), true, count(1))
	for _, change := range []func(*federation.ShadowPod){
		func(*federation.ShadowPod) {},
		func(pod *federation.ShadowPod) { pod.ResourceVersion, pod.Status.ForeignCluster = "3", "" },
	} {
		pod := onePod("a", "2")
		change(&pod)
		if err := l.view.observe(watch.Event{Type: watch.Modified, Object: &pod}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Reserve(t.Context(), "milan", "b", count(1)); !errors.Is(err, errExceeded) {
			t.Errorf("the pod of %q did not count: %v", pod.Status.ForeignCluster, err)
		}
		// Another server that reads only the stored object cannot determine the account.
		if unassigned := len(l.Unassigned()) == 1; unassigned != (pod.Status.ForeignCluster == "") {
			t.Errorf("the pod of %q is unassigned: %t", pod.Status.ForeignCluster, unassigned)
		}
	}
}

func TestOwnReservationsStayWhileTheirRequestsRun(t *testing.T) {
	l, clock := ledgersOf(t, etcd.Start(t), true, count(5))
	for _, uid := range []types.UID{"under-way", "unknown"} {
		if _, err := l.Reserve(t.Context(), "milan", uid, count(1)); err != nil {
			t.Fatal(err)
		}
	}
	l.Forget("milan", "unknown")
	for _, want := range [][]types.UID{{"under-way", "unknown"}, {"under-way"}} {
		if err := l.Repair(t.Context(), &pods{}); err != nil {
			t.Fatal(err)
		}
		reserved(t, l, want...)
		clock.SetTime(clock.Now().Add(abandoned))
	}
}

func TestLedgersWithoutQuotaAreRemoved(t *testing.T) {
	for where, alone := range map[string]bool{"in memory": true, "in the storage": false} {
		t.Run(where, func(t *testing.T) { testLedgersWithoutQuota(t, alone) })
	}
}

func testLedgersWithoutQuota(t *testing.T, alone bool) {
	limits := count(1)
	l, clock := ledgersOf(t, etcd.Start(t), alone, limits)
	if err := l.ledgers.update(t.Context(), "milan", func(ledger *stored) error {
		ledger.Reservations = []Reservation[corev1.ResourceList]{{UID: "lost", Writer: "crashed"}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	pod := onePod("a", "2")
	if err := l.view.observe(watch.Event{Type: watch.Added, Object: &pod}); err != nil {
		t.Fatal(err)
	}
	// The first repair lists the reservation. When the second one runs, no request can end it any more.
	if err := l.Repair(t.Context(), &pods{}); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(clock.Now().Add(abandoned))
	for _, stage := range []struct {
		name   string
		change func()
		stays  bool
	}{
		{"the abandoned reservation is released", func() {}, true},
		{"the account has a quota", func() {}, true},
		{"a pod runs", func() { clear(limits) }, true},
		{"the account has neither quota nor pods", func() { l.view.change(&pod, true) }, false},
		{"the ledger does not exist", func() {}, false},
	} {
		stage.change()
		if err := l.Repair(t.Context(), &pods{}); err != nil {
			t.Fatalf("%s: %v", stage.name, err)
		}
		if stays := storedBy(t, l) != nil; stays != stage.stays {
			t.Fatalf("%s: the ledger exists: %t", stage.name, stays)
		}
	}
}

// Ledgers are stored in etcd: another version of the server must read them after an upgrade.
func TestStoredFormOfALedgerNeverChanges(t *testing.T) {
	ledger := &stored{
		ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Seen: 1234,
		Reservations: []Reservation[corev1.ResourceList]{
			{UID: "u", Writer: "w", Requests: count(1)},
			{UID: "v", Writer: "w", Requests: count(2), Of: "o", Since: 1233},
		},
	}
	const want = `{"kind":"Ledger","apiVersion":"ledger.federation.liqo.io/v1","metadata":{"name":"milan"},` +
		`"seen":1234,"reservations":[` +
		`{"uid":"u","writer":"w","requests":{"pods":"1"}},{"uid":"v","writer":"w","requests":{"pods":"2"},"of":"o",` +
		`"since":1233}]}` + "\n"
	encoded, err := runtime.Encode(codec, ledger)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(encoded)); diff != "" {
		t.Errorf("the form (-want +got):\n%s", diff)
	}
	decoded, err := runtime.Decode(codec, encoded)
	if err != nil {
		t.Fatal(err)
	}
	again, err := runtime.Encode(codec, decoded)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(again)); diff != "" {
		t.Errorf("read and written again (-want +got):\n%s", diff)
	}
}
