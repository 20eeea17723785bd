// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// Reasons of events on local objects that are not reflected or whose reflected objects are outdated.
const (
	// ReasonReflectionConflict means that the remote namespace has an object of this name that is not a reflected object
	// of this cluster. The object on the provider is not changed. Delete or rename one of the two objects: the reflection
	// is retried within half a minute.
	ReasonReflectionConflict = "ReflectionConflict"
	// ReasonReflectionRefused means that the object or its status is too large, or an API server refuses it, for
	// example by a policy or a quota. The message has the cause; the reflection is retried.
	ReasonReflectionRefused = "ReflectionRefused"
)

// conflictRetry is the time between two attempts to create a reflected object whose name is taken. Only reflected
// objects are watched, so no event reports the deletion of the object that has the name.
const conflictRetry = 30 * time.Second

// object is the type of an object that can be reflected.
type object interface {
	comparable
	metav1.Object
	runtime.Object
}

// client reads and writes the objects of one kind in one remote namespace.
type client[T object] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Create(ctx context.Context, obj T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, obj T, options metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// objects reflects the local objects, of type L, of one kind and namespace as remote objects, of type C.
type objects[L, C object] struct {
	kind
	translation[L, C]
	controller        *Controller
	namespace, remote string
	// local is the cache of local objects, and reflected the cache of reflected objects in the remote namespace.
	local, reflected cache.SharedIndexInformer
	client           client[C]
	// reflects reports whether a local object is reflected. If nil, all objects that the reflection policy selects are
	// reflected.
	reflects func(local L) bool
}

// copyDelay is the delay before an object is reconciled after its reflected object changed. Changes in that time are
// merged, which bounds the cost of frequent changes by a provider.
const copyDelay = time.Second

// watch enqueues every object that changes in either cluster. It fails if an informer was started before.
func (o *objects[L, C]) watch() error {
	if err := o.local.SetTransform(trimOriginal); err != nil {
		return err
	}
	if err := o.reflected.SetTransform(trimCopy); err != nil {
		return err
	}
	for _, side := range []struct {
		cache.SharedIndexInformer
		local func(name string) string
		delay time.Duration
	}{{o.local, same, 0}, {o.reflected, o.localName, copyDelay}} {
		_, err := remotens.OnChange(side, func(obj any) {
			if name, err := cache.ObjectToName(obj); err == nil {
				o.controller.queue.AddAfter(o.key(side.local(name.Name)), side.delay)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *objects[L, C]) run(ctx context.Context) {
	go o.local.RunWithContext(ctx)
	go o.reflected.RunWithContext(ctx)
}

func (o *objects[L, C]) synced() bool { return o.local.HasSynced() && o.reflected.HasSynced() }

func (o *objects[L, C]) key(name string) reflectionKey {
	return reflectionKey{resource: o.name, ObjectName: cache.NewObjectName(o.namespace, name)}
}

func (o *objects[L, C]) keys() []reflectionKey {
	var keys []reflectionKey
	for _, obj := range o.local.GetStore().List() {
		keys = append(keys, o.key(obj.(L).GetName()))
	}
	for _, obj := range o.reflected.GetStore().List() {
		keys = append(keys, o.key(o.localName(obj.(C).GetName())))
	}
	return keys
}

func (o *objects[L, C]) original(copied string, uid types.UID) runtime.Object {
	var none C
	var nothing L
	existing := remotens.Lookup[C](o.reflected.GetStore(), o.remote, copied)
	if existing == none || existing.GetUID() != uid || o.remoteName(o.localName(copied)) != copied {
		return nil
	}
	if local := remotens.Lookup[L](o.local.GetStore(), o.namespace, o.localName(copied)); local != nothing {
		return local
	}
	return nil
}

// reconcile implements reflector.
func (o *objects[L, C]) reconcile(ctx context.Context, key reflectionKey) (time.Duration, error) {
	if o.localName(o.remoteName(key.Name)) != key.Name {
		// Another local object is reflected under this remote name. This is the case for ConfigMap kube-root-ca.crt.home
		// only.
		return 0, nil
	}
	var nothing L
	var none, desired C
	local := remotens.Lookup[L](o.local.GetStore(), o.namespace, key.Name)
	existing := remotens.Lookup[C](o.reflected.GetStore(), o.remote, o.remoteName(key.Name))
	if policy := o.controller.policy(o.resource); local != nothing && o.isReflected(policy, local) {
		desired = o.translate(translate.Strip(policy, local), o.remote, o.controller.destination())
	}
	if desired == none {
		o.controller.lastEvents.Delete(key)
	}
	switch {
	case desired == none && existing == none:
		return 0, nil
	case existing == none:
		return o.create(ctx, key, local, desired)
	case existing.GetDeletionTimestamp() != nil:
		// The deletion of the reflected object enqueues the local one again.
		return 0, nil
	case desired == none:
		return 0, o.delete(ctx, key, existing)
	}
	changed := existing.DeepCopyObject().(C)
	switch o.update(changed, desired) {
	case translate.Replace:
		// The deletion enqueues the local object again, which creates the new reflected object.
		return 0, o.delete(ctx, key, existing)
	case translate.Update:
		o.controller.Metrics.writes.WithLabelValues(o.name).Inc()
		if _, err := o.client.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return 0, o.refused(key, local, "updating", err)
		}
		klog.FromContext(ctx).V(2).Info("Updated reflected object", "object", klog.KObj(changed))
	}
	o.controller.lastEvents.Delete(key)
	return 0, nil
}

func (o *objects[L, C]) isReflected(policy translate.Policy, local L) bool {
	if o.reflects != nil {
		return o.reflects(local)
	}
	return policy.Reflects(local)
}

func (o *objects[L, C]) create(ctx context.Context, key reflectionKey, local L, desired C) (time.Duration, error) {
	o.controller.Metrics.writes.WithLabelValues(o.name).Inc()
	_, err := o.client.Create(ctx, desired, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		live, err := o.client.Get(ctx, desired.GetName(), metav1.GetOptions{})
		if err != nil {
			return 0, fmt.Errorf("reading %s %s in namespace %s of %s: %w",
				o.name, desired.GetName(), o.remote, o.controller.Provider, err)
		}
		if !isCopy(live, o.controller.To) {
			o.recordOnce(key, local, ReasonReflectionConflict, fmt.Sprintf(
				"Namespace %s of %s has an object named %s that is not a reflected object of this cluster. "+
					"It is not changed, and remote pods use it: delete it, or the local object.",
				o.remote, o.controller.Provider, desired.GetName(),
			))
			return conflictRetry, nil
		}
		// The cache has not received the reflected object yet; its event enqueues the local one.
		return 0, nil
	}
	if err != nil {
		return 0, o.refused(key, local, "creating", err)
	}
	o.controller.lastEvents.Delete(key)
	klog.FromContext(ctx).V(2).Info("Created reflected object", "object", klog.KObj(desired))
	return 0, nil
}

// isCopy reports whether an object has the labels of objects that this cluster reflected.
func isCopy(obj metav1.Object, to translate.Destination) bool {
	for name, value := range to.ReflectedLabels() {
		if obj.GetLabels()[name] != value {
			return false
		}
	}
	return true
}

// delete deletes a reflected object. It fails if the object changed since it was cached, because it may no longer be a
// reflected one.
func (o *objects[L, C]) delete(ctx context.Context, key reflectionKey, existing C) error {
	o.controller.Metrics.writes.WithLabelValues(o.name).Inc()
	uid, version := existing.GetUID(), existing.GetResourceVersion()
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
	err := o.client.Delete(ctx, existing.GetName(), options)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting the reflected object of %s on %s: %w", key, o.controller.Provider, err)
	}
	klog.FromContext(ctx).V(2).Info("Deleted reflected object", "object", klog.KObj(existing))
	return nil
}

// refused handles the error of a request to create or update a reflected object; doing is "creating" or "updating". It
// records an event if the provider refused the request, and returns an error, so that the object is retried. It returns
// nil if the remote namespace is being deleted.
func (o *objects[L, C]) refused(key reflectionKey, local L, doing string, err error) error {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// Sync stops the reflectors of this namespace, so nothing is retried.
		return nil
	case remote.Refused(err):
		refuses := fmt.Sprintf("%s refuses the reflected object in namespace %s: ", o.controller.Provider, o.remote)
		o.recordOnce(key, local, ReasonReflectionRefused, refuses+remote.Refusal(err, translate.MaxText-len(refuses)))
	}
	return fmt.Errorf("%s the reflected object of %s on %s: %w", doing, key, o.controller.Provider, err)
}

// recordOnce records a warning on a local object, unless the last event about it has the same message.
func (o *objects[L, C]) recordOnce(key reflectionKey, local L, reason, message string) {
	message = translate.Message(message)
	if last, ok := o.controller.lastEvents.Swap(key, message); !ok || last != message {
		o.controller.Recorder.Event(local, corev1.EventTypeWarning, reason, message)
	}
}

func same(name string) string { return name }

// trimOriginal drops the fields of a local object that are never reflected.
func trimOriginal(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
		delete(o.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	}
	return obj, nil
}

// trimCopy drops the managed fields of a reflected object. Other fields remain, because an update would remove those
// that it does not send.
func trimCopy(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}
