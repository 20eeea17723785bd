// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kittest provides a Cluster for tests of controllers: a fake API server with the kinds, indexes and status
// subresources of a manager of package kit, a fake clock, and recorded events and writes. A test can fail any write, as
// if the process had crashed there.
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

// maxEvents is the maximum number of events between two calls of Recorded.
const maxEvents = 1000

// ErrKilled is the error of the write that Kill selects.
var ErrKilled = errors.New("the process was killed")

// Epoch is the time of a new Cluster's clock.
var Epoch = time.Date(2026, time.November, 26, 12, 0, 0, 0, time.UTC)

// Write is a write of the controller under test.
type Write struct {
	// Verb is create, update, patch, delete or deletecollection. For a subresource, a space and its name follow.
	Verb string
	// Kind, Namespace and Name identify the object. Namespace and Name are empty for deletecollection.
	Kind, Namespace, Name string
}

// String returns verb, kind and name, separated by spaces.
func (w Write) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", w.Verb, w.Kind, w.Name))
}

// Cluster is a fake cluster. Writes through its embedded client, which stands for users and other controllers, are not
// recorded.
type Cluster struct {
	client.WithWatch
	// Controller is the client for the controller under test.
	Controller client.WithWatch
	// Writes are all writes through Controller in their order, including failed ones.
	Writes []Write
	// Fault is called for each write through Controller: with done=false before it is sent, and with done=true after it
	// succeeded. Its error is returned to the controller. Nil injects no errors.
	Fault func(write Write, done bool) error
	// Clock starts at Epoch.
	Clock *clocktesting.FakeClock
	// Events receives the events that the controller records.
	Events *record.FakeRecorder

	t       T
	created int
}

// scheme is shared by all clusters, because creating it is the slowest part of New. The fake client adds unknown kinds
// of unstructured objects to it: in parallel tests that is a data race.
var scheme = sync.OnceValue(kit.NewScheme)

// T is the subset of testing.T and rapid.T that a Cluster needs.
type T interface {
	Helper()
	Fatal(args ...any)
	Context() context.Context
}

// New returns a Cluster that contains objects.
func New(t T, objects ...client.Object) *Cluster {
	t.Helper()
	c := &Cluster{t: t, Clock: clocktesting.NewFakeClock(Epoch), Events: record.NewFakeRecorder(maxEvents)}
	scheme := scheme()
	// The default tracker maintains managed fields, which converts all kinds at each write. No controller uses
	// server-side apply.
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	c.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).WithObjects(objects...).
		WithStatusSubresource(withStatus()...).
		WithIndex(&corev1.Pod{}, kit.IndexClaims, kit.PodClaims).
		WithIndex(&corev1.Pod{}, "spec.nodeName", nodeOf).
		WithIndex(&corev1.Pod{}, "status.phase", phaseOf).
		WithIndex(&corev1.PersistentVolume{}, kit.IndexClaimRef, kit.VolumeClaim).
		WithIndex(&corev1.PersistentVolume{}, kit.IndexMoving, kit.VolumeMoving).
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

// withStatus returns one object of each kind that has the subresource status, for the fake client.
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

// recorded returns interceptors that record each write and call Fault.
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
					// The subresources resize and ephemeralcontainers change the spec, but the fake client would write
					// only the status.
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

// Kill fails the write with this number, counted from 0, with ErrKilled: after it succeeded if done is true, and
// otherwise before it is sent. A Fault that was set before still applies to all other writes.
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

// WritesSince returns all writes from this number on, counted from 0, each as Write.String.
func (c *Cluster) WritesSince(number int) []string {
	var texts []string
	for _, write := range c.Writes[number:] {
		texts = append(texts, write.String())
	}
	return texts
}

// Recorded returns the events since the previous call.
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

// Pass calls Reconcile once, and returns RequeueAfter and the writes of this call. The test fails if Reconcile fails.
func (c *Cluster) Pass(reconciler reconcile.Reconciler, request reconcile.Request) (time.Duration, []string) {
	c.t.Helper()
	before := len(c.Writes)
	result, err := reconciler.Reconcile(c.t.Context(), request)
	if err != nil {
		c.t.Fatal(err)
	}
	return result.RequeueAfter, c.WritesSince(before)
}

// Add creates objects with their status. The writes are not recorded.
func (c *Cluster) Add(objects ...client.Object) {
	c.t.Helper()
	for _, object := range objects {
		object.SetResourceVersion("")
		if err := c.Create(c.t.Context(), object); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Remove deletes an object after removing its finalizers. It does nothing if the object does not exist.
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

// Cache returns a copy of the client Controller that reads only objects for which has returns true, like a cache that
// lags.
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

// Has reads an object into its argument, and reports whether it exists.
func (c *Cluster) Has(object client.Object) bool {
	c.t.Helper()
	err := c.Get(c.t.Context(), client.ObjectKeyFromObject(object), object)
	if err != nil && !apierrors.IsNotFound(err) {
		c.t.Fatal(err)
	}
	return err == nil
}

// Read returns an object. The test fails if it does not exist.
func Read[T client.Object](c *Cluster, namespace, name string, object T) T {
	c.t.Helper()
	if err := c.Get(c.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, object); err != nil {
		c.t.Fatal(err)
	}
	return object
}

// List fills a list and returns it. The test fails if the request fails.
func List[L client.ObjectList](c *Cluster, list L, options ...client.ListOption) L {
	c.t.Helper()
	if err := c.List(c.t.Context(), list, options...); err != nil {
		c.t.Fatal(err)
	}
	return list
}

// Change applies change to an object, and updates the object and then its status. The writes are not recorded.
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
