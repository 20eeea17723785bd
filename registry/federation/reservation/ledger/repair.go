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
	// rewatchDelay is the time between a watch that ended and the next one.
	rewatchDelay = time.Second
	// repairInterval is the time between two repairs.
	repairInterval = 15 * time.Second
	// CreateTimeout is how long a request with a reservation may take.
	CreateTimeout = 30 * time.Second
	// abandoned is how long a server that is not responsible for a reservation has to see
	// it before its object can no longer be written: the request and its transactions
	// have timed out by then.
	abandoned = 2 * CreateTimeout
)

// Run watches the objects and repairs the ledgers until the context ends.
func (l *Ledgers[Q, T, S]) Run(ctx context.Context, objects Source) {
	var group wait.Group
	group.StartWithContext(ctx, func(ctx context.Context) {
		wait.UntilWithContext(ctx, func(ctx context.Context) { l.view.keep(ctx, objects) }, rewatchDelay)
	})
	group.StartWithContext(ctx, func(ctx context.Context) {
		l.Regularly(ctx, func(ctx context.Context) {
			if err := l.Repair(ctx, objects); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Unable to release abandoned reservations, will retry", "ledgers", l.kind.Ledgers)
			}
		})
	})
	group.Wait()
}

// Regularly calls a function every repairInterval, after the objects were listed and until the
// context ends.
func (l *Ledgers[Q, T, S]) Regularly(ctx context.Context, do func(context.Context)) {
	if l.view.await(ctx, 1) == nil {
		wait.UntilWithContext(ctx, do, repairInterval)
	}
}

// WaitForObjects returns when all objects were listed, so that amounts can be reserved.
func (l *Ledgers[Q, T, S]) WaitForObjects(ctx context.Context) error { return l.view.await(ctx, 1) }

// Repair removes reservations whose objects will not be written any more, and ledgers
// without content. Two servers may do so at the same time.
func (l *Ledgers[Q, T, S]) Repair(ctx context.Context, objects rest.Lister) error {
	ledgers, err := l.ledgers.list(ctx)
	if err != nil {
		return err
	}
	left := l.abandoned(ledgers)
	var revisions map[types.UID]uint64
	if len(left) > 0 {
		// This list is later than the reservations and as new as etcd: it has every object
		// that was written for them.
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
			klog.FromContext(ctx).Info("Releasing abandoned reservations", "ledgers", l.kind.Ledgers, "account", ledger.Name,
				"count", len(out))
			if err := l.ledgers.update(ctx, ledger.Name, func(ledger *Ledger[T]) error {
				ledger.remove(out, seen)
				return nil
			}); err != nil {
				return fmt.Errorf("repairing the ledger %s of %s: %w", ledger.Name, l.kind.Ledgers, err)
			}
			continue
		}
		if err := l.remove(ctx, ledger); err != nil {
			return fmt.Errorf("removing the ledger %s of %s: %w", ledger.Name, l.kind.Ledgers, err)
		}
	}
	return nil
}

// abandoned returns the reservations that no running request is responsible for.
func (l *Ledgers[Q, T, S]) abandoned(ledgers []*Ledger[T]) sets.Set[types.UID] {
	left, listed := sets.New[types.UID](), sets.New[types.UID]()
	for _, ledger := range ledgers {
		a := l.account(ledger.Name)
		for _, reservation := range ledger.Reservations {
			uid := reservation.UID
			listed.Insert(uid)
			switch {
			case reservation.Writer == l.writer && a.responsible(uid):
			case l.suspectedFor(uid) >= abandoned:
				left.Insert(uid)
			}
		}
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for uid := range l.suspects {
		if !listed.Has(uid) {
			delete(l.suspects, uid)
		}
	}
	return left
}

// suspectedFor returns how long ago this server first saw a reservation that it is not
// responsible for. The clocks of servers need not agree for that.
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

// responsible reports whether a request of this server ends a reservation.
func (a *account[Q, T]) responsible(uid types.UID) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	_, created := a.created[uid]
	return created || a.open.Has(uid) || a.dropped.Has(uid)
}

// written returns the objects that exist, with the revisions of their last writes.
func (l *Ledgers[Q, T, S]) written(ctx context.Context, objects rest.Lister) (map[types.UID]uint64, error) {
	listed, err := objects.List(genericapirequest.WithNamespace(ctx, metav1.NamespaceAll), &internalversion.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the %s: %w", l.kind.Objects, err)
	}
	revisions := map[types.UID]uint64{}
	return revisions, eachObject(listed, func(obj strategy.Object) error {
		revision, err := revisionOf(obj.GetResourceVersion())
		revisions[obj.GetUID()] = revision
		return err
	})
}

// remove deletes the ledger of an account that has no content and is not kept, unless it
// changes at the same time.
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
