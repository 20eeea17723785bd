// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation"
)

const (
	// followAgain is how long a watch that ended is waited before the next.
	followAgain = time.Second
	// repairInterval is how often ledgers are looked at for what is left over.
	repairInterval = 15 * time.Second
	// CreateTimeout is how long the creation of a shadow pod may take once room
	// for it is reserved.
	CreateTimeout = 30 * time.Second
	// abandoned is how long a reservation has to be seen, by a server that does
	// not answer for it, before no shadow pod can come of it any more: the
	// creation has timed out, and so has what etcd was still told to do.
	abandoned = 2 * CreateTimeout
)

// Pods are all shadow pods.
type Pods interface {
	Source
	// Attribute has a shadow pod that does not say whose it is say so, if its
	// namespace is lent.
	Attribute(ctx context.Context, pod types.NamespacedName) error
}

// Run keeps the ledgers until the context ends: it follows the shadow pods, has
// those counted that were created before their namespace was lent or before
// there were ledgers, and returns what was reserved in vain.
func (l *Ledgers) Run(ctx context.Context, pods Pods) {
	var group wait.Group
	group.StartWithContext(ctx, func(ctx context.Context) {
		wait.UntilWithContext(ctx, func(ctx context.Context) { l.view.keep(ctx, pods) }, followAgain)
	})
	group.StartWithContext(ctx, func(ctx context.Context) {
		if l.view.await(ctx, 1) != nil {
			return
		}
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if err := l.Repair(ctx, pods); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Reservations that nobody uses stay for now")
			}
			for _, pod := range l.view.unattributed() {
				if err := pods.Attribute(ctx, pod); err != nil && ctx.Err() == nil {
					klog.FromContext(ctx).Error(err, "A shadow pod is not counted for now", "shadowPod", pod)
				}
			}
		}, repairInterval)
	})
	group.Wait()
}

// Known returns when all shadow pods are known, and grants can be kept.
func (l *Ledgers) Known(ctx context.Context) error { return l.view.await(ctx, 1) }

// Repair takes out reservations that no shadow pod will come of, and removes
// ledgers that say nothing. Two servers may do so at once.
func (l *Ledgers) Repair(ctx context.Context, pods rest.Lister) error {
	list := &List{}
	if err := l.ledgers.GetList(ctx, l.prefix+"/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list); err != nil {
		return fmt.Errorf("list the ledgers: %w", err)
	}
	left := l.abandoned(list.Items)
	var revisions map[types.UID]uint64
	if len(left) > 0 {
		var err error
		// This comes after the reservations were read, and is as new as the
		// storage: whatever became of them is in it.
		if revisions, err = written(ctx, pods); err != nil {
			return err
		}
	}
	for i := range list.Items {
		ledger := &list.Items[i]
		out, seen := sets.New[types.UID](), uint64(0)
		for _, reservation := range ledger.Reservations {
			if left.Has(reservation.UID) {
				out.Insert(reservation.UID)
				seen = max(seen, revisions[reservation.UID])
			}
		}
		if len(out) > 0 {
			klog.FromContext(ctx).Info("Returning reservations that nobody uses", "foreignCluster", ledger.Name, "count", len(out))
			if err := l.update(ctx, ledger.Name, func(ledger *Ledger) error {
				ledger.take(out, seen)
				return nil
			}); err != nil {
				return fmt.Errorf("repair the ledger of consumer %s: %w", ledger.Name, err)
			}
			continue
		}
		if err := l.remove(ctx, ledger); err != nil {
			return fmt.Errorf("remove the ledger of consumer %s: %w", ledger.Name, err)
		}
	}
	return nil
}

// abandoned are the reservations of which nobody says any more what became of
// their shadow pods.
func (l *Ledgers) abandoned(ledgers []Ledger) sets.Set[types.UID] {
	left, there := sets.New[types.UID](), sets.New[types.UID]()
	for i := range ledgers {
		a := l.account(ledgers[i].Name)
		for _, reservation := range ledgers[i].Reservations {
			uid := reservation.UID
			there.Insert(uid)
			switch {
			case reservation.Writer == l.writer && a.answersFor(uid):
			case reservation.Writer != l.writer && l.alone:
				// Its writer is dead: this storage has one server at a time.
				left.Insert(uid)
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
func (l *Ledgers) suspectedFor(uid types.UID) time.Duration {
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
func (a *account) answersFor(uid types.UID) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	_, created := a.created[uid]
	return created || a.open.Has(uid) || a.dropped.Has(uid)
}

// written are the shadow pods that exist, with the revisions at which they were
// written last.
func written(ctx context.Context, pods rest.Lister) (map[types.UID]uint64, error) {
	listed, err := pods.List(genericapirequest.WithNamespace(ctx, metav1.NamespaceAll), &internalversion.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the shadow pods: %w", err)
	}
	list, ok := listed.(*federation.ShadowPodList)
	if !ok {
		return nil, fmt.Errorf("shadow pods were listed as a %T", listed)
	}
	revisions := make(map[types.UID]uint64, len(list.Items))
	for i := range list.Items {
		revision, err := revisionOf(list.Items[i].ResourceVersion)
		if err != nil {
			return nil, err
		}
		revisions[list.Items[i].UID] = revision
	}
	return revisions, nil
}

// remove deletes the ledger of a consumer that is granted nothing and has
// nothing, unless it changes meanwhile.
func (l *Ledgers) remove(ctx context.Context, ledger *Ledger) error {
	if len(ledger.Reservations) > 0 {
		return nil
	}
	granted, err := l.granted(ctx, ledger.Name)
	if err != nil || len(granted) > 0 {
		return err
	}
	if err := l.view.await(ctx, ledger.Seen); err != nil {
		return err
	}
	if used, _ := l.view.usedWith(ledger.Name, nil); len(used) > 0 {
		return nil
	}
	err = l.ledgers.Delete(ctx, l.key(ledger.Name), &Ledger{}, &storage.Preconditions{ResourceVersion: &ledger.ResourceVersion},
		func(context.Context, runtime.Object) error { return nil }, nil, storage.DeleteOptions{})
	if storage.IsNotFound(err) || storage.IsConflict(err) || storage.IsInvalidObj(err) {
		return nil
	}
	return err
}
