// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kittest is the fixture of tests of controllers: a cluster with a fake API server
// that has the kinds, indexes and status subresources of a manager of package kit, a clock
// and recorded events. Writes of the controller are recorded, and any of them can be the last one
// of its process.
package kittest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// maxEvents bounds the events that a controller may record between two calls of Recorded.
const maxEvents = 1000

// ErrKilled is the error of the write at which Kill ends a process.
var ErrKilled = errors.New("the process was killed")

// Epoch is the time at which the clock of a cluster begins.
var Epoch = time.Date(2026, time.November, 26, 12, 0, 0, 0, time.UTC)

// Write is one write of the controller.
type Write struct {
	// Verb is create, update, patch, delete or deletecollection, for a subresource followed
	// by its name.
	Verb string
	// Kind, Namespace and Name are those of the object. A collection has neither a name nor a
	// namespace.
	Kind, Namespace, Name string
}

// String returns the write as tests compare it: verb, kind and name.
func (w Write) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", w.Verb, w.Kind, w.Name))
}

// Cluster is a cluster in a test. Its embedded client is the client of users and of other
// controllers.
type Cluster struct {
	client.WithWatch
	// Controller is the client of the controller under test.
	Controller client.WithWatch
	// Writes are the writes with Controller, also those that failed.
	Writes []Write
	// Fault is called with each write before it is sent, and again when it is done; an
	// error is the answer to the controller. Nil fails none.
	Fault func(write Write, done bool) error
	// Clock begins at Epoch.
	Clock *clocktesting.FakeClock
	// Events receives the events of the controller.
	Events *record.FakeRecorder

	t       T
	created int
}

// scheme is shared by all clusters, since creating it takes longer than all else in New. Clusters of parallel tests
// must not have unstructured objects of kinds that are not in it: the fake client adds them.
var scheme = sync.OnceValue(kit.NewScheme)

// T is the part of testing.T and of rapid.T that a cluster needs.
type T interface {
	Helper()
	Fatal(args ...any)
	Context() context.Context
}

// New returns a cluster with objects.
func New(t T, objects ...client.Object) *Cluster {
	t.Helper()
	c := &Cluster{t: t, Clock: clocktesting.NewFakeClock(Epoch), Events: record.NewFakeRecorder(maxEvents)}
	scheme := scheme()
	// The default tracker keeps managed fields, for which it builds a table of all kinds at each
	// write; no controller applies.
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	c.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).WithObjects(objects...).
		WithStatusSubresource(withStatus()...).
		WithIndex(&corev1.Pod{}, kit.IndexClaims, kit.PodClaims).
		WithIndex(&corev1.Pod{}, "spec.nodeName", nodeOf).
		WithIndex(&corev1.Pod{}, "status.phase", phaseOf).
		WithIndex(&corev1.PersistentVolume{}, kit.IndexClaimRef, kit.VolumeClaim).
		WithIndex(&corev1.Event{}, "involvedObject.uid",
			ofEvent(func(e *corev1.Event) string { return string(e.InvolvedObject.UID) })).
		WithIndex(&corev1.Event{}, "type", ofEvent(func(e *corev1.Event) string { return e.Type })).
		Build()
	c.Controller = interceptor.NewClient(c.WithWatch, c.recorded())
	return c
}

func ofEvent(value func(*corev1.Event) string) client.IndexerFunc {
	return func(object client.Object) []string { return []string{value(object.(*corev1.Event))} }
}

func nodeOf(pod client.Object) []string { return []string{pod.(*corev1.Pod).Spec.NodeName} }

func phaseOf(pod client.Object) []string { return []string{string(pod.(*corev1.Pod).Status.Phase)} }

// withStatus returns an object of each kind whose status is a subresource.
var withStatus = sync.OnceValue(func() []client.Object {
	objects := []client.Object{
		&corev1.Namespace{}, &corev1.Node{}, &corev1.Pod{}, &corev1.Service{}, &corev1.ResourceQuota{},
		&corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}, &appsv1.Deployment{},
		&certificatesv1.CertificateSigningRequest{}, &mcsv1alpha1.ServiceExport{}, &mcsv1alpha1.ServiceImport{},
	}
	for kind, object := range scheme().KnownTypes(v1alpha1.SchemeGroupVersion) {
		_, hasStatus := object.FieldByName("Status")
		if typed, ok := reflect.New(object).Interface().(client.Object); ok && hasStatus && kind != "Status" {
			objects = append(objects, typed)
		}
	}
	return objects
})

// recorded returns the functions that record the writes of the controller.
func (c *Cluster) recorded() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return c.write("create", o, func() error {
				c.created++
				o.SetUID(types.UID(fmt.Sprintf("created-%d", c.created)))
				return w.Create(ctx, o, options...)
			})
		},
		Update: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			return c.write("update", o, func() error { return w.Update(ctx, o, options...) })
		},
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch,
			options ...client.PatchOption,
		) error {
			return c.write("patch", o, func() error { return w.Patch(ctx, o, p, options...) })
		},
		Delete: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return c.write("delete", o, func() error { return w.Delete(ctx, o, options...) })
		},
		DeleteAllOf: func(ctx context.Context, w client.WithWatch, o client.Object,
			options ...client.DeleteAllOfOption,
		) error {
			return c.write("deletecollection", o, func() error { return w.DeleteAllOf(ctx, o, options...) })
		},
		SubResourceCreate: func(ctx context.Context, w client.Client, sub string, o, request client.Object,
			options ...client.SubResourceCreateOption,
		) error {
			return c.write("create "+sub, o, func() error { return w.SubResource(sub).Create(ctx, o, request, options...) })
		},
		SubResourceUpdate: func(ctx context.Context, w client.Client, sub string, o client.Object,
			options ...client.SubResourceUpdateOption,
		) error {
			return c.write("update "+sub, o, func() error {
				if sub == "resize" || sub == "ephemeralcontainers" {
					// These change the spec; the fake API server would write the status alone.
					return w.Update(ctx, o)
				}
				return w.SubResource(sub).Update(ctx, o, options...)
			})
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch,
			options ...client.SubResourcePatchOption,
		) error {
			return c.write("patch "+sub, o, func() error { return w.SubResource(sub).Patch(ctx, o, p, options...) })
		},
	}
}

