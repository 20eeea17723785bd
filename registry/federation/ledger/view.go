// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/rules/quota"
)

// Source is where shadow pods are listed and watched.
type Source interface {
	rest.Lister
	rest.Watcher
}

// view is what all consumers use, kept by watching the shadow pods. It is a
// little behind, and knows by how much.
type view struct {
	mutex sync.Mutex
	// revision is how far the view has come; it never goes back.
	revision uint64
	// moved is closed, and replaced, when the revision moves.
	moved chan struct{}
	// pods are the shadow pods that are somebody's. Used are the sums of those
	// that are not finished, and finished is how many are, by consumer.
	pods     map[types.UID]counted
	used     map[string]corev1.ResourceList
	finished map[string]int
	// gone are pods that are known to be removed before the watch says so.
	gone map[types.UID]bool
	// nobodys are shadow pods that do not say whose they are.
	nobodys map[types.UID]types.NamespacedName
}

type counted struct {
	consumer string
	// requests are what it takes; nothing, once it is finished.
	requests corev1.ResourceList
	finished bool
}

func newView() *view {
	return &view{
		moved: make(chan struct{}), pods: map[types.UID]counted{}, used: map[string]corev1.ResourceList{}, finished: map[string]int{},
		gone: map[types.UID]bool{}, nobodys: map[types.UID]types.NamespacedName{},
	}
}

// follow keeps the view until the watch ends, and says why it ended. What was
// missed is found by following again.
func (v *view) follow(ctx context.Context, source Source) error {
	ctx = genericapirequest.WithNamespace(ctx, metav1.NamespaceAll)
	// Without a version the list is as new as the storage itself.
	listed, err := source.List(ctx, &internalversion.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the shadow pods: %w", err)
	}
	pods, ok := listed.(*federation.ShadowPodList)
	if !ok {
		return fmt.Errorf("shadow pods were listed as a %T", listed)
	}
	if err := v.replace(pods); err != nil {
		return err
	}
	watcher, err := source.Watch(ctx, &internalversion.ListOptions{ResourceVersion: pods.ResourceVersion, AllowWatchBookmarks: true})
	if err != nil {
		return fmt.Errorf("watch the shadow pods: %w", err)
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, open := <-watcher.ResultChan():
			if !open {
				return errors.New("the watch of the shadow pods ended")
			}
			if err := v.observe(event); err != nil {
				return err
			}
		}
	}
}

func (v *view) replace(pods *federation.ShadowPodList) error {
	revision, err := revisionOf(pods.ResourceVersion)
	if err != nil {
		return err
	}
	v.mutex.Lock()
	defer v.mutex.Unlock()
	listed := make(map[types.UID]bool, len(pods.Items))
	for i := range pods.Items {
		listed[pods.Items[i].UID] = true
		v.put(&pods.Items[i])
	}
	for uid := range v.pods {
		if !listed[uid] {
			v.drop(uid)
		}
	}
	for uid := range v.gone {
		if !listed[uid] {
			delete(v.gone, uid)
		}
	}
	for uid := range v.nobodys {
		if !listed[uid] {
			delete(v.nobodys, uid)
		}
	}
	v.move(revision)
	return nil
}

func (v *view) observe(event watch.Event) error {
	if event.Type == watch.Error {
		return fmt.Errorf("watch the shadow pods: %v", event.Object)
	}
	object := event.Object
	// Where several watch, the cache hands out one object that is encoded once
	// for all of them.
	if shared, ok := object.(runtime.CacheableObject); ok {
		object = shared.GetObject()
	}
	pod, ok := object.(*federation.ShadowPod)
	if !ok {
		return fmt.Errorf("shadow pods are watched as a %T", object)
	}
	revision, err := revisionOf(pod.ResourceVersion)
	if err != nil {
		return err
	}
	v.mutex.Lock()
	defer v.mutex.Unlock()
	switch event.Type {
	case watch.Deleted:
		v.drop(pod.UID)
		delete(v.gone, pod.UID)
		delete(v.nobodys, pod.UID)
	case watch.Added, watch.Modified:
		v.put(pod)
	}
	v.move(revision)
	return nil
}

