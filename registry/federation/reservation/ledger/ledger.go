// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ledger reserves quota and addresses for objects before they are created or grow. No amount is reserved twice,
// with any number of concurrent requests, servers and crashes.
//
// Each account, for example each consumer, has one ledger. An amount is reserved in it before an object is written, and
// the reservation is removed afterwards. Usage is the sum over all objects that count and over all reservations. A
// ledger is changed by compare-and-swap. Each ledger has a minimum revision: a server computes the sum only from
// objects at this or a later revision, so that two servers cannot reserve the same amount. Nothing is written when an
// object is deleted or stops counting, because the next sum does not contain it.
//
// A server that is alone on its etcd keeps its ledgers in memory; several servers share them in etcd (see stores.go). A
// server that crashes leaves reservations without objects. Any server releases them once no request can still use them
// (see repair.go).
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

	"liqo.io/federation/registry/federation/resource"
)

const (
	// commitTimeout is the maximum duration of a transaction.
	commitTimeout = 10 * time.Second
	// maxBatch is the maximum number of reservations in a transaction.
	maxBatch = 500
	// tidyDelay is the time after which ended reservations are removed by a transaction of their own, unless another
	// transaction removed them before.
	tidyDelay = time.Second
)

// Ledgers has the ledgers of one Kind. It is safe for concurrent use.
type Ledgers[Q, T any, S Sum[S, T]] struct {
	kind    Kind[Q, T, S]
	ledgers store[T]
	view    *view[T, S]
	// writer is a unique ID of this server among all servers on the same etcd.
	writer string

	mutex    sync.Mutex
	accounts map[string]*account[Q, T]
	// suspects has, by the UID of a reservation, the time when this server first listed it without being responsible for
	// it; see account.responsible.
	suspects map[types.UID]time.Time
	clock    clock.PassiveClock
	close    func()
}

// account has the pending work of this server for the ledger of one account.
type account[Q, T any] struct {
	name string

	mutex sync.Mutex
	// busy is true while a goroutine writes the ledger, and tidying while a timer is set that will start such a goroutine.
	busy, tidying bool
	requests      []*request[Q, T]
	// created has the reservations whose objects were written, with the revision of that write. dropped has the
	// reservations whose objects will never be written.
	created map[types.UID]uint64
	dropped sets.Set[types.UID]
	// open has the reservations whose requests have not ended.
	open sets.Set[types.UID]
}

// request is a request for one reservation, or for a dry run.
type request[Q, T any] struct {
	uid types.UID
	// of is the UID of the object that grows, and since is the revision of the object before the update. Both are empty
	// for a new object.
	of     types.UID
	since  uint64
	amount Q
	// dry is true for a dry run, which reserves nothing.
	dry    bool
	answer chan answer[T]
}

// answer is the result of one request. If err is set, refused is true for an error of the policy, and false for any
// other error.
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

// Reserve reserves an amount for a new object in the ledger of an account, and returns the reserved amount. It fails
// with the error of the policy if the policy refuses the amount. The caller must end the reservation with Created or
// Dropped, or with Forget if it cannot know whether the object was written.
func (l *Ledgers[Q, T, S]) Reserve(ctx context.Context, account string, uid types.UID, amount Q) (T, error) {
	return l.reserve(ctx, account, &request[Q, T]{uid: uid, amount: amount})
}

// Grow is Reserve for the amount that an existing object requests in addition. uid is the UID of the reservation, of is
// the UID of the object, and since is the revision of the object before the update.
func (l *Ledgers[Q, T, S]) Grow(
	ctx context.Context, account string, uid, of types.UID, since uint64, amount Q,
) (T, error) {
	return l.reserve(ctx, account, &request[Q, T]{uid: uid, of: of, since: since, amount: amount})
}

func (l *Ledgers[Q, T, S]) reserve(ctx context.Context, account string, r *request[Q, T]) (T, error) {
	r.answer = make(chan answer[T], 1)
	got := l.submit(ctx, l.account(account), r)
	if got.err != nil && !got.refused {
		// The amount may have been reserved in spite of the error.
		l.Dropped(account, r.uid)
	}
	return got.reserved, got.err
}

