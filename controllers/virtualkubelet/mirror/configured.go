// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// configuredKinds returns the kinds in status.reflectedKinds of a VirtualNode, without kinds that its spec no longer
// contains: the status may be older than the spec.
func configuredKinds(node *v1alpha1.VirtualNode) []kind {
	var result []kind
	for _, can := range node.Status.ReflectedKinds {
		if slices.ContainsFunc(node.Spec.Reflection.Kinds, func(named v1alpha1.ReflectedKind) bool {
			return named.Group == can.Group && named.Resource == can.Resource
		}) {
			result = append(result, configuredKind(schema.GroupVersionResource(can)))
		}
	}
	return result
}

func configuredKind(resource schema.GroupVersionResource) kind {
	return kind{
		name: resource.GroupResource().String(), resource: resource.GroupResource(), version: resource.Version,
		reflector: newConfigured,
	}
}

// newConfigured returns the reflector of a kind that the VirtualNode's reflection policy configures, for one namespace.
func newConfigured(k kind, c *Controller, namespace, remote string) (reflector, error) {
	resource := k.resource.WithVersion(k.version)
	selector := labels.SelectorFromSet(c.To.ReflectedLabels()).String()
	reflected := func(options *metav1.ListOptions) { options.LabelSelector = selector }
	informer := dynamicinformer.NewFilteredDynamicInformer
	o := &configured{
		locals: c.LocalDynamic.Resource(resource).Namespace(namespace),
		objects: &objects[*unstructured.Unstructured, *unstructured.Unstructured]{
			kind: k,
			translation: translation[*unstructured.Unstructured, *unstructured.Unstructured]{
				translate: translate.Configured, update: translate.UpdateConfigured, remoteName: same, localName: same,
			},
			controller: c, namespace: namespace, remote: remote,
			local:     informer(c.LocalDynamic, resource, namespace, 0, cache.Indexers{}, nil).Informer(),
			reflected: informer(c.RemoteDynamic, resource, remote, 0, cache.Indexers{}, reflected).Informer(),
			client:    dynamicClient{c.RemoteDynamic.Resource(resource).Namespace(remote)},
		},
	}
	return o, o.watch()
}

// configured reflects the objects of a configured kind in one namespace, and copies the statuses of reflected objects
// to the local objects.
type configured struct {
	*objects[*unstructured.Unstructured, *unstructured.Unstructured]
	locals dynamic.ResourceInterface
	// writtenStatuses maps the name of a reflected object to its status that was last written to the local object. A
	// status that another writer changes afterwards is not restored: if a namespace is offloaded to several clusters, the
	// last writer wins.
	writtenStatuses syncMap[string, writtenStatus]
	// ending is true while the reflected objects are deleted because the kind is no longer configured.
	ending atomic.Bool
}

// writtenStatus is the resourceVersion of a reflected object whose status was written to the local object, and the time
// of the last attempt to write a status.
type writtenStatus struct {
	version string
	at      time.Time
}

// statusInterval is the minimum time between two writes of the status of one object. statusBytesPerSecond is the
// maximum size of all statuses that are written per second, after statusBytesAtOnce.
const (
	statusInterval       = time.Second
	statusBytesPerSecond = 1 << 20
	statusBytesAtOnce    = 32 << 20
)

// end makes reconcile delete the reflected objects. It reports whether the reflector can be stopped: its cache is
// filled, and has no reflected object.
func (o *configured) end() bool {
	o.ending.Store(true)
	return o.synced() && len(o.reflected.GetStore().ListKeys()) == 0
}

// keys returns the keys of all objects, and a key with an empty name, for which reconcile checks whether all reflected
// objects are deleted.
func (o *configured) keys() []reflectionKey { return append(o.objects.keys(), o.key("")) }

func (o *configured) reconcile(ctx context.Context, key reflectionKey) (time.Duration, error) {
	if o.ending.Load() {
		return 0, o.withdraw(ctx, key)
	}
	if key.Name == "" {
		return 0, nil
	}
	local := remotens.Lookup[*unstructured.Unstructured](o.local.GetStore(), o.namespace, key.Name)
	if local != nil && o.controller.policy(o.resource).Reflects(local) {
		if size := translate.ReflectedSize(local); size > translate.MaxReflectedSize {
			o.recordOnce(key, local, ReasonReflectionRefused, fmt.Sprintf(
				"The object is not reflected to %s: it has %d bytes without its metadata, and the limit is %d bytes. "+
					"An existing reflected object is not updated.",
				o.controller.Provider, size, translate.MaxReflectedSize,
			))
			return 0, nil
		}
	}
	if again, err := o.objects.reconcile(ctx, key); err != nil || again > 0 {
		return again, err
	}
	return o.writeStatus(ctx, key)
}

