// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/controllers/kit"
)

// quotaOf returns the sum of a consumer's offers as the limits of a ResourceQuota; without an offer, it
// allows no pods. It has no limit for resources that no offer has, or for which Kubernetes has no quota.
func quotaOf(offers []v1alpha1.ResourceOffer) corev1.ResourceList {
	hard := corev1.ResourceList{}
	offered := false
	for i := range offers {
		if !stands(offers[i]) {
			continue
		}
		offered = true
		for name, quantity := range offers[i].Spec.Resources {
			limit, ok := quotaResource(name)
			if !ok {
				continue
			}
			sum := hard[limit]
			sum.Add(quantity)
			hard[limit] = sum
		}
	}
	if !offered {
		hard[corev1.ResourcePods] = resource.Quantity{}
	}
	return hard
}

// stands reports whether an offer counts for the quota: it is neither withdrawn nor being deleted.
func stands(offer v1alpha1.ResourceOffer) bool {
	return !offer.Spec.Withdrawn && offer.DeletionTimestamp.IsZero()
}

// usedBy returns the usage of a consumer's unfinished ShadowPods, with the resource names of a ResourceQuota.
func (r *Reconciler) usedBy(ctx context.Context, foreignCluster string) (corev1.ResourceList, error) {
	var shadows v1alpha1.ShadowPodList
	if err := r.Client.List(ctx, &shadows, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing shadow pods: %w", err)
	}
	used := corev1.ResourceList{}
	for name, quantity := range quota.Used(kit.Pointers(shadows.Items), foreignCluster) {
		if limit, ok := quotaResource(name); ok {
			used[limit] = quantity
		}
	}
	return used, nil
}

// exceeds reports whether the usage exceeds the offers, for example after a node was deleted or the consumer
// was cordoned.
func exceeds(used, offered corev1.ResourceList) bool {
	return len(excess(used, offered)) > 0
}

// excess returns by how much list exceeds bound, for each resource in bound.
func excess(list, bound corev1.ResourceList) corev1.ResourceList {
	more := quota.More(bound, list)
	maps.DeleteFunc(more, func(name corev1.ResourceName, _ resource.Quantity) bool {
		_, named := bound[name]
		return !named
	})
	return more
}

// boundOf returns the desired limits of the ResourceQuota of a remote namespace. current are its current limits; nil if
// it does not exist. While the usage exceeds the offers, the limits are not reduced, because the pods of a failed node
// could not be created again. The API server refuses new ShadowPods meanwhile. objects are the limits of the numbers of
// objects.
func boundOf(current, offered, used, objects corev1.ResourceList) corev1.ResourceList {
	bound := offered.DeepCopy()
	if exceeds(used, offered) {
		quota.Add(bound, excess(used, bound))
		quota.Add(bound, excess(current, bound))
	}
	maps.Copy(bound, objects)
	return bound
}

// emptyingBound returns the limits of the ResourceQuota of a remote namespace that is being deleted: no pods, and no
// limit above those in current and objects. Its other objects exist until the namespace is deleted, and the consumer
// may request it again before.
func emptyingBound(current, objects corev1.ResourceList) corev1.ResourceList {
	bound := corev1.ResourceList{}
	maps.Copy(bound, current)
	for name, limit := range objects {
		if old, limited := bound[name]; !limited || limit.Cmp(old) < 0 {
			bound[name] = limit
		}
	}
	bound[corev1.ResourcePods] = resource.Quantity{}
	return bound
}

// quotaResource returns the name that a resource of nodes has in a ResourceQuota, and whether it has one.
func quotaResource(name corev1.ResourceName) (corev1.ResourceName, bool) {
	switch {
	case name == corev1.ResourcePods:
		return name, true
	case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage,
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix), strings.Contains(string(name), "/"):
		return corev1.DefaultResourceRequestsPrefix + name, true
	}
	return "", false
}

// inForce reports whether Kubernetes has computed the usage of a ResourceQuota. Before that, all pods are
// refused.
func inForce(quota *corev1.ResourceQuota) bool { return len(quota.Status.Hard) > 0 }

// ensureQuota ensures the ResourceQuota of a remote namespace. bound returns the desired limits for the existing ones,
// which are nil without a ResourceQuota. It reports whether the ResourceQuota is in force.
func (r *Reconciler) ensureQuota(ctx context.Context, foreignCluster, namespace string,
	bound func(current corev1.ResourceList) corev1.ResourceList,
) (bool, error) {
	current := &corev1.ResourceQuota{}
	err := r.quotas.Get(ctx, client.ObjectKey{Namespace: namespace, Name: naming.RemoteNamespaceQuota}, current)
	if apierrors.IsNotFound(err) {
		err := r.Client.Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{
				Name:      naming.RemoteNamespaceQuota,
				Namespace: namespace,
				Labels: map[string]string{
					v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: foreignCluster,
				},
			},
			Spec: corev1.ResourceQuotaSpec{Hard: bound(nil)},
		})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return false, fmt.Errorf("creating the resource quota of remote namespace %s: %w", namespace, err)
		}
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the resource quota of remote namespace %s: %w", namespace, err)
	}
	if hard := bound(current.Spec.Hard); !equality.Semantic.DeepEqual(current.Spec.Hard, hard) {
		changed := current.DeepCopy()
		changed.Spec.Hard = hard
		// RBAC allows update, and not patch.
		if err := r.Client.Update(ctx, changed); err != nil {
			return false, fmt.Errorf("updating the resource quota of remote namespace %s: %w", namespace, err)
		}
	}
	return inForce(current), nil
}
