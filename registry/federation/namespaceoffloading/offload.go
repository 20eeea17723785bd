// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaceoffloading

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/subresource"
	"liqo.io/federation/registry/federation/subresource/plan"
)

// OffloadREST serves the subresource offload: POST offloads a namespace to the selected clusters, DELETE unoffloads it.
// A request writes the NamespaceOffloading and returns. Controllers create and delete the remote namespaces later.
type OffloadREST struct {
	offloadings subresource.Parent
	namespaces  corev1client.NamespaceInterface
	plans       plan.Reader
}

// NewOffloadREST returns the subresource offload. offloadings is the store of NamespaceOffloadings, namespaces is the
// client that labels an offloaded namespace, and plans computes the plans of dry runs.
func NewOffloadREST(
	offloadings subresource.Parent, namespaces corev1client.NamespaceInterface, plans plan.Reader,
) *OffloadREST {
	return &OffloadREST{offloadings: offloadings, namespaces: namespaces, plans: plans}
}

// New returns an empty Offload.
func (r *OffloadREST) New() runtime.Object { return &federation.Offload{} }

// Destroy does nothing: the store belongs to the parent resource.
func (r *OffloadREST) Destroy() {}

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate returns true: the API server must not drop uid and
// resourceVersion from the body of a POST, because they are preconditions.
func (r *OffloadREST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

// Get returns the Offload of a NamespaceOffloading.
func (r *OffloadREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	offloading, err := r.get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return offloadOf(offloading), nil
}

// Create offloads the namespace of the request. A repeated request changes nothing. If the NamespaceOffloading exists
// with another spec, it fails with Conflict.
func (r *OffloadREST) Create(
	ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc,
	options *metav1.CreateOptions,
) (runtime.Object, error) {
	offload, ok := obj.(*federation.Offload)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected an Offload, got a %T", obj))
	}
	if err := subresource.CheckName(name, offload); err != nil {
		return nil, err
	}
	if errs := append(validation.ValidateOffloadingName(name), validation.ValidateOffload(offload)...); len(errs) > 0 {
		return nil, apierrors.NewInvalid(offloadKind, name, errs)
	}
	if createValidation != nil {
		if err := createValidation(ctx, offload.DeepCopy()); err != nil {
			return nil, err
		}
	}
	change, err := subresource.Settle(offloadResource, name,
		func() (change, error) { return r.ensure(ctx, name, offload, options) })
	if err != nil {
		return nil, err
	}
	// Admission places new pods only in namespaces with this label. A controller sets the label, too, but may be too late
	// for pods that are created right after this request.
	if err := r.label(ctx, change.offloading.Namespace, options); err != nil {
		return nil, err
	}
	return r.answer(ctx, change, options.DryRun)
}

// change is the effect of a request on a NamespaceOffloading.
type change struct {
	offloading *federation.NamespaceOffloading
	// current is the spec before the request, and requested is the spec after it. A nil spec means that the namespace is
	// not offloaded.
	current, requested *federation.NamespaceOffloadingSpec
}

// answer returns the Offload of change.offloading. In a dry run, its status has the plan.
func (r *OffloadREST) answer(ctx context.Context, change change, dryRun []string) (*federation.Offload, error) {
	offload := offloadOf(change.offloading)
	if !dryrun.IsDryRun(dryRun) {
		return offload, nil
	}
	var err error
	offload.Status.Plan, err = r.plans.Offload(ctx, offload.Namespace, change.current, change.requested)
	return offload, err
}

