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

// offloadOf is the view of a namespace offloading that the verb offload works
// on.
func offloadOf(offloading *federation.NamespaceOffloading) *federation.Offload {
	return &federation.Offload{
		ObjectMeta: subresource.Metadata(offloading),
		Spec:       *offloading.Spec.DeepCopy(),
		Status:     federation.OffloadStatus{NamespaceOffloadingStatus: *offloading.Status.DeepCopy()},
	}
}

// differences tells in what a request contradicts the offloading.
func differences(is, wanted *federation.NamespaceOffloadingSpec) []subresource.Difference {
	var found []subresource.Difference
	if is.NamespaceMappingStrategy != wanted.NamespaceMappingStrategy {
		found = append(found, subresource.Differs("spec.namespaceMappingStrategy", is.NamespaceMappingStrategy,
			wanted.NamespaceMappingStrategy))
	}
	if is.RemoteNamespaceName != wanted.RemoteNamespaceName {
		found = append(found, subresource.Differs("spec.remoteNamespaceName", is.RemoteNamespaceName,
			wanted.RemoteNamespaceName))
	}
	if is.PodOffloadingStrategy != wanted.PodOffloadingStrategy {
		found = append(found, subresource.Differs("spec.podOffloadingStrategy", is.PodOffloadingStrategy,
			wanted.PodOffloadingStrategy))
	}
	if is.Enforcement != wanted.Enforcement {
		found = append(found, subresource.Differs("spec.enforcement", is.Enforcement, wanted.Enforcement))
	}
	if is.Volumes.OnUnoffload != wanted.Volumes.OnUnoffload {
		found = append(found, subresource.Differs("spec.volumes.onUnoffload", is.Volumes.OnUnoffload,
			wanted.Volumes.OnUnoffload))
	}
	if !apiequality.Semantic.DeepEqual(is.ClusterSelector, wanted.ClusterSelector) {
		found = append(found, subresource.Difference{Field: "spec.clusterSelector", Message: "selects other clusters"})
	}
	return found
}

// offloadUpdate turns an update of the view into one of the offloading.
type offloadUpdate struct {
	rest.UpdatedObjectInfo
	// manager is who sends the request.
	manager string
	// is is the spec that was updated, once it was.
	is *federation.NamespaceOffloadingSpec
}

// UpdatedObject applies the request to the view of old, and that to old.
func (u *offloadUpdate) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	offloading := old.DeepCopyObject().(*federation.NamespaceOffloading)
	obj, err := u.UpdatedObjectInfo.UpdatedObject(ctx, offloadOf(offloading))
	if err != nil {
		return nil, err
	}
	offload, ok := obj.(*federation.Offload)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("an Offload is expected here, not a %T", obj))
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
	u.is = offloading.Spec.DeepCopy()
	offloading.Spec = *offload.Spec.DeepCopy()
	return offloading, checkManagers(u.manager, old.(*federation.NamespaceOffloading), offloading)
}

// checkManagers refuses to change what another manager applies.
func checkManagers(manager string, is, wanted *federation.NamespaceOffloading) error {
	before, after := &v1alpha1.NamespaceOffloading{}, &v1alpha1.NamespaceOffloading{}
	if err := v1alpha1.Convert_federation_NamespaceOffloading_To_v1alpha1_NamespaceOffloading(is, before,
		nil); err != nil {
		return apierrors.NewInternalError(err)
	}
	if err := v1alpha1.Convert_federation_NamespaceOffloading_To_v1alpha1_NamespaceOffloading(wanted, after,
		nil); err != nil {
		return apierrors.NewInternalError(err)
	}
	return subresource.CheckManagers(offloadResource, manager, before, after)
}

// offloadTable prints the view as its parent is printed.
var offloadTable = store.Table[*federation.Offload]{
	{Name: "Mapping", Description: "how the twin namespaces are named", Cell: func(o *federation.Offload) any {
		return string(o.Spec.NamespaceMappingStrategy)
	}},
	{Name: "Pods", Description: "where pods may run", Cell: func(o *federation.Offload) any {
		return string(o.Spec.PodOffloadingStrategy)
	}},
	{Name: "Phase", Description: "how the extension of the namespace stands", Cell: func(o *federation.Offload) any {
		return offloadingPhase(o.DeletionTimestamp != nil, o.Status.Phase)
	}},
}
