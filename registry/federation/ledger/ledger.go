// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ledger gives what there is only once to objects that are about to be
// created or to take more, and never twice, whatever the number of requests,
// servers and crashes: room in what a consumer was granted to shadow pods, and
// addresses to address mappings.
//
// Each account, as a consumer, has one ledger. Before an object
// is written, what it takes is reserved there; when it was, the reservation
// is taken out again. What is used is the sum of the objects that exist and are
// not over, and of the reservations. A ledger only changes if it is still what
// was read, and says which objects one has to know for that sum: so no two
// servers give away the same. Nothing is written when an object is over or
// goes: it is no longer in the sum.
//
// A server that is alone keeps its ledgers in memory, and several share them in
// the storage; see stores.go. One of these that dies leaves reservations that
// nobody will use. Whoever finds them returns them when no request can be that
// old; see repair.go.
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
	// tidyDelay is how long a reservation whose object exists waits for a
	// transaction to be taken out with, before it gets one of its own.
	tidyDelay = time.Second
)

// Ledgers reserve what objects of one kind take.
type Ledgers[Q, T any, S Sum[S, T]] struct {
	kind    Kind[Q, T, S]
	ledgers store[T]
	view    *view[T, S]
	// writer names this server among others on the same storage.
	writer string

	mutex    sync.Mutex
	accounts map[string]*account[Q, T]
	// suspects are since when reservations have been there that nobody here
	// answers for.
	suspects map[types.UID]time.Time
	clock    clock.PassiveClock
	close    func()
}

// account is what this server has to say in one account's ledger.
type account[Q, T any] struct {
	name string

	mutex sync.Mutex
	// busy is true while somebody writes the ledger, and tidying while somebody
	// will.
	busy, tidying bool
	asks          []*ask[Q, T]
	// created are reservations whose objects were written at a revision, and
	// dropped those whose objects never will be.
	created map[types.UID]uint64
	dropped sets.Set[types.UID]
	// open are the reservations whose requests are under way.
	open sets.Set[types.UID]
}

// ask is one request.
type ask[Q, T any] struct {
	uid types.UID
	// of is the object that is to take more, and since the revision that it was
	// read at; none, if it is to be created.
	of    types.UID
	since uint64
	asked Q
	// trial only asks what would be got.
	trial  bool
	answer chan answer[T]
}

// answer is what one request gets. It is refused when the terms say so, and not
// because something went wrong.
type answer[T any] struct {
	takes   T
	err     error
	refused bool
}

func newLedgers[Q, T any, S Sum[S, T]](kind Kind[Q, T, S], ledgers store[T]) *Ledgers[Q, T, S] {
	return &Ledgers[Q, T, S]{
		kind: kind, ledgers: ledgers, view: newView(kind), writer: string(uuid.NewUUID()),
		accounts: map[string]*account[Q, T]{}, suspects: map[types.UID]time.Time{}, clock: clock.RealClock{}, close: func() {},
	}
}

func (l *Ledgers[Q, T, S]) account(name string) *account[Q, T] {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	a := l.accounts[name]
	if a == nil {
		a = &account[Q, T]{name: name, created: map[types.UID]uint64{}, dropped: sets.New[types.UID](), open: sets.New[types.UID]()}
		l.accounts[name] = a
	}
	return a
}

// Reserve reserves what an object will take, and returns it, or what the terms
// refuse it with. What was reserved is to be handed to Created or Dropped, or to
// Forget when it is not known what became of the object.
func (l *Ledgers[Q, T, S]) Reserve(ctx context.Context, account string, uid types.UID, asked Q) (T, error) {
	return l.reserve(ctx, account, &ask[Q, T]{uid: uid, asked: asked})
}

// Grow reserves what an object that is there, and was read at a revision, will
// take more; uid is the reservation's own. It is like Reserve otherwise.
func (l *Ledgers[Q, T, S]) Grow(ctx context.Context, account string, uid, of types.UID, since uint64, asked Q) (T, error) {
	return l.reserve(ctx, account, &ask[Q, T]{uid: uid, of: of, since: since, asked: asked})
}

func (l *Ledgers[Q, T, S]) reserve(ctx context.Context, account string, asked *ask[Q, T]) (T, error) {
	asked.answer = make(chan answer[T], 1)
	got := l.ask(ctx, l.account(account), asked)
	if got.err != nil && !got.refused {
		// It may have been reserved nevertheless.
		l.Dropped(account, asked.uid)
	}
	return got.takes, got.err
}

// Check returns what Reserve would, and reserves nothing.
func (l *Ledgers[Q, T, S]) Check(ctx context.Context, account string, asked Q) (T, error) {
	got := l.ask(ctx, l.account(account), &ask[Q, T]{asked: asked, trial: true, answer: make(chan answer[T], 1)})
	return got.takes, got.err
}

