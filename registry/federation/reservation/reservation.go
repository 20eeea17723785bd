// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reservation serves objects that count against the quota of a consumer: what an
// object requests is reserved in a ledger before the object is stored.
//
// A quota must hold whatever the number of requests, API servers and crashes, but a
// transaction of etcd covers one key, and each object is a key of its own. So there is one
// ledger for each consumer, which is changed by compare-and-swap. It holds reservations for
// objects that are about to be stored, and the minimum revision of the stored objects to
// sum up; each server keeps that sum by watching them. A decision
// holds only for the ledger and the revision it was made from, so no two servers reserve
// the same twice. Nothing is ever subtracted: an object that is gone is no longer in the
// sum, and a crash leaves a reservation behind, which is released later, never a quota that
// is exceeded. ADR 11 has the argument in full.
//
// The packages below are the ledgers themselves (ledger), the quota of shadow pods
// (podquota) and of shadow volume claims (storagequota), the offers that both are granted
// by (offers), and the ranges of address pools (addressrange).
package reservation

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/reservation/ledger"
	"liqo.io/federation/registry/federation/store"
	"liqo.io/federation/registry/federation/strategy"
)

// ConsumerOf reports whether a namespace is a remote namespace, and returns the consumer
// that it belongs to, the name of its ForeignCluster. Objects in other namespaces do
// not count.
type ConsumerOf func(ctx context.Context, namespace string) (consumer string, remote bool, err error)

// Kind describes the objects P of one kind, which request a Q.
type Kind[P strategy.Object, Q any] struct {
	// Resource is the plural name in the API.
	Resource string
	// Consumer returns the field that names the consumer which an object counts against.
	Consumer func(obj P) *string
	// Requests returns what a new object requests.
	Requests func(obj P) Q
	// Grows returns what a new version of an object requests in addition, and reports
	// whether it requests anything.
	Grows func(obj, old P) (Q, bool)
	// Refusal returns the answer to a request that the ledger refused with an error, and
	// any other error unchanged.
	Refusal func(name string, err error) error
}

// REST serves objects of one kind. What an object requests is reserved after all other
// checks have admitted it, and before it is stored.
type REST[P strategy.Object, Q, T any, S ledger.Sum[S, T]] struct {
	*store.REST
	// ConsumerOf decides whether an object counts, and against which consumer.
	ConsumerOf ConsumerOf
	kind       Kind[P, Q]
	status     *store.StatusREST
	ledgers    *ledger.Ledgers[Q, T, S]
}

// New returns the storage of a kind whose objects are stored in objects, their status
// in status, and what they request in ledgers.
func New[P strategy.Object, Q, T any, S ledger.Sum[S, T]](kind Kind[P, Q], objects *store.REST,
	status *store.StatusREST,
	ledgers *ledger.Ledgers[Q, T, S], consumerOf ConsumerOf,
) *REST[P, Q, T, S] {
	return &REST[P, Q, T, S]{REST: objects, ConsumerOf: consumerOf, kind: kind, status: status, ledgers: ledgers}
}

// Tend counts objects that were created before their namespace became a remote
// namespace, until the context ends.
func (r *REST[P, Q, T, S]) Tend(ctx context.Context) {
	r.ledgers.Regularly(ctx, func(ctx context.Context) {
		for _, obj := range r.ledgers.Unassigned() {
			if err := r.attribute(ctx, obj); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Unable to count an object, will retry",
					"resource", r.kind.Resource, "object", obj)
			}
		}
	})
}

// attribute writes the consumer into the status of an object in a remote namespace. It
// counts from then on, also beyond the quota.
func (r *REST[P, Q, T, S]) attribute(ctx context.Context, obj types.NamespacedName) error {
	consumer, remote, err := r.ConsumerOf(ctx, obj.Namespace)
	if apierrors.IsNotFound(err) || err == nil && (!remote || consumer == "") {
		return nil
	}
	if err != nil {
		return err
	}
	changed := func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		changed := old.DeepCopyObject().(P)
		if field := r.kind.Consumer(changed); *field == "" {
			*field = consumer
		}
		return changed, nil
	}
	_, _, err = r.status.Update(genericapirequest.WithNamespace(ctx, obj.Namespace), obj.Name,
		rest.DefaultUpdatedObjectInfo(nil, changed),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// Create stores an object if the quota of its consumer has room for it.
func (r *REST[P, Q, T, S]) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc,
	options *metav1.CreateOptions,
) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, ledger.CreateTimeout)
	defer cancel()
	creation, err := r.begin(ctx, dryrun.IsDryRun(options.DryRun), createValidation)
	if err != nil {
		return nil, err
	}
	created, err := r.REST.Create(creation.context(ctx), obj, creation.reserve, options)
	creation.End(created, err)
	return created, err
}

// Update changes an object if the quota of its consumer has room for what it requests
// in addition. Server-side apply may create one.
func (r *REST[P, Q, T, S]) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo,
	createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, ledger.CreateTimeout)
	defer cancel()
	dry := dryrun.IsDryRun(options.DryRun)
	creation := &creation[P, Q, T, S]{Creation: r.ledgers.Begin(dry), kind: &r.kind, validation: createValidation}
	if forceAllowCreate {
		var err error
		if creation, err = r.begin(ctx, dry, createValidation); err != nil {
			return nil, false, err
		}
	}
	updated, created, err := r.REST.Update(creation.context(ctx), name, objInfo, creation.reserve,
		r.grow(creation, updateValidation), forceAllowCreate, options)
	creation.End(updated, err)
	return updated, created, err
}

// grow returns a validation that reserves what an object requests in addition, as the
// last one before the object is stored.
func (r *REST[P, Q, T, S]) grow(c *creation[P, Q, T, S],
	validation rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		c.Drop()
		if validation != nil {
			if err := validation(ctx, obj, old); err != nil {
				return err
			}
		}
		updated, before := obj.(P), old.(P)
		if updated.GetGeneration() == before.GetGeneration() {
			return nil
		}
		more, grows := r.kind.Grows(updated, before)
		if !grows {
			return nil
		}
		consumer := *r.kind.Consumer(before)
		if consumer == "" {
			return r.uncounted(ctx, updated)
		}
		_, err := c.Grow(ctx, consumer, before, more)
		return r.kind.Refusal(updated.GetName(), err)
	}
}

// uncounted returns an error for an object in a remote namespace that grows before it was
// counted, see attribute. In other namespaces it may grow.
func (r *REST[P, Q, T, S]) uncounted(ctx context.Context, obj P) error {
	_, remote, err := r.ConsumerOf(ctx, obj.GetNamespace())
	if err != nil || !remote {
		return err
	}
	return apierrors.NewForbidden(federation.Resource(r.kind.Resource), obj.GetName(),
		errors.New("status.foreignCluster is not set yet, which names the consumer to charge: retry in a minute"))
}
