// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ledger keeps consumers within what they were granted, whatever the
// number of requests, servers and crashes.
//
// Each consumer has one ledger in the storage. Before a shadow pod is created,
// room for it is reserved there; when it exists, the reservation is taken out
// again. What is used is the sum of the shadow pods that exist and are not
// finished, and of the reservations. A ledger only changes if it is still what
// was read, and says which shadow pods one has to know for that sum: so no two
// servers give away the same room. Nothing is written when a shadow pod
// finishes or goes: it is no longer in the sum. Those that are finished take
// nothing of the grant, but room in the storage: there is a number of them with
// which a consumer gets no new ones.
//
// A server that dies leaves reservations that nobody will use. Whoever finds
// them returns them when no request can be that old; see repair.go.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/rules/quota"
)

const (
	// commitTimeout bounds one transaction.
	commitTimeout = 10 * time.Second
	// maxBatch is how many reservations share a transaction.
	maxBatch = 500
	// tidyDelay is how long a reservation whose shadow pod exists waits for a
	// transaction to be taken out with, before it gets one of its own.
	tidyDelay = time.Second
)

// ErrExceeded is what a consumer is refused with: it was granted too little.
type ErrExceeded struct {
	// Consumer is the ForeignCluster.
	Consumer string
	// Short are the resources that are short, by name.
	Short []quota.Shortage
}

// Error says which resource is short, how much of it is asked for, used,
// granted and left.
func (e *ErrExceeded) Error() string {
	return fmt.Sprintf("consumer %s is granted too little: %s", e.Consumer, quota.Sentence(e.Short))
}

// Ledgers reserve what consumers take.
type Ledgers struct {
	ledgers storage.Interface
	// prefix is where they are stored.
	prefix string
	// granted is what a consumer was granted, as the storage has it.
	granted func(ctx context.Context, consumer string) (corev1.ResourceList, error)
	view    *view
	// writer names this server among others on the same storage.
	writer string
	// alone is true when no other server writes to the storage.
	alone bool

	mutex    sync.Mutex
	accounts map[string]*account
	// suspects are since when reservations have been there that nobody here
	// answers for.
	suspects map[types.UID]time.Time
	clock    clock.PassiveClock
	close    func()
}

// account is what this server has to say in one consumer's ledger.
type account struct {
	consumer string

	mutex sync.Mutex
	// busy is true while somebody writes the ledger, and tidying while somebody
	// will.
	busy, tidying bool
	asks          []*ask
	// created are reservations whose shadow pods exist since a revision, and
	// dropped those whose shadow pods never will.
	created map[types.UID]uint64
	dropped sets.Set[types.UID]
	// open are the reservations whose requests are under way.
	open sets.Set[types.UID]
}

// ask is one request for room.
type ask struct {
	reservation Reservation
	// trial only asks whether there is room.
	trial  bool
	answer chan error
}

func newLedgers(ledgers storage.Interface, prefix string, granted func(context.Context, string) (corev1.ResourceList, error), alone bool) *Ledgers {
	return &Ledgers{
		ledgers: ledgers, prefix: prefix, granted: granted, view: newView(), writer: string(uuid.NewUUID()), alone: alone,
		accounts: map[string]*account{}, suspects: map[types.UID]time.Time{}, clock: clock.RealClock{}, close: func() {},
	}
}

func (l *Ledgers) account(consumer string) *account {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	a := l.accounts[consumer]
	if a == nil {
		a = &account{consumer: consumer, created: map[types.UID]uint64{}, dropped: sets.New[types.UID](), open: sets.New[types.UID]()}
		l.accounts[consumer] = a
	}
	return a
}

