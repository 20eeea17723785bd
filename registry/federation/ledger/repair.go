// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"liqo.io/federation/registry/federation/strategy"
)

const (
	// followAgain is how long a watch that ended is waited before the next.
	followAgain = time.Second
	// repairInterval is how often ledgers are looked at for what is left over.
	repairInterval = 15 * time.Second
	// CreateTimeout is how long the creation, or the change, of an object may take
	// that something is reserved for.
	CreateTimeout = 30 * time.Second
	// abandoned is how long a reservation has to be seen, by a server that does
	// not answer for it, before nothing can come of it any more: the request has
	// timed out, and so has what etcd was still told to do.
	abandoned = 2 * CreateTimeout
)

// Run keeps the ledgers until the context ends: it follows the objects, and
// returns what was reserved in vain.
func (l *Ledgers[Q, T, S]) Run(ctx context.Context, objects Source) {
	var group wait.Group
	group.StartWithContext(ctx, func(ctx context.Context) {
		wait.UntilWithContext(ctx, func(ctx context.Context) { l.view.keep(ctx, objects) }, followAgain)
	})
	group.StartWithContext(ctx, func(ctx context.Context) {
		l.Regularly(ctx, func(ctx context.Context) {
			if err := l.Repair(ctx, objects); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Reservations that nobody uses stay for now", "ledgers", l.kind.Ledgers)
			}
		})
	})
	group.Wait()
}

// Regularly does something every now and then once the objects are known, until
// the context ends.
func (l *Ledgers[Q, T, S]) Regularly(ctx context.Context, do func(context.Context)) {
	if l.view.await(ctx, 1) == nil {
		wait.UntilWithContext(ctx, do, repairInterval)
	}
}

// Known returns when all objects are known, and something can be reserved.
func (l *Ledgers[Q, T, S]) Known(ctx context.Context) error { return l.view.await(ctx, 1) }

// Repair takes out reservations that no object will come of, and removes
// ledgers that say nothing. Two servers may do so at once.
func (l *Ledgers[Q, T, S]) Repair(ctx context.Context, objects rest.Lister) error {
	ledgers, err := l.ledgers.list(ctx)
	if err != nil {
		return err
	}
	left := l.abandoned(ledgers)
	var revisions map[types.UID]uint64
	if len(left) > 0 {
		// This comes after the reservations were read, and is as new as the
		// storage: whatever became of them is in it.
		if revisions, err = l.written(ctx, objects); err != nil {
			return err
		}
	}
	for _, ledger := range ledgers {
		out, seen := sets.New[types.UID](), uint64(0)
		for j := range ledger.Reservations {
			reservation := &ledger.Reservations[j]
			if left.Has(reservation.UID) {
				out.Insert(reservation.UID)
				seen = max(seen, revisions[reservation.object()])
			}
		}
		if len(out) > 0 {
			klog.FromContext(ctx).Info("Returning reservations that nobody uses", "ledgers", l.kind.Ledgers, "account", ledger.Name, "count", len(out))
			if err := l.ledgers.update(ctx, ledger.Name, func(ledger *Ledger[T]) error {
				ledger.take(out, seen)
				return nil
			}); err != nil {
				return fmt.Errorf("repair the ledger %s of %s: %w", ledger.Name, l.kind.Ledgers, err)
			}
			continue
		}
		if err := l.remove(ctx, ledger); err != nil {
			return fmt.Errorf("remove the ledger %s of %s: %w", ledger.Name, l.kind.Ledgers, err)
		}
	}
	return nil
}

// abandoned are the reservations of which nobody says any more what became of
// their objects.
func (l *Ledgers[Q, T, S]) abandoned(ledgers []*Ledger[T]) sets.Set[types.UID] {
	left, there := sets.New[types.UID](), sets.New[types.UID]()
	for _, ledger := range ledgers {
		a := l.account(ledger.Name)
		for _, reservation := range ledger.Reservations {
			uid := reservation.UID
			there.Insert(uid)
			switch {
			case reservation.Writer == l.writer && a.answersFor(uid):
			case l.suspectedFor(uid) >= abandoned:
				left.Insert(uid)
			}
		}
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for uid := range l.suspects {
		if !there.Has(uid) {
			delete(l.suspects, uid)
		}
	}
	return left
}

// suspectedFor is how long ago a reservation was first found without anybody
// who answers for it. The clocks of servers need not agree for that.
func (l *Ledgers[Q, T, S]) suspectedFor(uid types.UID) time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	since, known := l.suspects[uid]
	if !known {
		since = l.clock.Now()
		l.suspects[uid] = since
	}
	return l.clock.Since(since)
}

// answersFor tells whether it is known here what becomes of a reservation.
func (a *account[Q, T]) answersFor(uid types.UID) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	_, created := a.created[uid]
	return created || a.open.Has(uid) || a.dropped.Has(uid)
}

// written are the objects that exist, with the revisions at which they were
// written last.
func (l *Ledgers[Q, T, S]) written(ctx context.Context, objects rest.Lister) (map[types.UID]uint64, error) {
	listed, err := objects.List(genericapirequest.WithNamespace(ctx, metav1.NamespaceAll), &internalversion.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the %s: %w", l.kind.Objects, err)
	}
	revisions := map[types.UID]uint64{}
	return revisions, eachObject(listed, func(obj strategy.Object) error {
		revision, err := revisionOf(obj.GetResourceVersion())
		revisions[obj.GetUID()] = revision
		return err
	})
}

// remove deletes the ledger of an account that says nothing and is not kept,
// unless it changes meanwhile.
func (l *Ledgers[Q, T, S]) remove(ctx context.Context, ledger *Ledger[T]) error {
	if len(ledger.Reservations) > 0 {
		return nil
	}
	keep, err := l.kind.Keep(ctx, ledger.Name)
	if err != nil || keep {
		return err
	}
	if err := l.view.await(ctx, ledger.Seen); err != nil {
		return err
	}
	if l.view.usedWith(ledger.Name, nil).Objects > 0 {
		return nil
	}
	return l.ledgers.remove(ctx, ledger)
}
