// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

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

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/quota"
)

// quotaName is that of the ResourceQuota in each twin.
const quotaName = "federation"

// quotaOf is what a consumer is offered altogether, as a quota calls it. Who is
// offered nothing runs nothing. Of resources that an offer does not name, and of
// those that Kubernetes has no quota for, nothing is said.
func quotaOf(offers []*v1alpha1.ResourceOffer) corev1.ResourceList {
	hard := corev1.ResourceList{}
	offered := false
	for _, offer := range offers {
		if !stands(offer) {
			continue
		}
		offered = true
		for name, quantity := range offer.Spec.Resources {
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

// stands tells whether an offer is one that pods may run on.
func stands(offer *v1alpha1.ResourceOffer) bool {
	return !offer.Spec.Withdrawn && offer.DeletionTimestamp.IsZero()
}

// runsOf is what a consumer's shadow pods take that have not ended, as a quota
// calls it.
func (p *Provider) runsOf(foreignCluster string) (corev1.ResourceList, error) {
	shadows, err := p.shadows.List(everything)
	if err != nil {
		return nil, err
	}
	runs := corev1.ResourceList{}
	for name, quantity := range quota.Used(shadows, foreignCluster) {
		if limit, ok := quotaResource(name); ok {
			runs[limit] = quantity
		}
	}
	return runs, nil
}

// overdrawn tells whether more runs than is offered, as after a node has gone or
// the consumer was cordoned.
func overdrawn(offered, runs corev1.ResourceList) bool {
	return len(beyond(offered, runs)) > 0
}

// beyond is by how much what there is goes beyond a bound, of each resource that
// the bound names.
func beyond(bound, there corev1.ResourceList) corev1.ResourceList {
	more := quota.More(bound, there)
	maps.DeleteFunc(more, func(name corev1.ResourceName, _ resource.Quantity) bool {
		_, named := bound[name]
		return !named
	})
	return more
}

// boundOf is the quota of a twin whose quota is current; nil if it has none yet.
// While more runs than is offered, the quota does not fall: it would keep pods
// from being made again whose node is gone. That nothing is added meanwhile is
// seen to where shadow pods are stored.
func boundOf(current, offered, runs corev1.ResourceList) corev1.ResourceList {
	bound := offered.DeepCopy()
	if overdrawn(offered, runs) {
		quota.Add(bound, beyond(bound, runs))
		quota.Add(bound, beyond(bound, current))
	}
	return bound
}

// quotaResource is what a quota calls a resource of nodes.
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

// ensureQuota bounds a twin, by what its consumer is offered and runs, and tells
// whether the bound is in force: until the cluster has counted what there is, it
// refuses every pod.
func (p *Provider) ensureQuota(ctx context.Context, foreignCluster, twin string, offered, runs corev1.ResourceList) (bool, error) {
	client := p.kube.CoreV1().ResourceQuotas(twin)
	current, err := p.quotas.ResourceQuotas(twin).Get(quotaName)
	if apierrors.IsNotFound(err) {
		_, err := client.Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{
				Name:      quotaName,
				Namespace: twin,
				Labels:    map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: foreignCluster},
			},
			Spec: corev1.ResourceQuotaSpec{Hard: boundOf(nil, offered, runs)},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return false, fmt.Errorf("create the resource quota in %s: %w", twin, err)
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if hard := boundOf(current.Spec.Hard, offered, runs); !equality.Semantic.DeepEqual(current.Spec.Hard, hard) {
		changed := current.DeepCopy()
		changed.Spec.Hard = hard
		if _, err := client.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return false, fmt.Errorf("update the resource quota in %s: %w", twin, err)
		}
	}
	return len(current.Status.Hard) > 0, nil
}
