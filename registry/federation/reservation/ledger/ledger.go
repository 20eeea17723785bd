// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ledger reserves quota and addresses for objects that are about to be created or
// to grow, and never twice, whatever the number of requests, servers and crashes.
//
// There is one ledger for each account, for example for each consumer. An amount is
// reserved in it before an object is written, and the reservation is removed after that.
// Used is the sum over the objects that exist and are not over, and over the reservations.
// A ledger is changed by compare-and-swap, and names the minimum revision of the objects in
// that sum: so no two servers reserve the same. Nothing is written when an object is over or
// deleted: it is no longer in the sum.
//
// A server that is alone keeps its ledgers in memory, several share them in etcd; see
// stores.go. A server that crashes leaves reservations without an object. Any server releases
// them when no request can be that old; see repair.go.
package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"

	"liqo.io/federation/registry/federation/strategy"
)

const (
	// commitTimeout bounds one transaction.
	commitTimeout = 10 * time.Second
	// maxBatch is how many reservations share a transaction.
	maxBatch = 500
	// tidyDelay is the time after which a reservation whose object exists is removed by a transaction
	// of its own, unless another transaction removed it before.
	tidyDelay = time.Second
)

// Ledgers reserve amounts for the objects of one kind.
type Ledgers[Q, T any, S Sum[S, T]] struct {
	kind    Kind[Q, T, S]
	ledgers store[T]
	view    *view[T, S]
	// writer names this server among others on the same etcd.
	writer string

	mutex    sync.Mutex
	accounts map[string]*account[Q, T]
	// suspects has, for reservations that this server is not responsible for, the time
	// when it first saw them.
	suspects map[types.UID]time.Time
	clock    clock.PassiveClock
	close    func()
}

// account is the pending work of this server on the ledger of one account.
type account[Q, T any] struct {
	name string

	mutex sync.Mutex
	// busy is true while a goroutine writes the ledger, and tidying while a timer will
	// start one.
	busy, tidying bool
	requests      []*request[Q, T]
	// created are reservations whose objects were written, with the revision of the write, and
	// dropped are reservations whose objects will never be written.
	created map[types.UID]uint64
	dropped sets.Set[types.UID]
	// open are the reservations whose requests are under way.
	open sets.Set[types.UID]
}

// request is one request for a reservation.
type request[Q, T any] struct {
	uid types.UID
	// of is the object that grows, and since the revision that it was read at; both are
	// empty for a new object.
	of     types.UID
	since  uint64
	amount Q
	// dry is true for a dry run, which reserves nothing.
	dry    bool
	answer chan answer[T]
}

// answer is the answer to one request. refused is true if the policy refuses it, and false
// if another error occurred.
type answer[T any] struct {
	reserved T
	err      error
	refused  bool
}

func newLedgers[Q, T any, S Sum[S, T]](kind Kind[Q, T, S], ledgers store[T]) *Ledgers[Q, T, S] {
	return &Ledgers[Q, T, S]{
		kind: kind, ledgers: ledgers, view: newView(kind), writer: string(uuid.NewUUID()),
		accounts: map[string]*account[Q, T]{}, suspects: map[types.UID]time.Time{},
		clock: clock.RealClock{}, close: func() {},
	}
}

func (l *Ledgers[Q, T, S]) account(name string) *account[Q, T] {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	a := l.accounts[name]
	if a == nil {
		a = &account[Q, T]{
			name: name, created: map[types.UID]uint64{}, dropped: sets.New[types.UID](), open: sets.New[types.UID](),
		}
		l.accounts[name] = a
	}
	return a
}

// Reserve reserves an amount for a new object, and returns what it reserved, or the error
// of the policy that refuses it. The caller passes the reservation on to Created or
// Dropped, or to Forget when it cannot find out whether the object was written.
func (l *Ledgers[Q, T, S]) Reserve(ctx context.Context, account string, uid types.UID, amount Q) (T, error) {
	return l.reserve(ctx, account, &request[Q, T]{uid: uid, amount: amount})
}

