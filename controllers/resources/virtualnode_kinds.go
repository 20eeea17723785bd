// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/apiserver/reflection"
	"liqo.io/federation/controllers/kit"
)

// Reasons of the condition KindsReflected.
const (
	ReasonKindsReflected     = "Reflected"
	ReasonKindNotOffered     = "NotOffered"
	ReasonKindNotAllowed     = "NotAllowed"
	ReasonKindNotServed      = "NotServed"
	ReasonKindNotNamespaced  = "NotNamespaced"
	ReasonAnotherNodeDecides = "AnotherVirtualNodeDecides"
)

// observeKinds writes down which of the kinds that a virtual node names are
// copied, and what is missing for the others.
func (r *virtualNodes) observeKinds(ctx context.Context, node *v1alpha1.VirtualNode) (time.Duration, error) {
	var named []metav1.GroupVersionResource
	for _, kind := range node.Spec.Reflection.Kinds {
		if !validation.IsBuiltInKind(kind.Group, kind.Resource) {
			named = append(named, metav1.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: kind.Resource})
		}
	}
	node.Status.ReflectedKinds = nil
	if len(node.Spec.Reflection.Kinds) == 0 {
		meta.RemoveStatusCondition(&node.Status.Conditions, v1alpha1.ConditionKindsReflected)
		return 0, nil
	}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionKindsReflected, Status: metav1.ConditionTrue, ObservedGeneration: node.Generation,
		Reason: ReasonKindsReflected, Message: "All kinds that spec.reflection names are copied to the provider.",
	}
	var problems []string
	if len(named) > 0 {
		offered, err := r.offered(node)
		if err != nil {
			return 0, err
		}
		for _, kind := range named {
			problem, err := r.missing(ctx, kind, offered.ReflectedKinds)
			if err != nil {
				return 0, err
			}
			if problem == nil {
				node.Status.ReflectedKinds = append(node.Status.ReflectedKinds, kind)
				continue
			}
			if len(problems) == 0 {
				condition.Status, condition.Reason = metav1.ConditionFalse, problem.reason
			}
			problems = append(problems, reflection.KindName(kind)+": "+problem.message)
		}
	}
	siblings, err := r.siblings(node.Namespace)
	if err != nil {
		return 0, err
	}
	if deciding := reflection.DecidingVirtualNode(siblings, node.Spec.ClusterID); deciding != nil && deciding.Name != node.Name {
		node.Status.ReflectedKinds = nil
		condition.Status, condition.Reason = metav1.ConditionFalse, ReasonAnotherNodeDecides
		problems = []string{fmt.Sprintf("virtual node %s of the same cluster is older, so it says what is copied", deciding.Name)}
	}
	if len(problems) > 0 {
		condition.Message = strings.Join(problems, "; ") + "."
	}
	meta.SetStatusCondition(&node.Status.Conditions, condition)
	if len(named) == 0 {
		return 0, nil
	}
	return kit.ServedKindsInterval, nil
}

// observeClasses writes down which classes of the provider copies may name.
func (r *virtualNodes) observeClasses(node *v1alpha1.VirtualNode) error {
	offered, err := r.offered(node)
	if err != nil {
		return err
	}
	node.Status.IngressClasses, node.Status.LoadBalancerClasses = offered.IngressClasses, offered.LoadBalancerClasses
	return nil
}

// offered is what the provider offers; nothing, while there is no offer.
func (r *virtualNodes) offered(node *v1alpha1.VirtualNode) (v1alpha1.ResourceOfferSpec, error) {
	offer, err := r.offer(node.Namespace, node.Spec.OfferName)
	if apierrors.IsNotFound(err) {
		return v1alpha1.ResourceOfferSpec{}, nil
	}
	if err != nil {
		return v1alpha1.ResourceOfferSpec{}, err
	}
	return offer.Spec, nil
}

// missing says why a kind cannot be copied; nil if it can.
func (r *virtualNodes) missing(ctx context.Context, kind metav1.GroupVersionResource, offered []metav1.GroupVersionResource) (*problem, error) {
	if !slices.Contains(offered, kind) {
		index := slices.IndexFunc(offered, func(other metav1.GroupVersionResource) bool {
			return other.Group == kind.Group && other.Resource == kind.Resource
		})
		if index >= 0 {
			return &problem{ReasonKindNotOffered, fmt.Sprintf("the provider offers version %s", offered[index].Version)}, nil
		}
		return &problem{ReasonKindNotOffered, "the provider does not offer it"}, nil
	}
	if !slices.ContainsFunc(r.readable, func(other metav1.GroupVersionResource) bool {
		return other.Group == kind.Group && other.Resource == kind.Resource
	}) {
		return &problem{ReasonKindNotAllowed, "virtual kubelets of this cluster may not read it: name it in reflection.kinds of the chart's values"}, nil
	}
	served, err := r.served(ctx, kind)
	switch {
	case err != nil:
		return nil, err
	case served == nil:
		return &problem{ReasonKindNotServed, "this cluster does not serve it"}, nil
	case !served.Namespaced:
		return &problem{ReasonKindNotNamespaced, "it is not namespaced"}, nil
	}
	return nil, nil
}

// observeStorage reports the storage quota of the accepted offer, and the storage
// classes that it is valid for.
func (r *virtualNodes) observeStorage(node *v1alpha1.VirtualNode) error {
	offer, err := r.offer(node.Namespace, node.Spec.OfferName)
	if ignoreNotFound(err) != nil {
		return err
	}
	node.Status.Storage, node.Status.StorageClasses = nil, nil
	if err != nil {
		return nil
	}
	if granted, classes := quota.StorageGranted([]*v1alpha1.ResourceOffer{offer}); len(granted) > 0 {
		node.Status.Storage, node.Status.StorageClasses = granted, classes
	}
	return nil
}
