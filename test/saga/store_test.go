// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package saga kills the controllers of two clusters at any write while the clusters are peered and
// unpeered, and checks that both reach the requested state. The clusters are in memory. They have
// those features of an API server that the controllers use.
package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
)

// key identifies an object.
type key struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

func (k key) String() string { return k.resource.Resource + " " + k.namespace + "/" + k.name }

type object interface {
	runtime.Object
	metav1.Object
}

type event struct {
	version int
	key     key
	watch.Event
}

// store has the objects of one cluster.
type store struct {
	mu      sync.Mutex
	news    *sync.Cond
	version int
	objects map[key]object
	events  []event
	// restored is the number of times that the store was restored. Watches that began before the
	// last restore end.
	restored int
	// admit is called with each object that is created or updated, and may change it. It performs
	// the parts of Kubernetes that are not in the store.
	admit func(k key, changed object)
}

func newStore() *store {
	s := &store{objects: map[key]object{}}
	s.news = sync.NewCond(&s.mu)
	return s
}

func (s *store) put(kind watch.EventType, k key, changed object) object {
	s.version++
	changed.SetResourceVersion(strconv.Itoa(s.version))
	if kind == watch.Deleted {
		delete(s.objects, k)
	} else {
		s.objects[k] = changed
	}
	s.events = append(s.events, event{s.version, k, watch.Event{Type: kind, Object: changed.DeepCopyObject()}})
	s.news.Broadcast()
	return changed.DeepCopyObject().(object)
}

var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

func (s *store) create(k key, wanted object) (object, error) {
	if k.namespace != "" {
		namespace, ok := s.objects[key{namespaces, "", k.namespace}]
		if !ok {
			return nil, apierrors.NewNotFound(namespaces.GroupResource(), k.namespace)
		}
		if namespace.GetDeletionTimestamp() != nil {
			return nil, apierrors.NewForbidden(k.resource.GroupResource(), k.name,
				errors.New("the namespace is being terminated"))
		}
	}
	if _, ok := s.objects[k]; ok {
		return nil, apierrors.NewAlreadyExists(k.resource.GroupResource(), k.name)
	}
	created := wanted.DeepCopyObject().(object)
	created.SetNamespace(k.namespace)
	created.SetName(k.name)
	if created.GetUID() == "" {
		created.SetUID(uuid.NewUUID())
	}
	created.SetGeneration(1)
	created.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	if s.admit != nil {
		s.admit(k, created)
	}
	return s.put(watch.Added, k, created), nil
}

func (s *store) get(k key) (object, error) {
	found, ok := s.objects[k]
	if !ok {
		return nil, apierrors.NewNotFound(k.resource.GroupResource(), k.name)
	}
	return found.DeepCopyObject().(object), nil
}

// update updates an object, or its status if subresource is "status". It fails with a conflict if
// the resourceVersion or the UID differs.
func (s *store) update(k key, wanted object, subresource string) (object, error) {
	found, ok := s.objects[k]
	if !ok {
		return nil, apierrors.NewNotFound(k.resource.GroupResource(), k.name)
	}
	if version := wanted.GetResourceVersion(); (version != "" && version != found.GetResourceVersion()) ||
		(wanted.GetUID() != "" && wanted.GetUID() != found.GetUID()) {
		return nil, apierrors.NewConflict(k.resource.GroupResource(), k.name, errors.New("it was changed meanwhile"))
	}
	was, is := content(found), content(wanted)
	result := is
	if subresource != "" {
		result = content(found)
		result["status"] = is["status"]
	} else {
		result["status"] = was["status"]
	}
	if result["status"] == nil {
		delete(result, "status")
	}
	changed := decode(result, found)
	changed.SetUID(found.GetUID())
	changed.SetGeneration(found.GetGeneration())
	changed.SetDeletionTimestamp(found.GetDeletionTimestamp())
	changed.SetCreationTimestamp(found.GetCreationTimestamp())
	if !reflect.DeepEqual(was["spec"], result["spec"]) {
		changed.SetGeneration(found.GetGeneration() + 1)
	}
	if s.admit != nil {
		s.admit(k, changed)
	}
	if reflect.DeepEqual(content(changed), was) {
		return changed.DeepCopyObject().(object), nil
	}
	if changed.GetDeletionTimestamp() != nil && len(changed.GetFinalizers()) == 0 {
		return s.remove(k, changed), nil
	}
	return s.put(watch.Modified, k, changed), nil
}

func (s *store) patch(k key, patch []byte, subresource string) (object, error) {
	found, err := s.get(k)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(found)
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	wanted := reflect.New(reflect.TypeOf(found).Elem()).Interface().(object)
	if err := json.Unmarshal(after, wanted); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return s.update(k, wanted, subresource)
}

