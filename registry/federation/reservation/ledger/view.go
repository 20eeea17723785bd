// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"liqo.io/federation/registry/federation/resource"
)

// Source lists and watches the objects of one resource.
type Source interface {
	rest.Lister
	rest.Watcher
}

// view has the usage of all accounts, computed from a watch of the objects. It may lag behind etcd: it contains all
// writes up to revision.
type view[T any, S Sum[S, T]] struct {
	objects string
	entry   func(runtime.Object) (account string, uses T, counts bool)

	mutex sync.Mutex
	// revision is the revision up to which the view is complete. It never decreases.
	revision uint64
	// moved is closed and replaced when revision increases.
	moved chan struct{}
	// counted has the last version of each object of any account, by UID. used has the sums of each account, by name.
	counted map[types.UID]counted[T]
	used    map[string]Used[S]
	// gone has objects that this server removed and whose deletion the watch has not reported yet.
	gone map[types.UID]bool
	// unassigned has objects that count but name no account.
	unassigned map[types.UID]types.NamespacedName
}

type counted[T any] struct {
	account string
	// over is true for an object that uses nothing any more. uses then is the zero value.
	uses T
	over bool
	// revision is the resourceVersion of the object.
	revision uint64
}

func newView[Q, T any, S Sum[S, T]](kind Kind[Q, T, S]) *view[T, S] {
	return &view[T, S]{
		objects: kind.Objects, entry: kind.Entry,
		moved: make(chan struct{}), counted: map[types.UID]counted[T]{}, used: map[string]Used[S]{},
		gone: map[types.UID]bool{}, unassigned: map[types.UID]types.NamespacedName{},
	}
}

// eachObject calls a function with each object of a list. It fails with the first error of the function.
func eachObject(list runtime.Object, do func(resource.Object) error) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		obj, ok := item.(resource.Object)
		if !ok {
			return fmt.Errorf("expected an object with metadata, got a %T", item)
		}
		return do(obj)
	})
}

// follow lists and watches the objects to update the view, and returns the reason why the watch ended. The list of the
// next call contains all changes that were missed in between.
func (v *view[T, S]) follow(ctx context.Context, source Source) error {
	ctx = genericapirequest.WithNamespace(ctx, metav1.NamespaceAll)
	// A list without a resourceVersion is read from etcd.
	listed, err := source.List(ctx, &internalversion.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the %s: %w", v.objects, err)
	}
	version, err := v.replace(listed)
	if err != nil {
		return err
	}
	watcher, err := source.Watch(ctx, &internalversion.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
	if err != nil {
		return fmt.Errorf("watching the %s: %w", v.objects, err)
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, open := <-watcher.ResultChan():
			if !open {
				return fmt.Errorf("the watch of the %s ended", v.objects)
			}
			if err := v.observe(event); err != nil {
				return err
			}
		}
	}
}

func (v *view[T, S]) replace(list runtime.Object) (version string, err error) {
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return "", err
	}
	version = accessor.GetResourceVersion()
	revision, err := revisionOf(version)
	if err != nil {
		return "", err
	}
	v.mutex.Lock()
	defer v.mutex.Unlock()
	listed := map[types.UID]bool{}
	if err := eachObject(list, func(obj resource.Object) error {
		revision, err := revisionOf(obj.GetResourceVersion())
		if err != nil {
			return err
		}
		listed[obj.GetUID()] = true
		v.put(obj, revision)
		return nil
	}); err != nil {
		return "", err
	}
	for uid := range v.counted {
		if !listed[uid] {
			v.drop(uid)
		}
	}
	for uid := range v.gone {
		if !listed[uid] {
			delete(v.gone, uid)
		}
	}
	for uid := range v.unassigned {
		if !listed[uid] {
			delete(v.unassigned, uid)
		}
	}
	v.move(revision)
	return version, nil
}

func (v *view[T, S]) observe(event watch.Event) error {
	if event.Type == watch.Error {
		return fmt.Errorf("watching the %s: %v", v.objects, event.Object)
	}
	object := event.Object
	// The watch cache wraps an object that it sends to several watches, to encode it only once.
	if shared, ok := object.(runtime.CacheableObject); ok {
		object = shared.GetObject()
	}
	obj, ok := object.(resource.Object)
	if !ok {
		return fmt.Errorf("watching the %s: got a %T", v.objects, object)
	}
	revision, err := revisionOf(obj.GetResourceVersion())
	if err != nil {
		return err
	}
	v.mutex.Lock()
	defer v.mutex.Unlock()
	switch event.Type {
	case watch.Deleted:
		v.drop(obj.GetUID())
		delete(v.gone, obj.GetUID())
		delete(v.unassigned, obj.GetUID())
	case watch.Added, watch.Modified:
		v.put(obj, revision)
	}
	v.move(revision)
	return nil
}