// Check returns the result of Reserve without reserving anything.
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

// Created ends a reservation whose object was written. obj is the object as it was written.
func (l *Ledgers[Q, T, S]) Created(reservation types.UID, obj resource.Object) {
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

// Forget leaves a reservation to Repair, because its object may have been written.
func (l *Ledgers[Q, T, S]) Forget(account string, uid types.UID) {
	a := l.account(account)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.open.Delete(uid)
}

// Changed updates the usage after this server updated or removed an object, before the watch reports it. It may be
// called twice for the same change.
func (l *Ledgers[Q, T, S]) Changed(obj runtime.Object, removed bool) {
	if object, ok := obj.(resource.Object); ok {
		l.view.change(object, removed)
	}
}

// tidyLater starts a timer that removes ended reservations after tidyDelay, if no other transaction has removed them by
// then. The caller holds a.mutex.
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

// work starts a goroutine that writes the ledger until no request is pending, unless such a goroutine runs already.
// Requests that arrive during a transaction share the next one. The caller holds a.mutex.
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

// batch has the changes of one transaction.
type batch[Q, T any] struct {
	requests []*request[Q, T]
	// out are the reservations to remove. seen is the latest revision at which one of their objects was written, 0 if
	// none was.
	out  sets.Set[types.UID]
	seen uint64
}

// next removes up to maxBatch requests from the pending work and returns them with the reservations to remove. known is
// the revision that the view has reached. The reservation of an object that was written at a later revision is not
// removed yet, so that no transaction has to wait for the view.
func (a *account[Q, T]) next(known uint64) batch[Q, T] {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	n := min(len(a.requests), maxBatch)
	b := batch[Q, T]{out: a.dropped.Clone()}
	for _, r := range a.requests[:n] {
		// The caller of a dropped request has timed out.
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

// written removes the reservations of a written batch from the pending work.
func (a *account[Q, T]) written(b batch[Q, T]) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for uid := range b.out {
		delete(a.created, uid)
		a.dropped.Delete(uid)
	}
}

// commit writes the next batch and sends the results of its requests.
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
				fmt.Errorf("reserving in the ledger %s (resource %s): %w", a.name, l.kind.Ledgers, err))}
			continue
		}
		r.answer <- answers[i]
	}
}

// write runs the transaction of a batch and returns the results of its requests. If another server changed the ledger
// in the meantime, it applies the policy to the changed ledger.
func (l *Ledgers[Q, T, S]) write(ctx context.Context, account string, b batch[Q, T]) (answers []answer[T], err error) {
	if len(b.requests) == 0 && len(b.out) == 0 {
		return nil, nil
	}
	err = l.ledgers.update(ctx, account, func(ledger *Ledger[T]) (err error) {
		ledger.remove(b.out, b.seen)
		if len(b.requests) == 0 {
			return nil
		}
		// For an object that grows, the view must have reached the revision that the request was based on.
		seen := max(ledger.Seen, 1)
		for _, r := range b.requests {
			seen = max(seen, r.since)
		}
		if err := l.view.await(ctx, seen); err != nil {
			return err
		}
		used := l.view.usedWith(account, ledger.Reservations)
		policy, err := l.kind.Policy(ctx, account)
		if err != nil {
			return fmt.Errorf("reading the limits of the ledger: %w", err)
		}
		answers = l.admit(ledger, policy, used, b.requests)
		return nil
	})
	return answers, err
}

// remove removes the reservations whose UIDs are in out, and raises the ledger's minimum revision to seen.
func (l *Ledger[T]) remove(out sets.Set[types.UID], seen uint64) {
	l.Reservations = slices.DeleteFunc(l.Reservations, func(r Reservation[T]) bool { return out.Has(r.UID) })
	l.Seen = max(l.Seen, seen)
}

// admit adds a reservation to the ledger for each request that the policy admits, in the order of the requests, and
// returns the results.
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