// Reserve makes room for a shadow pod, or returns an ErrExceeded or an
// ErrTooManyFinished. What was reserved is to be handed to Created or Dropped, or to Forget when it is not
// known what became of the shadow pod.
func (l *Ledgers) Reserve(ctx context.Context, consumer string, uid types.UID, requests corev1.ResourceList) error {
	a := l.account(consumer)
	asked := &ask{reservation: Reservation{UID: uid, Writer: l.writer, Requests: requests}, answer: make(chan error, 1)}
	err := l.ask(ctx, a, asked)
	var exceeded *ErrExceeded
	var finished *ErrTooManyFinished
	if err != nil && !errors.As(err, &exceeded) && !errors.As(err, &finished) {
		// It may have been reserved nevertheless.
		l.Dropped(consumer, uid)
	}
	return err
}

// Check returns the same errors as Reserve, and reserves nothing.
func (l *Ledgers) Check(ctx context.Context, consumer string, requests corev1.ResourceList) error {
	return l.ask(ctx, l.account(consumer), &ask{reservation: Reservation{Requests: requests}, trial: true, answer: make(chan error, 1)})
}

func (l *Ledgers) ask(ctx context.Context, a *account, asked *ask) error {
	a.mutex.Lock()
	a.asks = append(a.asks, asked)
	if !asked.trial {
		a.open.Insert(asked.reservation.UID)
	}
	l.work(a)
	a.mutex.Unlock()
	select {
	case err := <-asked.answer:
		if err != nil {
			l.Forget(a.consumer, asked.reservation.UID)
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Created says that there is a reservation's shadow pod, as it was created.
func (l *Ledgers) Created(pod *federation.ShadowPod) {
	consumer := pod.Status.ForeignCluster
	revision, err := revisionOf(pod.ResourceVersion)
	if err != nil {
		l.Forget(consumer, pod.UID)
		return
	}
	l.view.add(pod, revision)
	a := l.account(consumer)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.open.Delete(pod.UID)
	a.created[pod.UID] = revision
	l.tidyLater(a)
}

// Dropped says that the shadow pod of a reservation does not exist, nor ever
// will.
func (l *Ledgers) Dropped(consumer string, uid types.UID) {
	a := l.account(consumer)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.open.Delete(uid)
	a.dropped.Insert(uid)
	l.tidyLater(a)
}

// Forget leaves a reservation to the repair: nobody knows what became of its
// shadow pod.
func (l *Ledgers) Forget(consumer string, uid types.UID) {
	a := l.account(consumer)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.open.Delete(uid)
}

// Changed takes note of a shadow pod that was updated or removed here, so that
// whoever is told that it is over finds its room. It may be told twice.
func (l *Ledgers) Changed(obj runtime.Object, removed bool) {
	if pod, ok := obj.(*federation.ShadowPod); ok {
		l.view.change(pod, removed)
	}
}

// tidyLater has what is known written, if nothing else is before. The account
// is locked.
func (l *Ledgers) tidyLater(a *account) {
	if a.tidying {
		return
	}
	a.tidying = true
	time.AfterFunc(tidyDelay, func() {
		a.mutex.Lock()
		defer a.mutex.Unlock()
		a.tidying = false
		if len(a.created) > 0 || len(a.dropped) > 0 {
			l.work(a)
		}
	})
}

// work has somebody write the ledger who does so until there is nothing more
// to write: whatever comes meanwhile shares the next transaction. The account
// is locked.
func (l *Ledgers) work(a *account) {
	if a.busy {
		return
	}
	a.busy = true
	go func() {
		for again := true; again; {
			l.commit(a)
			a.mutex.Lock()
			again = len(a.asks) > 0
			a.busy = again
			if !again && (len(a.created) > 0 || len(a.dropped) > 0) {
				l.tidyLater(a)
			}
			a.mutex.Unlock()
		}
	}()
}

// batch is what one transaction does.
type batch struct {
	asks []*ask
	// out are the reservations to take out; seen is the revision that those of
	// them whose shadow pods exist were written by.
	out  sets.Set[types.UID]
	seen uint64
}

// next takes what there is to write. A shadow pod that the view does not know
// yet keeps its reservation, so that nobody has to wait for the view.
func (a *account) next(known uint64) batch {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	n := min(len(a.asks), maxBatch)
	b := batch{out: a.dropped.Clone()}
	for _, asked := range a.asks[:n] {
		// Who has gone away does not get anything any more.
		if asked.trial || !a.dropped.Has(asked.reservation.UID) {
			b.asks = append(b.asks, asked)
		}
	}
	a.asks = slices.Delete(a.asks, 0, n)
	for uid, revision := range a.created {
		if revision <= known {
			b.out.Insert(uid)
			b.seen = max(b.seen, revision)
		}
	}
	return b
}

// written forgets what a batch has written.
func (a *account) written(b batch) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for uid := range b.out {
		delete(a.created, uid)
		a.dropped.Delete(uid)
	}
}

// commit writes one batch and answers those who asked.
func (l *Ledgers) commit(a *account) {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	b := a.next(l.view.at())
	answers, err := l.write(ctx, a.consumer, b)
	if err == nil {
		a.written(b)
	}
	for i, asked := range b.asks {
		switch {
		case err != nil:
			asked.answer <- apierrors.NewInternalError(fmt.Errorf("reserve room in what consumer %s was granted: %w", a.consumer, err))
		default:
			asked.answer <- answers[i]
		}
	}
}

// write is one transaction: it succeeds if the ledger is still what the
// decision was made from.
func (l *Ledgers) write(ctx context.Context, consumer string, b batch) (answers []error, err error) {
	if len(b.asks) == 0 && len(b.out) == 0 {
		return nil, nil
	}
	var granted corev1.ResourceList
	if len(b.asks) > 0 {
		if granted, err = l.granted(ctx, consumer); err != nil {
			return nil, fmt.Errorf("find out what is granted: %w", err)
		}
	}
	err = l.update(ctx, consumer, func(ledger *Ledger) (err error) {
		ledger.take(b.out, b.seen)
		if len(b.asks) == 0 {
			return nil
		}
		if err := l.view.await(ctx, max(ledger.Seen, 1)); err != nil {
			return err
		}
		used, finished := l.view.usedWith(consumer, ledger.Reservations)
		if most := mayFinish(granted); finished >= most {
			answers = slices.Repeat([]error{&ErrTooManyFinished{Consumer: consumer, Finished: finished, Most: most}}, len(b.asks))
			return nil
		}
		answers = ledger.admit(consumer, granted, used, b.asks)
		return nil
	})
	return answers, err
}

// take takes reservations out.
func (l *Ledger) take(out sets.Set[types.UID], seen uint64) {
	l.Reservations = slices.DeleteFunc(l.Reservations, func(r Reservation) bool { return out.Has(r.UID) })
	l.Seen = max(l.Seen, seen)
}

// admit adds a reservation for each who asks for no more than is left, in the
// order they came, and returns what to answer each.
func (l *Ledger) admit(consumer string, granted, used corev1.ResourceList, asks []*ask) []error {
	answers := make([]error, len(asks))
	for i, asked := range asks {
		if short := quota.Short(granted, used, asked.reservation.Requests); len(short) > 0 {
			answers[i] = &ErrExceeded{Consumer: consumer, Short: short}
			continue
		}
		if !asked.trial {
			quota.Add(used, asked.reservation.Requests)
			l.Reservations = append(l.Reservations, asked.reservation)
		}
	}
	return answers
}

// update changes a ledger, or makes it. Nothing is written when nothing
// changes.
func (l *Ledgers) update(ctx context.Context, consumer string, change func(*Ledger) error) error {
	err := l.ledgers.GuaranteedUpdate(ctx, l.key(consumer), &Ledger{}, true, nil, func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		ledger := input.(*Ledger).copy()
		existed := ledger.Name != ""
		ledger.ObjectMeta = metav1.ObjectMeta{Name: consumer, ResourceVersion: ledger.ResourceVersion}
		if err := change(ledger); err != nil {
			return nil, nil, err
		}
		if !existed && len(ledger.Reservations) == 0 {
			return nil, nil, errNothing
		}
		return ledger, nil, nil
	}, nil)
	if errors.Is(err, errNothing) {
		return nil
	}
	return err
}

// errNothing ends a transaction that would write an empty ledger.
var errNothing = errors.New("there is nothing to write")
