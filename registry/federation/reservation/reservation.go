// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reservation serves objects that use the quota of a consumer. It reserves the requested amount in a ledger
// before an object is stored.
//
// A quota must hold with any number of concurrent requests, API servers and crashes. But the storage of an API server
// writes one key at a time, and each object has its own key. So each consumer has one ledger, which is changed by
// compare-and-swap. It contains reservations for objects that are about to be stored, and the minimum revision of the
// stored objects from which usage is computed. Each server computes usage from a watch of these objects. A decision is
// valid only for the ledger and the revision that it was based on, so two servers cannot reserve the same amount. Usage
// is never decreased explicitly: a deleted object is no longer in the sum. A crash leaves a reservation, which is
// released later; it never causes an exceeded quota. ADR 11 explains the design.
//
// Its subpackages are the ledgers (ledger), the quota of shadow pods (podquota), the quota of shadow volume claims
// (storagequota), the ResourceOffers that define both quotas (offers), and the ranges of AddressPools (addressrange).
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
	"liqo.io/federation/registry/federation/resource"
	"liqo.io/federation/registry/federation/store"
)

// ConsumerOf returns the name of the ForeignCluster of the consumer that a remote namespace belongs to. remote is false
// for any other namespace, in which objects use no quota.
type ConsumerOf func(ctx context.Context, namespace string) (consumer string, remote bool, err error)

// Kind defines how objects of type P reserve quota in a ledger. Q is the type of the amount that an object requests,
// for example a list of resources.
type Kind[P resource.Object, Q any] struct {
	// Resource is the plural name of the kind in the API.
	Resource string
	// Consumer returns a pointer to the status field with the consumer whose quota an object uses.
	Consumer func(obj P) *string
	// Requests returns the amount that a new object requests.
	Requests func(obj P) Q
	// Grows returns the amount that an updated object requests in addition to old, and whether there is any.
	Grows func(obj, old P) (Q, bool)
	// Refusal returns the API error for an error of the ledger's policy. It returns any other error, and nil,
	// unchanged.
	Refusal func(name string, err error) error
}

// REST serves objects of one kind. It reserves quota for an object after all other checks have admitted the object, and
// before it is stored.
type REST[P resource.Object, Q, T any, S ledger.Sum[S, T]] struct {
	*store.REST
	// ConsumerOf returns the consumer whose quota the objects of a namespace use.
	ConsumerOf ConsumerOf
	kind       Kind[P, Q]
	status     *store.StatusREST
	ledgers    *ledger.Ledgers[Q, T, S]
}

// New returns a REST that stores objects in objects and their status in status, and reserves quota in ledgers.
func New[P resource.Object, Q, T any, S ledger.Sum[S, T]](kind Kind[P, Q], objects *store.REST,
	status *store.StatusREST,
	ledgers *ledger.Ledgers[Q, T, S], consumerOf ConsumerOf,
) *REST[P, Q, T, S] {
	return &REST[P, Q, T, S]{REST: objects, ConsumerOf: consumerOf, kind: kind, status: status, ledgers: ledgers}
}

// Tend assigns objects without a consumer to the consumer of their namespace, until ctx is done. Such objects were
// created before their namespace became a remote namespace.
func (r *REST[P, Q, T, S]) Tend(ctx context.Context) {
	r.ledgers.Regularly(ctx, func(ctx context.Context) {
		for _, obj := range r.ledgers.Unassigned() {
			if err := r.attribute(ctx, obj); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Unable to set the consumer of an object, will retry",
					"resource", r.kind.Resource, "object", obj)
			}
		}
	})
}

// attribute writes the consumer into the status of an object in a remote namespace. The object uses quota from then on,
// even if the quota is exceeded.
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

// Create stores an object if it does not exceed the quota of its consumer. It fails with the error of Kind.Refusal
// otherwise.
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

// Update updates an object if its additional request does not exceed the quota of its consumer. It fails with the error
// of Kind.Refusal otherwise. Server-side apply creates an object that does not exist, with the same errors as Create.
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

// grow returns an update validation that reserves what the object requests in addition. It must be the last validation
// before the object is stored.
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
		return r.kind.refusal(consumer, updated.GetName(), err)
	}
}

// uncounted returns Forbidden for an object in a remote namespace whose status does not name the consumer yet (see
// attribute), and nil for objects in other namespaces.
func (r *REST[P, Q, T, S]) uncounted(ctx context.Context, obj P) error {
	_, remote, err := r.ConsumerOf(ctx, obj.GetNamespace())
	if err != nil || !remote {
		return err
	}
	return apierrors.NewForbidden(federation.Resource(r.kind.Resource), obj.GetName(),
		errors.New("status.foreignCluster, which names the consumer, is not set yet: retry in a minute"))
}