// ensure creates the NamespaceOffloading, unless it exists with the same spec. It fails with Conflict if it exists with
// another spec, and with TooManyRequests while it is being deleted.
func (r *OffloadREST) ensure(
	ctx context.Context, name string, offload *federation.Offload, options *metav1.CreateOptions,
) (change, error) {
	offloading, err := r.get(ctx, name, &metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if err := subresource.CheckPreconditions(offloadResource, name, offload, nil); err != nil {
			return change{}, err
		}
		requested := &federation.NamespaceOffloading{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: genericapirequest.NamespaceValue(ctx)},
			Spec:       *offload.Spec.DeepCopy(),
		}
		created, err := r.offloadings.Create(ctx, requested, rest.ValidateAllObjectFunc, options)
		if err != nil {
			return change{}, subresource.LostRace(err)
		}
		offloading := created.(*federation.NamespaceOffloading)
		return change{offloading: offloading, requested: &offloading.Spec}, nil
	}
	if err != nil {
		return change{}, err
	}
	if err := subresource.CheckPreconditions(offloadResource, name, offload, offloading); err != nil {
		return change{}, err
	}
	if offloading.DeletionTimestamp != nil {
		return change{}, subresource.Deleting(offloadResource, name)
	}
	if found := differences(&offloading.Spec, &offload.Spec); len(found) > 0 {
		return change{}, subresource.Contradiction(offloadResource, name, found, subresource.ByUpdate)
	}
	return change{offloading: offloading, current: &offloading.Spec, requested: &offloading.Spec}, nil
}

// label sets LabelSchedulingEnabled on an offloaded namespace.
func (r *OffloadREST) label(ctx context.Context, namespace string, options *metav1.CreateOptions) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": map[string]string{v1alpha1.LabelSchedulingEnabled: "true"},
	}})
	if err != nil {
		return err
	}
	if _, err := r.namespaces.Patch(ctx, namespace, types.MergePatchType, patch,
		metav1.PatchOptions{DryRun: options.DryRun}); err != nil {
		return fmt.Errorf("labeling the namespace after storing its NamespaceOffloading: %w", err)
	}
	return nil
}

// Update changes the spec of the NamespaceOffloading.
func (r *OffloadREST) Update(
	ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	if forceAllowCreate {
		return nil, false, subresource.RefuseApply(offloadResource, name, "NamespaceOffloading")
	}
	validate := func(ctx context.Context, obj, old runtime.Object) error {
		if updateValidation == nil {
			return nil
		}
		return updateValidation(ctx, offloadOf(obj.(*federation.NamespaceOffloading)),
			offloadOf(old.(*federation.NamespaceOffloading)))
	}
	update := &offloadUpdate{UpdatedObjectInfo: objInfo, manager: options.FieldManager}
	updated, _, err := r.offloadings.Update(ctx, name, update, rest.ValidateAllObjectFunc, validate, false, options)
	if err != nil {
		return nil, false, err
	}
	offloading := updated.(*federation.NamespaceOffloading)
	answer, err := r.answer(ctx, change{offloading: offloading, current: update.current, requested: &offloading.Spec},
		options.DryRun)
	return answer, false, err
}

// Delete deletes the NamespaceOffloading, and does not wait: controllers remove its finalizer once no pod of the
// namespace runs on a provider and the remote namespaces are deleted.
func (r *OffloadREST) Delete(
	ctx context.Context, name string, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	validate := func(ctx context.Context, obj runtime.Object) error {
		if deleteValidation == nil {
			return nil
		}
		return deleteValidation(ctx, offloadOf(obj.(*federation.NamespaceOffloading)))
	}
	deleted, gone, err := r.offloadings.Delete(ctx, name, validate, options)
	if err != nil {
		return nil, false, err
	}
	terminating, ok := deleted.(*federation.NamespaceOffloading)
	if !ok {
		return deleted, gone, nil
	}
	answer, err := r.answer(ctx, change{offloading: terminating, current: &terminating.Spec}, options.DryRun)
	return answer, gone, err
}

func (r *OffloadREST) get(
	ctx context.Context, name string, options *metav1.GetOptions,
) (*federation.NamespaceOffloading, error) {
	obj, err := r.offloadings.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return obj.(*federation.NamespaceOffloading), nil
}

// ConvertToTable returns the table of an Offload.
func (r *OffloadREST) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return offloadTable.ConvertToTable(ctx, object, options)
}

var (
	_ rest.NamedCreater                   = &OffloadREST{}
	_ rest.Patcher                        = &OffloadREST{}
	_ rest.GracefulDeleter                = &OffloadREST{}
	_ rest.TableConvertor                 = &OffloadREST{}
	_ rest.SubresourceObjectMetaPreserver = &OffloadREST{}
)