func (s *store) delete(k key, preconditions *metav1.Preconditions) error {
	found, ok := s.objects[k]
	if !ok {
		return apierrors.NewNotFound(k.resource.GroupResource(), k.name)
	}
	if preconditions != nil && preconditions.UID != nil && *preconditions.UID != found.GetUID() {
		return apierrors.NewConflict(k.resource.GroupResource(), k.name, errors.New("it is another one"))
	}
	inside := s.keys(func(other key) bool { return k.resource == namespaces && other.namespace == k.name })
	if len(found.GetFinalizers()) == 0 && len(inside) == 0 {
		s.remove(k, found)
		return nil
	}
	if found.GetDeletionTimestamp() == nil {
		going := found.DeepCopyObject().(object)
		going.SetDeletionTimestamp(&metav1.Time{Time: time.Now().Truncate(time.Second)})
		s.put(watch.Modified, k, going)
	}
	for _, other := range inside {
		if _, ok := s.objects[other]; ok {
			if err := s.delete(other, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove deletes an object and its dependents. If the object is in a terminating namespace without
// other objects, it deletes the namespace as well.
func (s *store) remove(k key, gone object) object {
	gone = s.put(watch.Deleted, k, gone.DeepCopyObject().(object))
	owned := s.keys(func(other key) bool {
		return slices.ContainsFunc(s.objects[other].GetOwnerReferences(),
			func(r metav1.OwnerReference) bool { return r.UID == gone.GetUID() })
	})
	for _, other := range owned {
		if _, ok := s.objects[other]; ok {
			_ = s.delete(other, nil)
		}
	}
	namespaceKey := key{namespaces, "", k.namespace}
	namespace, ok := s.objects[namespaceKey]
	left := s.keys(func(other key) bool { return other.namespace == k.namespace })
	if ok && namespace.GetDeletionTimestamp() != nil && len(left) == 0 {
		s.remove(namespaceKey, namespace)
	}
	return gone
}

func (s *store) keys(matches func(key) bool) []key {
	var found []key
	for k := range s.objects {
		if matches(k) {
			found = append(found, k)
		}
	}
	slices.SortFunc(found, func(a, b key) int { return strings.Compare(a.String(), b.String()) })
	return found
}

// list returns the objects of a kind, as a list of the type that scheme has for it.
func (s *store) list(scheme *runtime.Scheme, kind schema.GroupVersionKind, in key,
	selector labels.Selector) (runtime.Object, error) {
	list, err := scheme.New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return nil, err
	}
	var items []runtime.Object
	for _, k := range s.keys(func(k key) bool {
		return k.resource == in.resource && (in.namespace == "" || k.namespace == in.namespace)
	}) {
		if selector.Matches(labels.Set(s.objects[k].GetLabels())) {
			items = append(items, s.objects[k].DeepCopyObject())
		}
	}
	if err := meta.SetList(list, items); err != nil {
		return nil, err
	}
	accessor, err := meta.ListAccessor(list)
	if err == nil {
		accessor.SetResourceVersion(strconv.Itoa(s.version))
	}
	return list, err
}

// watcher sends the events after a resource version.
type watcher struct {
	store    *store
	restored int
	events   chan watch.Event
	stopping chan struct{}
	once     sync.Once
}

func (s *store) watch(in key, since string, selector labels.Selector) watch.Interface {
	version, _ := strconv.Atoi(since)
	w := &watcher{store: s, restored: s.restored, events: make(chan watch.Event), stopping: make(chan struct{})}
	matches := func(e event) bool {
		return e.version > version && e.key.resource == in.resource &&
			(in.namespace == "" || e.key.namespace == in.namespace) &&
			selector.Matches(labels.Set(e.Object.(object).GetLabels()))
	}
	go w.run(matches)
	return w
}

func (w *watcher) run(matches func(event) bool) {
	defer close(w.events)
	for next := 0; ; {
		w.store.mu.Lock()
		for next == len(w.store.events) && !w.stopped() && w.restored == w.store.restored {
			w.store.news.Wait()
		}
		if w.restored != w.store.restored {
			w.store.mu.Unlock()
			return
		}
		batch := w.store.events[next:]
		next = len(w.store.events)
		w.store.mu.Unlock()
		if w.stopped() {
			return
		}
		for _, e := range batch {
			if !matches(e) {
				continue
			}
			select {
			case w.events <- watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()}:
			case <-w.stopping:
				return
			}
		}
	}
}

func (w *watcher) stopped() bool {
	select {
	case <-w.stopping:
		return true
	default:
		return false
	}
}

// Stop ends the watch.
func (w *watcher) Stop() {
	w.once.Do(func() {
		close(w.stopping)
		w.store.mu.Lock()
		defer w.store.mu.Unlock()
		w.store.news.Broadcast()
	})
}

// ResultChan returns the channel of events.
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

func content(o object) map[string]any {
	encoded, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(encoded, &fields); err != nil {
		panic(err)
	}
	return fields
}

func decode(fields map[string]any, like object) object {
	encoded, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	decoded := reflect.New(reflect.TypeOf(like).Elem()).Interface().(object)
	if err := json.Unmarshal(encoded, decoded); err != nil {
		panic(fmt.Sprintf("%v in %s", err, encoded))
	}
	return decoded
}

// uid returns a UID that consists of one repeated digit.
func uid(digit string) types.UID {
	d := func(n int) string { return strings.Repeat(digit, n) }
	return types.UID(d(8) + "-" + d(4) + "-" + d(4) + "-" + d(4) + "-" + d(12))
}
