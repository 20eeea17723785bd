// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addressmapping

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	"liqo.io/federation/apiserver/addresses"
	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/reservation/addressrange"
	"liqo.io/federation/registry/federation/reservation/ledger"
	"liqo.io/federation/registry/federation/store"
)

// REST serves AddressMappings. It reserves a range for a new mapping before validating admission, and keeps the
// reservation until the mapping is stored or refused.
type REST struct {
	*store.REST
	addresses *addressrange.Addresses
}

// Create stores a mapping and sets spec.mapped to the allocated range. It fails with Forbidden if no range can be
// allocated, and with Invalid if the pool does not exist.
func (r *REST) Create(
	ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, ledger.CreateTimeout)
	defer cancel()
	creation := r.addresses.Begin(dryrun.IsDryRun(options.DryRun))
	created, err := r.REST.Create(context.WithValue(ctx, creationKey{}, creation), obj, createValidation, options)
	creation.End(created, err)
	return created, err
}

// Update changes ports or metadata of a mapping. Server-side apply creates a mapping that does not exist, with the same
// errors as Create.
func (r *REST) Update(
	ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, ledger.CreateTimeout)
	defer cancel()
	creation := r.addresses.Begin(dryrun.IsDryRun(options.DryRun))
	updated, created, err := r.REST.Update(context.WithValue(ctx, creationKey{}, creation), name, objInfo,
		createValidation, updateValidation, forceAllowCreate, options)
	creation.End(updated, err)
	return updated, created, err
}

// creationKey is the context key of the *addressrange.Creation of a request.
type creationKey struct{}

// begin reserves a range for a new mapping and sets spec.mapped to it. For an invalid mapping it does nothing, because
// the validation that follows returns the errors.
func begin(ctx context.Context, obj runtime.Object, _ *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
	finish := func(context.Context, bool) {}
	mapping, ok := obj.(*federation.AddressMapping)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected an AddressMapping, got a %T", obj))
	}
	creation, ok := ctx.Value(creationKey{}).(*addressrange.Creation)
	if !ok {
		return nil, apierrors.NewInternalError(errors.New("reserving a range: the context of the request has no Creation"))
	}
	if len(validation.ValidateAddressMapping(mapping)) > 0 {
		return finish, nil
	}
	request, err := requestOf(&mapping.Spec)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	allocated, err := creation.Reserve(ctx, addressrange.Account, mapping.UID, request)
	if err != nil {
		return nil, refusal(mapping, err)
	}
	if mapping.Spec.Mapped = allocated.Prefix.String(); mapping.Spec.Address != "" {
		mapping.Spec.Mapped = allocated.Prefix.Addr().String()
	}
	return finish, nil
}

// requestOf returns the allocation request for a mapping. If spec.mapped is set, the request permits only that range.
// Otherwise a CIDR is mapped to itself if it is free, unless spec.remap is true. An address is always mapped to an
// address of the pool.
func requestOf(spec *federation.AddressMappingSpec) (addressrange.Request, error) {
	request := addressrange.Request{Pool: spec.Pool}
	request.Chance = rand.Uint32()
	var err error
	if request.Range, err = addressrange.Prefix(spec.CIDR + spec.Address); err != nil {
		return request, err
	}
	request.Keep = spec.CIDR != "" && !spec.Remap
	if spec.Mapped != "" {
		request.Exact, err = addressrange.Prefix(spec.Mapped)
	}
	return request, err
}

// refusal returns the API error of a failed allocation. It is Invalid if the pool does not exist. If the pool is
// exhausted or the requested range is in use, it is Forbidden with a cause, like an exceeded ResourceQuota: clients
// would retry TooManyRequests without reporting the reason. Any other error is returned unchanged.
func refusal(mapping *federation.AddressMapping, err error) error {
	var cause metav1.StatusCause
	var exhausted *addresses.ErrExhausted
	var taken *addresses.ErrTaken
	var none *addressrange.ErrNoPool
	switch {
	case errors.As(err, &none):
		return apierrors.NewInvalid(v1alpha1.Kind("AddressMapping"), mapping.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "pool"), mapping.Spec.Pool,
				"must be the name of an AddressPool: kubectl get addresspools lists them; default and external exist with the "+
					"value network.enabled"),
		})
	case errors.As(err, &exhausted):
		cause = metav1.StatusCause{Type: v1alpha1.CauseAddressesExhausted, Field: "spec.pool",
			Message: fmt.Sprintf("AddressPool %s: %v: delete mappings that are not needed, or add a CIDR to the pool",
				mapping.Spec.Pool, exhausted)}
	case errors.As(err, &taken):
		cause = metav1.StatusCause{Type: v1alpha1.CauseAddressTaken, Field: "spec.mapped",
			Message: fmt.Sprintf("AddressPool %s: %v: leave spec.mapped empty to get another range",
				mapping.Spec.Pool, taken)}
	default:
		return err
	}
	answer := apierrors.NewForbidden(federation.Resource("addressmappings"), mapping.Name, errors.New(cause.Message))
	answer.ErrStatus.Details.Causes = []metav1.StatusCause{cause}
	return answer
}

var (
	_ rest.Creater  = &REST{}
	_ rest.Updater  = &REST{}
	_ ledger.Source = &REST{}
)
