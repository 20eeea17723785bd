// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/plan/move"
)

// Move returns the plan for moving the data of a VirtualVolume. If the data cannot be moved, it returns all reasons as
// field errors instead. It fails if an object cannot be read.
func (r Reader) Move(
	ctx context.Context, volume *federation.VirtualVolume, spec *federation.MoveSpec,
) (*federation.MovePlan, field.ErrorList, error) {
	request := move.Request{Volume: &v1alpha1.VirtualVolume{}}
	if err := v1alpha1.Convert_federation_MoveSpec_To_v1alpha1_MoveSpec(spec.DeepCopy(), &request.Spec, nil); err != nil {
		return nil, nil, err
	}
	err := v1alpha1.Convert_federation_VirtualVolume_To_v1alpha1_VirtualVolume(volume.DeepCopy(), request.Volume, nil)
	if err != nil {
		return nil, nil, err
	}
	if err := r.claim(ctx, &request); err != nil {
		return nil, nil, err
	}
	if err := r.surroundings(ctx, &request); err != nil {
		return nil, nil, err
	}
	if request.Providers, err = r.providers(ctx); err != nil {
		return nil, nil, err
	}
	if request.Offloading, err = r.offloading(ctx, volume.Namespace); err != nil {
		return nil, nil, err
	}
	if request.Stored, err = r.stored(ctx); err != nil {
		return nil, nil, err
	}
	var more bool
	if request.Pods, more, err = r.pods(ctx, volume.Namespace); err != nil {
		return nil, nil, err
	}
	plan, errs := request.Plan()
	if len(errs) > 0 {
		return nil, errs, nil
	}
	if more {
		plan.Unknown = append(plan.Unknown, fmt.Sprintf("whether pods beyond the first %d of the namespace mount the claim",
			maxPods))
	}
	internal := &federation.MovePlan{}
	return internal, nil, v1alpha1.Convert_v1alpha1_MovePlan_To_federation_MovePlan(plan, internal, nil)
}

// claim sets the claim of a request, its PersistentVolume and the StorageClasses of this cluster.
func (r Reader) claim(ctx context.Context, request *move.Request) error {
	core, volume := r.Kube.CoreV1(), request.Volume
	var err error
	request.Claim, err = found(core.PersistentVolumeClaims(volume.Namespace).Get(ctx, volume.Name, metav1.GetOptions{}))
	if err != nil {
		return err
	}
	if request.Claim != nil && request.Claim.Spec.VolumeName != "" {
		name := request.Claim.Spec.VolumeName
		request.PersistentVolume, err = found(core.PersistentVolumes().Get(ctx, name, metav1.GetOptions{}))
		if err != nil {
			return err
		}
	}
	classes, err := r.Kube.StorageV1().StorageClasses().List(ctx, fromCache())
	if err != nil {
		return unread("the storage classes", err)
	}
	request.Classes = pointers(classes.Items)
	return nil
}

// surroundings sets the PodDisruptionBudgets, ResourceQuotas, NetworkPolicies and Nodes of a request.
func (r Reader) surroundings(ctx context.Context, request *move.Request) error {
	namespace := request.Volume.Namespace
	budgets, err := r.Kube.PolicyV1().PodDisruptionBudgets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return unread("the PodDisruptionBudgets", err)
	}
	quotas, err := r.Kube.CoreV1().ResourceQuotas(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return unread("the ResourceQuotas", err)
	}
	policies, err := r.Kube.NetworkingV1().NetworkPolicies(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return unread("the NetworkPolicies", err)
	}
	nodes, err := r.Kube.CoreV1().Nodes().List(ctx, fromCache())
	if err != nil {
		return unread("the nodes", err)
	}
	request.Budgets, request.Quotas = pointers(budgets.Items), pointers(quotas.Items)
	request.Policies, request.Nodes = pointers(policies.Items), pointers(nodes.Items)
	return nil
}

// offloading returns the NamespaceOffloading of a namespace; nil if it does not exist.
func (r Reader) offloading(ctx context.Context, namespace string) (*v1alpha1.NamespaceOffloading, error) {
	obj, err := r.Offloadings.List(genericapirequest.WithNamespace(ctx, namespace), &metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range obj.(*federation.NamespaceOffloadingList).Items {
		found := &obj.(*federation.NamespaceOffloadingList).Items[i]
		if found.Namespace != namespace || found.Name != v1alpha1.NamespaceOffloadingName {
			continue
		}
		offloading := &v1alpha1.NamespaceOffloading{}
		return offloading, v1alpha1.Convert_federation_NamespaceOffloading_To_v1alpha1_NamespaceOffloading(found,
			offloading, nil)
	}
	return nil, nil
}

// stored returns the usage of each provider's storage by the VirtualVolumes whose data it stores, by the name of the
// provider's ForeignCluster: the number of claims, and their capacity in total and by StorageClass of the provider.
func (r Reader) stored(ctx context.Context) (map[string]corev1.ResourceList, error) {
	volumes, err := r.volumes(ctx, metav1.NamespaceAll)
	if err != nil {
		return nil, err
	}
	stored := map[string]corev1.ResourceList{}
	for i := range volumes {
		at := volumes[i].Status.Location
		if at == nil || at.ClusterName == "" {
			continue
		}
		capacity := ptr.Deref(volumes[i].Status.Capacity, resource.Quantity{})
		if stored[at.ClusterName] == nil {
			stored[at.ClusterName] = corev1.ResourceList{}
		}
		for name, added := range map[corev1.ResourceName]resource.Quantity{
			corev1.ResourcePersistentVolumeClaims:      *resource.NewQuantity(1, resource.DecimalSI),
			corev1.ResourceRequestsStorage:             capacity,
			v1alpha1.ClassStorage(at.StorageClassName): capacity,
		} {
			total := stored[at.ClusterName][name]
			total.Add(added)
			stored[at.ClusterName][name] = total
		}
	}
	return stored, nil
}

// fromCache returns options for a list from the watch cache of the API server.
func fromCache() metav1.ListOptions { return metav1.ListOptions{ResourceVersion: "0"} }

func unread(what string, err error) error {
	return apierrors.NewInternalError(fmt.Errorf("reading %s for a plan: %w", what, err))
}