// put updates the usage of an account with a version of an object. It adds the amount that the object uses to Used.Sum,
// or increments Used.Over if the object uses nothing any more. It ignores a version that is not newer than the last
// one, because the watch lags behind writes of this server.
func (v *view[T, S]) put(obj resource.Object, revision uint64) {
	uid := obj.GetUID()
	was, known := v.counted[uid]
	if known && revision <= was.revision {
		return
	}
	delete(v.unassigned, uid)
	if v.gone[uid] {
		return
	}
	account, uses, counts := v.entry(obj)
	if account == "" && counts {
		v.unassigned[uid] = types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	}
	// A known object stays in its account even if its status no longer names the account: a server of an older version
	// drops the unknown field when it writes the object.
	switch {
	case known && was.over:
		return
	case known:
		v.drop(uid)
		account = was.account
	case account == "":
		return
	}
	all := v.used[account]
	if counts {
		v.counted[uid] = counted[T]{account: account, uses: uses, revision: revision}
		v.used[account] = Used[S]{Objects: all.Objects + 1, Over: all.Over, Sum: all.Sum.Plus(uses)}
	} else {
		v.counted[uid] = counted[T]{account: account, over: true, revision: revision}
		v.used[account] = Used[S]{Objects: all.Objects, Over: all.Over + 1, Sum: all.Sum}
	}
}

func (v *view[T, S]) drop(uid types.UID) {
	entry, known := v.counted[uid]
	if !known {
		return
	}
	delete(v.counted, uid)
	all := v.used[entry.account]
	if entry.over {
		all.Over--
	} else {
		all.Objects--
		all.Sum = all.Sum.Minus(entry.uses)
	}
	if all.Objects == 0 && all.Over == 0 {
		delete(v.used, entry.account)
		return
	}
	v.used[entry.account] = all
}

func (v *view[T, S]) move(revision uint64) {
	if revision <= v.revision {
		return
	}
	v.revision = revision
	close(v.moved)
	v.moved = make(chan struct{})
}

// add updates the usage with an object that this server created or allowed to grow, without waiting for the watch. It
// does nothing if the view has reached this revision, because the watch may already have reported a later state.
func (v *view[T, S]) add(obj resource.Object, revision uint64) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if revision > v.revision {
		v.put(obj, revision)
	}
}

// change updates the usage with an object that this server updated or removed, without waiting for the watch.
func (v *view[T, S]) change(obj resource.Object, removed bool) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if _, known := v.counted[obj.GetUID()]; !known {
		return
	}
	if removed {
		v.drop(obj.GetUID())
		v.gone[obj.GetUID()] = true
		return
	}
	// An object without a revision is left to the watch.
	if revision, err := revisionOf(obj.GetResourceVersion()); err == nil {
		v.put(obj, revision)
	}
}

// await waits until the view has reached a revision. It fails if ctx is done before.
func (v *view[T, S]) await(ctx context.Context, revision uint64) error {
	for {
		v.mutex.Lock()
		reached, moved := v.revision >= revision && v.revision > 0, v.moved
		v.mutex.Unlock()
		if reached {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the cache of %s: %w", v.objects, ctx.Err())
		case <-moved:
		}
	}
}

// usedWith returns the usage of an account: the sum of its objects in the view, and of those reservations whose writes
// the view does not contain yet. The view contains the write for a reservation once it has the new object or, for an
// update, a revision of the object after reservation.Since.
func (v *view[T, S]) usedWith(account string, reservations []Reservation[T]) Used[S] {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	all := v.used[account]
	for i := range reservations {
		reservation := &reservations[i]
		was, known := v.counted[reservation.object()]
		if known && was.revision > reservation.Since || v.gone[reservation.object()] {
			continue
		}
		if reservation.Of == "" {
			all.Objects++
		}
		all.Sum = all.Sum.Plus(reservation.Requests)
	}
	return all
}

// Unassigned returns the objects that count but name no account.
func (l *Ledgers[Q, T, S]) Unassigned() []types.NamespacedName {
	l.view.mutex.Lock()
	defer l.view.mutex.Unlock()
	return slices.Collect(maps.Values(l.view.unassigned))
}

// Used returns the amount that the cached objects of an account use, and the revision that the cache has reached. It
// does not include reservations.
func (l *Ledgers[Q, T, S]) Used(account string) (sum S, revision uint64) {
	l.view.mutex.Lock()
	defer l.view.mutex.Unlock()
	return l.view.used[account].Sum, l.view.revision
}

// at returns the revision that the view has reached.
func (v *view[T, S]) at() uint64 {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.revision
}

// keep updates the view until the watch ends, and logs the reason unless ctx is done.
func (v *view[T, S]) keep(ctx context.Context, source Source) {
	if err := v.follow(ctx, source); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).V(2).Info("Watch ended, listing again", "resource", v.objects, "reason", err.Error())
	}
}

func revisionOf(resourceVersion string) (uint64, error) {
	revision, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parsing resourceVersion %q: %w", resourceVersion, err)
	}
	return revision, nil
}