// withdraw deletes the reflected object of a kind that is no longer configured, and stops the reflector when none
// remains. An object that the provider forbids to delete remains until the remote namespace is deleted.
func (o *configured) withdraw(ctx context.Context, key reflectionKey) error {
	existing := remotens.Lookup[*unstructured.Unstructured](o.reflected.GetStore(), o.remote, key.Name)
	if existing != nil && existing.GetDeletionTimestamp() == nil {
		if err := o.delete(ctx, key, existing); err != nil && !apierrors.IsForbidden(err) {
			return err
		}
	}
	o.controller.lastEvents.Delete(key)
	if len(o.reflected.GetStore().ListKeys()) == 0 {
		o.controller.ended(o)
	}
	return nil
}

// writeStatus copies the status of a reflected object to the local object, once per resourceVersion of the reflected
// object. It returns the time after which to call it again, if statuses change more often than they are written. It
// fails if the update fails.
func (o *configured) writeStatus(ctx context.Context, key reflectionKey) (time.Duration, error) {
	local := remotens.Lookup[*unstructured.Unstructured](o.local.GetStore(), o.namespace, key.Name)
	existing := remotens.Lookup[*unstructured.Unstructured](o.reflected.GetStore(), o.remote, key.Name)
	if local == nil {
		o.writtenStatuses.Delete(key.Name)
		return 0, nil
	}
	last, _ := o.writtenStatuses.Load(key.Name)
	if existing == nil {
		// The provider may have deleted it, and must not write more often by that.
		o.writtenStatuses.Swap(key.Name, writtenStatus{at: last.at})
		return 0, nil
	}
	if last.version == existing.GetResourceVersion() {
		return 0, nil
	}
	of := reflectionKey{resource: key.resource + "/status", ObjectName: key.ObjectName}
	if size := translate.RemoteStatusSize(existing); size > translate.MaxReflectedSize {
		o.recordOnce(of, local, ReasonReflectionRefused, fmt.Sprintf(
			"The status of the reflected object on %s is not copied: it has %d bytes, and the limit is %d bytes.",
			o.controller.Provider, size, translate.MaxReflectedSize,
		))
		return 0, nil
	}
	now := o.controller.Clock.Now()
	if changed := translate.WithRemoteStatus(local, existing); changed != nil {
		if wait := last.at.Add(statusInterval).Sub(now); wait > 0 {
			return wait, nil
		}
		if !o.controller.statusBytes.AllowN(now, translate.RemoteStatusSize(existing)) {
			return statusInterval, nil
		}
		last.at = now
		o.writtenStatuses.Swap(key.Name, last)
		_, err := o.locals.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
		switch {
		case err == nil:
			klog.FromContext(ctx).V(2).Info("Wrote the status of a reflected object", "object", klog.KObj(changed))
		case apierrors.IsNotFound(err):
			// The local object was deleted, or its kind has no status subresource.
		case remote.Refused(err):
			o.recordOnce(
				of,
				local,
				ReasonReflectionRefused,
				fmt.Sprintf(
					"The status of the reflected object on %s is not copied, because the API server refuses it: %v",
					o.controller.Provider, err,
				),
			)
			fallthrough
		default:
			return 0, fmt.Errorf("writing the status of %s on %s to the local object: %w", key, o.controller.Provider, err)
		}
	}
	o.controller.lastEvents.Delete(of)
	o.writtenStatuses.Swap(key.Name, writtenStatus{existing.GetResourceVersion(), last.at})
	return 0, nil
}

// dynamicClient implements client. The methods of a dynamic client have an additional parameter for subresources.
type dynamicClient struct{ dynamic.ResourceInterface }

func (c dynamicClient) Get(
	ctx context.Context,
	name string,
	options metav1.GetOptions,
) (*unstructured.Unstructured, error) {
	return c.ResourceInterface.Get(ctx, name, options)
}

func (c dynamicClient) Create(
	ctx context.Context,
	obj *unstructured.Unstructured,
	options metav1.CreateOptions,
) (*unstructured.Unstructured, error) {
	return c.ResourceInterface.Create(ctx, obj, options)
}

func (c dynamicClient) Update(
	ctx context.Context,
	obj *unstructured.Unstructured,
	options metav1.UpdateOptions,
) (*unstructured.Unstructured, error) {
	return c.ResourceInterface.Update(ctx, obj, options)
}

func (c dynamicClient) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	return c.ResourceInterface.Delete(ctx, name, options)
}