// Grow is Reserve for what an existing object, as it was read at revision since, requests
// in addition. uid is the UID of the reservation, of is the UID of the object.
func (l *Ledgers[Q, T, S]) Grow(
	ctx context.Context, account string, uid, of types.UID, since uint64, amount Q,
) (T, error) {
	return l.reserve(ctx, account, &request[Q, T]{uid: uid, of: of, since: since, amount: amount})
}

func (l *Ledgers[Q, T, S]) reserve(ctx context.Context, account string, r *request[Q, T]) (T, error) {
	r.answer = make(chan answer[T], 1)
	got := l.submit(ctx, l.account(account), r)
	if got.err != nil && !got.refused {
		// It may have been reserved nevertheless.
		l.Dropped(account, r.uid)
	}
	return got.reserved, got.err
}

// Check returns what Reserve would return, and reserves nothing.
func (l *Ledgers[Q, T, S]) Check(ctx context.Context, account string, amount Q) (T, error) {
	got := l.submit(ctx, l.account(account),
		&request[Q, T]{amount: amount, dry: true, answer: make(chan answer[T], 1)})
	return got.reserved, got.err
}

func (l *Ledgers[Q, T, S]) submit(ctx context.Context, a *account[Q, T], r *request[Q, T]) answer[T] {
	a.mutex.Lock()
	a.requests = append(a.requests, r)
	if !r.dry {
		a.open.Insert(r.uid)
	}
	l.work(a)
	a.mutex.Unlock()
	select {
	case got := <-r.answer:
		if got.err != nil {
			l.Forget(a.name, r.uid)
		}
		return got
	case <-ctx.Done():
		return answer[T]{err: ctx.Err()}
	}
}

// Created ends a reservation whose object was created or has grown: obj is the object as
// it was written.
func (l *Ledgers[Q, T, S]) Created(reservation types.UID, obj strategy.Object) {
	account, _, _ := l.kind.Entry(obj)
	revision, err := revisionOf(obj.GetResourceVersion())
	if err != nil {
		l.Forget(account, reservation)
		return
	}
	l.view.add(obj, revision)
	a := l.account(account)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.open.Delete(reservation)
	a.created[reservation] = revision
	l.tidyLater(a)
}

// Dropped ends a reservation whose object was not written and never will be.
func (l *Ledgers[Q, T, S]) Dropped(account string, uid types.UID) {
	a := l.account(account)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.open.Delete(uid)
	a.dropped.Insert(uid)
	l.tidyLater(a)
}

// Forget leaves a reservation to the repair: its object may have been written.
func (l *Ledgers[Q, T, S]) Forget(account string, uid types.UID) {
	a := l.account(account)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.open.Delete(uid)
}

// Changed counts an object that this server has updated or removed, without waiting for the watch. It
// may be called twice for one change.
func (l *Ledgers[Q, T, S]) Changed(obj runtime.Object, removed bool) {
	if object, ok := obj.(strategy.Object); ok {
		l.view.change(object, removed)
	}
}

