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

	"liqo.io/federation/registry/federation/resource"
)

const (
	// rewatchDelay is the time from the end of a watch to the start of the next one.
	rewatchDelay = time.Second
	// repairInterval is the time between two repairs.
	repairInterval = 15 * time.Second
	// CreateTimeout is the maximum duration of an API request that reserves an amount. The caller of Begin must enforce
	// it.
	CreateTimeout = 30 * time.Second
	// abandoned is the time after which a server releases a reservation that none of its own requests is responsible
	// for. The request of any other server, and its transactions, have timed out by then.
	abandoned = 2 * CreateTimeout
)

// Run watches the objects and repairs the ledgers until ctx is done.
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

// Regularly calls a function every repairInterval until ctx is done. The first call is made once all objects were
// listed.
func (l *Ledgers[Q, T, S]) Regularly(ctx context.Context, do func(context.Context)) {
	if l.view.await(ctx, 1) == nil {
		wait.UntilWithContext(ctx, do, repairInterval)
	}
}

// WaitForObjects waits until all objects were listed. Before that, Reserve and Grow block. It fails if ctx is done
// before.
func (l *Ledgers[Q, T, S]) WaitForObjects(ctx context.Context) error { return l.view.await(ctx, 1) }

// Repair removes abandoned reservations, which no running request can use or end any more, and ledgers without usage.
// Several servers may repair the same ledgers concurrently.
func (l *Ledgers[Q, T, S]) Repair(ctx context.Context, objects rest.Lister) error {
	ledgers, err := l.ledgers.list(ctx)
	if err != nil {
		return err
	}
	left := l.abandoned(ledgers)
	var revisions map[types.UID]uint64
	if len(left) > 0 {
		// The objects are listed after the reservations, and from etcd. So the list contains every object that was written
		// for an abandoned reservation.
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
				return fmt.Errorf("repairing the ledger %s (resource %s): %w", ledger.Name, l.kind.Ledgers, err)
			}
			continue
		}
		if err := l.remove(ctx, ledger); err != nil {
			return fmt.Errorf("removing the ledger %s (resource %s): %w", ledger.Name, l.kind.Ledgers, err)
		}
	}
	return nil
}

// abandoned returns the UIDs of the reservations that no request of this server is responsible for, and that this
// server has listed for longer than the constant abandoned.
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

// suspectedFor returns how long ago this server first listed a reservation that none of its requests is responsible
// for. It does not depend on the clocks of other servers.
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

// responsible reports whether this server is going to remove a reservation: its request has not ended, or its removal
// is pending.
func (a *account[Q, T]) responsible(uid types.UID) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	_, created := a.created[uid]
	return created || a.open.Has(uid) || a.dropped.Has(uid)
}

// written returns the revisions of all existing objects, by UID.
func (l *Ledgers[Q, T, S]) written(ctx context.Context, objects rest.Lister) (map[types.UID]uint64, error) {
	listed, err := objects.List(genericapirequest.WithNamespace(ctx, metav1.NamespaceAll), &internalversion.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the %s: %w", l.kind.Objects, err)
	}
	revisions := map[types.UID]uint64{}
	return revisions, eachObject(listed, func(obj resource.Object) error {
		revision, err := revisionOf(obj.GetResourceVersion())
		revisions[obj.GetUID()] = revision
		return err
	})
}

// remove deletes a ledger if it has no reservations, its account has no objects that count, and Kind.Keep returns
// false. A ledger that changed since it was listed is not deleted.
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
