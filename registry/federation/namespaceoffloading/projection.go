// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaceoffloading

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/store"
	"liqo.io/federation/registry/federation/subresource"
)

var (
	offloadResource = federation.Resource("namespaceoffloadings/offload")
	offloadKind     = federation.Kind("Offload")
)

// offloadOf returns the Offload of a NamespaceOffloading, the object of the subresource offload.
func offloadOf(offloading *federation.NamespaceOffloading) *federation.Offload {
	return &federation.Offload{
		ObjectMeta: subresource.Metadata(offloading),
		Spec:       *offloading.Spec.DeepCopy(),
		Status:     federation.OffloadStatus{NamespaceOffloadingStatus: *offloading.Status.DeepCopy()},
	}
}

// differences returns the fields in which a requested spec contradicts the current one.
func differences(current, requested *federation.NamespaceOffloadingSpec) []subresource.Difference {
	var found []subresource.Difference
	if current.NamespaceMappingStrategy != requested.NamespaceMappingStrategy {
		found = append(found, subresource.Differs("spec.namespaceMappingStrategy", current.NamespaceMappingStrategy,
			requested.NamespaceMappingStrategy))
	}
	if current.RemoteNamespaceName != requested.RemoteNamespaceName {
		found = append(found, subresource.Differs("spec.remoteNamespaceName", current.RemoteNamespaceName,
			requested.RemoteNamespaceName))
	}
	if current.PodOffloadingStrategy != requested.PodOffloadingStrategy {
		found = append(found, subresource.Differs("spec.podOffloadingStrategy", current.PodOffloadingStrategy,
			requested.PodOffloadingStrategy))
	}
	if current.Enforcement != requested.Enforcement {
		found = append(found, subresource.Differs("spec.enforcement", current.Enforcement, requested.Enforcement))
	}
	if current.Volumes.OnUnoffload != requested.Volumes.OnUnoffload {
		found = append(found, subresource.Differs("spec.volumes.onUnoffload", current.Volumes.OnUnoffload,
			requested.Volumes.OnUnoffload))
	}
	if !apiequality.Semantic.DeepEqual(current.ClusterSelector, requested.ClusterSelector) {
		found = append(found, subresource.Difference{Field: "spec.clusterSelector", Message: "selects other clusters"})
	}
	return found
}

// offloadUpdate translates the update of an Offload into an update of its NamespaceOffloading.
type offloadUpdate struct {
	rest.UpdatedObjectInfo
	// manager is the field manager of the request.
	manager string
	// current is the spec before the update; UpdatedObject sets it.
	current *federation.NamespaceOffloadingSpec
}

// UpdatedObject returns a copy of old, a NamespaceOffloading, with the requested changes of its Offload. It fails with
// Conflict if a precondition of the request is not met or another field manager applied a changed field, and with
// Invalid if the result is invalid.
func (u *offloadUpdate) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	offloading := old.DeepCopyObject().(*federation.NamespaceOffloading)
	obj, err := u.UpdatedObjectInfo.UpdatedObject(ctx, offloadOf(offloading))
	if err != nil {
		return nil, err
	}
	offload, ok := obj.(*federation.Offload)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected an Offload, got a %T", obj))
	}
	if err := subresource.CheckName(offloading.Name, offload); err != nil {
		return nil, err
	}
	if err := subresource.CheckPreconditions(offloadResource, offloading.Name, offload, offloading); err != nil {
		return nil, err
	}
	if errs := validation.ValidateOffload(offload); len(errs) > 0 {
		return nil, apierrors.NewInvalid(offloadKind, offloading.Name, errs)
	}
	u.current = offloading.Spec.DeepCopy()
	offloading.Spec = *offload.Spec.DeepCopy()
	return offloading, checkManagers(u.manager, old.(*federation.NamespaceOffloading), offloading)
}

// checkManagers fails with Conflict if the request changes a field that another field manager applied.
func checkManagers(manager string, current, requested *federation.NamespaceOffloading) error {
	before, after := &v1alpha1.NamespaceOffloading{}, &v1alpha1.NamespaceOffloading{}
	if err := v1alpha1.Convert_federation_NamespaceOffloading_To_v1alpha1_NamespaceOffloading(current, before,
		nil); err != nil {
		return apierrors.NewInternalError(err)
	}
	if err := v1alpha1.Convert_federation_NamespaceOffloading_To_v1alpha1_NamespaceOffloading(requested, after,
		nil); err != nil {
		return apierrors.NewInternalError(err)
	}
	return subresource.CheckManagers(offloadResource, manager, before, after)
}

// offloadTable has the columns that kubectl prints for an Offload. NamespaceOffloadings have the same columns and more.
var offloadTable = store.Table[*federation.Offload]{
	{Name: "Mapping", Description: "strategy that determines the names of the remote namespaces",
		Cell: func(o *federation.Offload) any {
			return string(o.Spec.NamespaceMappingStrategy)
		}},
	{Name: "Pods", Description: "whether pods may run locally, on providers, or both",
		Cell: func(o *federation.Offload) any {
			return string(o.Spec.PodOffloadingStrategy)
		}},
	{Name: "Phase", Description: "phase of the offloading", Cell: func(o *federation.Offload) any {
		return offloadingPhase(o.DeletionTimestamp != nil, o.Status.Phase)
	}},
}