// tidyLater removes ended reservations after tidyDelay, unless another transaction does.
// The account is locked.
func (l *Ledgers[Q, T, S]) tidyLater(a *account[Q, T]) {
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

// work starts a goroutine, if none runs, which writes the ledger until there is nothing
// more to write: requests that arrive during a transaction share the next one. The account
// is locked.
func (l *Ledgers[Q, T, S]) work(a *account[Q, T]) {
	if a.busy {
		return
	}
	a.busy = true
	go func() {
		for again := true; again; {
			l.commit(a)
			a.mutex.Lock()
			again = len(a.requests) > 0
			a.busy = again
			if !again && (len(a.created) > 0 || len(a.dropped) > 0) {
				l.tidyLater(a)
			}
			a.mutex.Unlock()
		}
	}()
}

// batch is the work of one transaction.
type batch[Q, T any] struct {
	requests []*request[Q, T]
	// out are the reservations to remove; seen is the revision by which their objects, if they
	// exist, were written.
	out  sets.Set[types.UID]
	seen uint64
}

// next returns the next batch. A reservation stays until the view has its object, so that
// no request waits for the view.
func (a *account[Q, T]) next(known uint64) batch[Q, T] {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	n := min(len(a.requests), maxBatch)
	b := batch[Q, T]{out: a.dropped.Clone()}
	for _, r := range a.requests[:n] {
		// A dropped request has timed out: its caller has returned.
		if r.dry || !a.dropped.Has(r.uid) {
			b.requests = append(b.requests, r)
		}
	}
	a.requests = slices.Delete(a.requests, 0, n)
	for uid, revision := range a.created {
		if revision <= known {
			b.out.Insert(uid)
			b.seen = max(b.seen, revision)
		}
	}
	return b
}

// written removes what a batch has written from the pending work.
func (a *account[Q, T]) written(b batch[Q, T]) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for uid := range b.out {
		delete(a.created, uid)
		a.dropped.Delete(uid)
	}
}

// commit writes one batch and answers its requests.
func (l *Ledgers[Q, T, S]) commit(a *account[Q, T]) {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	b := a.next(l.view.at())
	answers, err := l.write(ctx, a.name, b)
	if err == nil {
		a.written(b)
	}
	for i, r := range b.requests {
		if err != nil {
			r.answer <- answer[T]{err: apierrors.NewInternalError(
				fmt.Errorf("reserving in the ledger %s of %s: %w", a.name, l.kind.Ledgers, err))}
			continue
		}
		r.answer <- answers[i]
	}
}

// write runs one transaction, which succeeds only if the ledger has not changed since the decision
// was made.
func (l *Ledgers[Q, T, S]) write(ctx context.Context, account string, b batch[Q, T]) (answers []answer[T], err error) {
	if len(b.requests) == 0 && len(b.out) == 0 {
		return nil, nil
	}
	var policy Policy[Q, T, S]
	if len(b.requests) > 0 {
		if policy, err = l.kind.Policy(ctx, account); err != nil {
			return nil, fmt.Errorf("reading the policy: %w", err)
		}
	}
	err = l.ledgers.update(ctx, account, func(ledger *Ledger[T]) (err error) {
		ledger.remove(b.out, b.seen)
		if len(b.requests) == 0 {
			return nil
		}
		// An object that grows counts with what it used at the revision that the request was decided
		// from, or at a later one.
		seen := max(ledger.Seen, 1)
		for _, r := range b.requests {
			seen = max(seen, r.since)
		}
		if err := l.view.await(ctx, seen); err != nil {
			return err
		}
		answers = l.admit(ledger, policy, l.view.usedWith(account, ledger.Reservations), b.requests)
		return nil
	})
	return answers, err
}

// remove removes reservations.
func (l *Ledger[T]) remove(out sets.Set[types.UID], seen uint64) {
	l.Reservations = slices.DeleteFunc(l.Reservations, func(r Reservation[T]) bool { return out.Has(r.UID) })
	l.Seen = max(l.Seen, seen)
}

// admit adds a reservation for each request that the policy admits, in their order, and
// returns the answers.
func (l *Ledgers[Q, T, S]) admit(
	ledger *Ledger[T], policy Policy[Q, T, S], used Used[S], requests []*request[Q, T],
) []answer[T] {
	answers := make([]answer[T], len(requests))
	for i, r := range requests {
		reserved, err := policy(used, r.amount)
		if err != nil {
			answers[i] = answer[T]{err: err, refused: true}
			continue
		}
		answers[i].reserved = reserved
		if !r.dry {
			if r.of == "" {
				used.Objects++
			}
			used.Sum = used.Sum.Plus(reserved)
			ledger.Reservations = append(ledger.Reservations,
				Reservation[T]{UID: r.uid, Writer: l.writer, Requests: reserved, Of: r.of, Since: r.since})
		}
	}
	return answers
}
