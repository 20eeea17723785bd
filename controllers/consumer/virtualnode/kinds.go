// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/reflection"
	"liqo.io/federation/controllers/kit"
)

// Reasons of the condition KindsReflected of a VirtualNode.
const (
	// ReasonKindsReflected means that all kinds of spec.reflection are reflected.
	ReasonKindsReflected = "Reflected"
	// ReasonKindNotOffered means that the provider does not offer a kind, for example because it does not serve it,
	// or offers another version. Add it to policy.reflectedKinds of the provider, and install its
	// CustomResourceDefinition there: docs/reflection.md#other-kinds.
	ReasonKindNotOffered = "NotOffered"
	// ReasonKindNotAllowed means that the consumer does not allow a kind. Add it to reflection.kinds of the consumer.
	ReasonKindNotAllowed = "NotAllowed"
	// ReasonKindNotServed means that the consumer does not serve a kind in the version of spec.reflection. Install
	// its CustomResourceDefinition.
	ReasonKindNotServed = "NotServed"
	// ReasonKindNotNamespaced means that a kind has no namespaces. Remove it from spec.reflection.
	ReasonKindNotNamespaced = "NotNamespaced"
	// ReasonOverriddenByOlderVirtualNode means that the spec.reflection of an older virtual node of the same cluster
	// applies instead. Change spec.reflection of the virtual node that the message names.
	ReasonOverriddenByOlderVirtualNode = "OverriddenByOlderVirtualNode"
)

// observeKinds sets the condition KindsReflected of a VirtualNode, and sets status.reflectedKinds to those kinds of
// spec.reflection that are reflected. It returns the time after which to call it again; zero means that only events
// require it.
func (r *Reconciler) observeKinds(
	ctx context.Context, node *v1alpha1.VirtualNode, offer *v1alpha1.ResourceOffer,
) (time.Duration, error) {
	var named []metav1.GroupVersionResource
	for _, kind := range node.Spec.Reflection.Kinds {
		if !validation.IsBuiltInKind(kind.Group, kind.Resource) {
			named = append(
				named, metav1.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: kind.Resource},
			)
		}
	}
	node.Status.ReflectedKinds = nil
	if len(node.Spec.Reflection.Kinds) == 0 {
		meta.RemoveStatusCondition(&node.Status.Conditions, v1alpha1.ConditionKindsReflected)
		return 0, nil
	}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionKindsReflected, Status: metav1.ConditionTrue, ObservedGeneration: node.Generation,
		Reason: ReasonKindsReflected, Message: "All kinds of spec.reflection are reflected to the provider.",
	}
	var problems []string
	for _, kind := range named {
		problem, err := r.missing(ctx, kind, offer.Spec.ReflectedKinds)
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
	var siblings v1alpha1.VirtualNodeList
	if err := r.Client.List(ctx, &siblings, client.InNamespace(node.Namespace)); err != nil {
		return 0, err
	}
	deciding := reflection.DecidingVirtualNode(kit.Pointers(siblings.Items), node.Spec.ClusterID)
	if deciding != nil && deciding.Name != node.Name {
		node.Status.ReflectedKinds = nil
		condition.Status, condition.Reason = metav1.ConditionFalse, ReasonOverriddenByOlderVirtualNode
		problems = []string{
			fmt.Sprintf("virtual node %s of the same cluster is older, so its spec.reflection is used", deciding.Name),
		}
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

// missing returns the problem that prevents the reflection of a kind, or nil. offered are the kinds in the provider's
// offer.
func (r *Reconciler) missing(
	ctx context.Context, kind metav1.GroupVersionResource, offered []metav1.GroupVersionResource,
) (*problem, error) {
	if !slices.Contains(offered, kind) {
		index := slices.IndexFunc(offered, func(other metav1.GroupVersionResource) bool {
			return other.Group == kind.Group && other.Resource == kind.Resource
		})
		if index >= 0 {
			return &problem{
				ReasonKindNotOffered, fmt.Sprintf("the provider offers version %s", offered[index].Version),
			}, nil
		}
		return &problem{ReasonKindNotOffered, "the provider does not offer it: " +
			"it must be in the provider's policy.reflectedKinds, and the provider must serve it"}, nil
	}
	if !slices.ContainsFunc(r.VirtualKubelet.kinds(), func(other metav1.GroupVersionResource) bool {
		return other.Group == kind.Group && other.Resource == kind.Resource
	}) {
		return &problem{ReasonKindNotAllowed,
			"local virtual kubelets are not permitted to read it: add it to reflection.kinds of the chart's values"}, nil
	}
	served, err := r.Kinds.Find(ctx, kind)
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