func (l *Ledgers[Q, T, S]) ask(ctx context.Context, a *account[Q, T], asked *ask[Q, T]) answer[T] {
	a.mutex.Lock()
	a.asks = append(a.asks, asked)
	if !asked.trial {
		a.open.Insert(asked.uid)
	}
	l.work(a)
	a.mutex.Unlock()
	select {
	case got := <-asked.answer:
		if got.err != nil {
			l.Forget(a.name, asked.uid)
		}
		return got
	case <-ctx.Done():
		return answer[T]{err: ctx.Err()}
	}
}

// Created says that a reservation's object was created, or takes more, and how
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

// Dropped says that the object of a reservation was not written, nor ever will be.
func (l *Ledgers[Q, T, S]) Dropped(account string, uid types.UID) {
	a := l.account(account)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.open.Delete(uid)
	a.dropped.Insert(uid)
	l.tidyLater(a)
}

// Forget leaves a reservation to the repair: nobody knows what became of its
// object.
func (l *Ledgers[Q, T, S]) Forget(account string, uid types.UID) {
	a := l.account(account)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.open.Delete(uid)
}

// Changed takes note of an object that was updated or removed here, so that
// whoever is told that it is over finds what it had. It may be told twice.
func (l *Ledgers[Q, T, S]) Changed(obj runtime.Object, removed bool) {
	if object, ok := obj.(strategy.Object); ok {
		l.view.change(object, removed)
	}
}

// tidyLater has what is known written, if nothing else is before. The account
// is locked.
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

// work has somebody write the ledger who does so until there is nothing more
// to write: whatever comes meanwhile shares the next transaction. The account
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
type batch[Q, T any] struct {
	asks []*ask[Q, T]
	// out are the reservations to take out; seen is the revision that those of
	// them whose objects exist were written by.
	out  sets.Set[types.UID]
	seen uint64
}

// next takes what there is to write. An object that the view does not know yet
// keeps its reservation, so that nobody has to wait for the view.
func (a *account[Q, T]) next(known uint64) batch[Q, T] {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	n := min(len(a.asks), maxBatch)
	b := batch[Q, T]{out: a.dropped.Clone()}
	for _, asked := range a.asks[:n] {
		// Who has gone away does not get anything any more.
		if asked.trial || !a.dropped.Has(asked.uid) {
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
func (a *account[Q, T]) written(b batch[Q, T]) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for uid := range b.out {
		delete(a.created, uid)
		a.dropped.Delete(uid)
	}
}

// commit writes one batch and answers those who asked.
func (l *Ledgers[Q, T, S]) commit(a *account[Q, T]) {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	b := a.next(l.view.at())
	answers, err := l.write(ctx, a.name, b)
	if err == nil {
		a.written(b)
	}
	for i, asked := range b.asks {
		switch {
		case err != nil:
			asked.answer <- answer[T]{err: apierrors.NewInternalError(fmt.Errorf("reserve in the ledger %s of %s: %w", a.name, l.kind.Ledgers, err))}
		default:
			asked.answer <- answers[i]
		}
	}
}

// write is one transaction: it succeeds if the ledger is still what the
// decision was made from.
func (l *Ledgers[Q, T, S]) write(ctx context.Context, account string, b batch[Q, T]) (answers []answer[T], err error) {
	if len(b.asks) == 0 && len(b.out) == 0 {
		return nil, nil
	}
	var terms Terms[Q, T, S]
	if len(b.asks) > 0 {
		if terms, err = l.kind.Terms(ctx, account); err != nil {
			return nil, fmt.Errorf("find out what there is: %w", err)
		}
	}
	err = l.ledgers.update(ctx, account, func(ledger *Ledger[T]) (err error) {
		ledger.take(b.out, b.seen)
		if len(b.asks) == 0 {
			return nil
		}
		// What takes more counts as it was when that was decided, or is known to be
		// another by now.
		seen := max(ledger.Seen, 1)
		for _, asked := range b.asks {
			seen = max(seen, asked.since)
		}
		if err := l.view.await(ctx, seen); err != nil {
			return err
		}
		answers = l.admit(ledger, terms, l.view.usedWith(account, ledger.Reservations), b.asks)
		return nil
	})
	return answers, err
}

// take takes reservations out.
func (l *Ledger[T]) take(out sets.Set[types.UID], seen uint64) {
	l.Reservations = slices.DeleteFunc(l.Reservations, func(r Reservation[T]) bool { return out.Has(r.UID) })
	l.Seen = max(l.Seen, seen)
}

// admit adds a reservation for each who gets something, in the order they came,
// and returns what to answer each.
func (l *Ledgers[Q, T, S]) admit(ledger *Ledger[T], terms Terms[Q, T, S], used Used[S], asks []*ask[Q, T]) []answer[T] {
	answers := make([]answer[T], len(asks))
	for i, asked := range asks {
		takes, err := terms(used, asked.asked)
		if err != nil {
			answers[i] = answer[T]{err: err, refused: true}
			continue
		}
		answers[i].takes = takes
		if !asked.trial {
			if asked.of == "" {
				used.Objects++
			}
			used.Sum = used.Sum.Plus(takes)
			ledger.Reservations = append(ledger.Reservations, Reservation[T]{UID: asked.uid, Writer: l.writer, Requests: takes, Of: asked.of, Since: asked.since})
		}
	}
	return answers
}