// put counts a shadow pod: what it takes until it is finished, and then that
// it is there. What it asks for does not change, so it is looked at once.
func (v *view) put(pod *federation.ShadowPod) {
	delete(v.nobodys, pod.UID)
	if v.gone[pod.UID] {
		return
	}
	finished := pod.Status.Phase != ""
	entry, known := v.pods[pod.UID]
	switch {
	case !known && pod.Status.ForeignCluster == "":
		// One that was somebody's still is: a server of an older version does not
		// know the field, and leaves it out of what it writes.
		if !finished {
			v.nobodys[pod.UID] = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		}
	case !known && finished:
		v.pods[pod.UID] = counted{consumer: pod.Status.ForeignCluster, finished: true}
		v.finished[pod.Status.ForeignCluster]++
	case !known:
		entry = counted{consumer: pod.Status.ForeignCluster, requests: quota.Requests(&pod.Spec.Pod)}
		v.pods[pod.UID] = entry
		if v.used[entry.consumer] == nil {
			v.used[entry.consumer] = corev1.ResourceList{}
		}
		quota.Add(v.used[entry.consumer], entry.requests)
	case finished && !entry.finished:
		v.subtract(entry)
		v.pods[pod.UID] = counted{consumer: entry.consumer, finished: true}
		v.finished[entry.consumer]++
	}
}

func (v *view) drop(uid types.UID) {
	entry, known := v.pods[uid]
	if !known {
		return
	}
	delete(v.pods, uid)
	if !entry.finished {
		v.subtract(entry)
		return
	}
	if v.finished[entry.consumer]--; v.finished[entry.consumer] == 0 {
		delete(v.finished, entry.consumer)
	}
}

func (v *view) subtract(entry counted) {
	quota.Subtract(v.used[entry.consumer], entry.requests)
	if len(v.used[entry.consumer]) == 0 {
		delete(v.used, entry.consumer)
	}
}

func (v *view) move(revision uint64) {
	if revision <= v.revision {
		return
	}
	v.revision = revision
	close(v.moved)
	v.moved = make(chan struct{})
}

// add counts a shadow pod that was created here before the watch says so. What
// the watch has said by then may be that it is over.
func (v *view) add(pod *federation.ShadowPod, revision uint64) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if revision > v.revision {
		v.put(pod)
	}
}

// change counts a shadow pod that was changed or removed here before the watch
// says so.
func (v *view) change(pod *federation.ShadowPod, removed bool) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if _, known := v.pods[pod.UID]; !known {
		return
	}
	if removed {
		v.drop(pod.UID)
		v.gone[pod.UID] = true
		return
	}
	v.put(pod)
}

// await returns when the view has come as far as a revision.
func (v *view) await(ctx context.Context, revision uint64) error {
	for {
		v.mutex.Lock()
		there, moved := v.revision >= revision && v.revision > 0, v.moved
		v.mutex.Unlock()
		if there {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until the shadow pods are known: %w", ctx.Err())
		case <-moved:
		}
	}
}

// usedWith is what a consumer uses, with the reservations of shadow pods that
// are not known, as a copy, and how many finished shadow pods it has.
func (v *view) usedWith(consumer string, reservations []Reservation) (used corev1.ResourceList, finished int) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	used = corev1.ResourceList{}
	quota.Add(used, v.used[consumer])
	for _, reservation := range reservations {
		if _, known := v.pods[reservation.UID]; !known && !v.gone[reservation.UID] {
			quota.Add(used, reservation.Requests)
		}
	}
	return used, v.finished[consumer]
}

// unattributed are the shadow pods that do not say whose they are.
func (v *view) unattributed() []types.NamespacedName {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return slices.Collect(maps.Values(v.nobodys))
}

// at is how far the view has come.
func (v *view) at() uint64 {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.revision
}

// keep follows the shadow pods until the context ends.
func (v *view) keep(ctx context.Context, source Source) {
	if err := v.follow(ctx, source); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).V(2).Info("Looking at all shadow pods again", "reason", err.Error())
	}
}

func revisionOf(resourceVersion string) (uint64, error) {
	revision, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the version %q of shadow pods is no revision: %w", resourceVersion, err)
	}
	return revision, nil
}