func (c *Cluster) write(verb string, object client.Object, send func() error) error {
	write := Write{
		Verb: verb, Kind: reflect.TypeOf(object).Elem().Name(), Namespace: object.GetNamespace(), Name: object.GetName(),
	}
	c.Writes = append(c.Writes, write)
	fault := c.Fault
	if fault == nil {
		return send()
	}
	if err := fault(write, false); err != nil {
		return err
	}
	if err := send(); err != nil {
		return err
	}
	return fault(write, true)
}

// Kill fails one write of the controller with ErrKilled, before it is sent or after it is done. Writes are
// numbered from 0. A Fault that is set already still applies to the others.
func (c *Cluster) Kill(number int, done bool) {
	fault := c.Fault
	c.Fault = func(write Write, isDone bool) error {
		if len(c.Writes) == number+1 && isDone == done {
			return ErrKilled
		}
		if fault == nil {
			return nil
		}
		return fault(write, isDone)
	}
}

// WritesSince returns the writes after the first ones of a number, as text.
func (c *Cluster) WritesSince(number int) []string {
	var texts []string
	for _, write := range c.Writes[number:] {
		texts = append(texts, write.String())
	}
	return texts
}

// Recorded returns the events since the last call.
func (c *Cluster) Recorded() []string {
	var all []string
	for {
		select {
		case event := <-c.Events.Events:
			all = append(all, event)
		default:
			return all
		}
	}
}

// Pass reconciles a request once. It returns the time after which the request is reconciled again, and the writes.
func (c *Cluster) Pass(reconciler reconcile.Reconciler, request reconcile.Request) (time.Duration, []string) {
	c.t.Helper()
	before := len(c.Writes)
	result, err := reconciler.Reconcile(c.t.Context(), request)
	if err != nil {
		c.t.Fatal(err)
	}
	return result.RequeueAfter, c.WritesSince(before)
}

// Add creates objects with their status, like another client.
func (c *Cluster) Add(objects ...client.Object) {
	c.t.Helper()
	for _, object := range objects {
		object.SetResourceVersion("")
		if err := c.Create(c.t.Context(), object); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Remove deletes an object with its finalizers, if it exists.
func (c *Cluster) Remove(object client.Object) {
	c.t.Helper()
	object = object.DeepCopyObject().(client.Object)
	if !c.Has(object) {
		return
	}
	object.SetFinalizers(nil)
	if err := c.Update(c.t.Context(), object); err != nil {
		c.t.Fatal(err)
	}
	if err := client.IgnoreNotFound(c.Delete(c.t.Context(), object)); err != nil {
		c.t.Fatal(err)
	}
}

// Cache returns a client of the controller that reads only the objects that a cache has.
func (c *Cluster) Cache(has func(client.Object) bool) client.WithWatch {
	return interceptor.NewClient(c.Controller, interceptor.Funcs{
		Get: func(
			ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption,
		) error {
			err := w.Get(ctx, key, object, options...)
			if err == nil && !has(object) {
				err = apierrors.NewNotFound(schema.GroupResource{}, key.Name)
			}
			return err
		},
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := w.List(ctx, list, options...); err != nil {
				return err
			}
			items, err := meta.ExtractList(list)
			if err != nil {
				return err
			}
			return meta.SetList(list, slices.DeleteFunc(items, func(item runtime.Object) bool {
				return !has(item.(client.Object))
			}))
		},
	})
}

// Has reads an object and reports whether there is one.
func (c *Cluster) Has(object client.Object) bool {
	c.t.Helper()
	err := c.Get(c.t.Context(), client.ObjectKeyFromObject(object), object)
	if err != nil && !apierrors.IsNotFound(err) {
		c.t.Fatal(err)
	}
	return err == nil
}

// Read reads an object that has to exist.
func Read[T client.Object](c *Cluster, namespace, name string, object T) T {
	c.t.Helper()
	if err := c.Get(c.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, object); err != nil {
		c.t.Fatal(err)
	}
	return object
}

// List reads the objects of a list's kind.
func List[L client.ObjectList](c *Cluster, list L, options ...client.ListOption) L {
	c.t.Helper()
	if err := c.List(c.t.Context(), list, options...); err != nil {
		c.t.Fatal(err)
	}
	return list
}

// Change changes an object, and then its status, like another client.
func Change[T client.Object](c *Cluster, namespace, name string, object T, change func(T)) {
	c.t.Helper()
	object = Read(c, namespace, name, object)
	change(object)
	status := object.DeepCopyObject().(client.Object)
	if err := c.Update(c.t.Context(), object); err != nil {
		c.t.Fatal(err)
	}
	status.SetResourceVersion(object.GetResourceVersion())
	if err := c.Status().Update(c.t.Context(), status); err != nil && !apierrors.IsNotFound(err) {
		c.t.Fatal(err)
	}
}
