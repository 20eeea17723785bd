// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// quotaName is that of the ResourceQuota in each twin.
const quotaName = "federation"

// quotaOf is what may run in one twin of a consumer: no more than it is
// offered altogether. Who is offered nothing runs nothing. Of resources that
// an offer does not name, and of those that Kubernetes has no quota for,
// nothing is said.
func quotaOf(offers []*v1alpha1.ResourceOffer) corev1.ResourceList {
	hard := corev1.ResourceList{}
	offered := false
	for _, offer := range offers {
		if offer.Spec.Withdrawn || !offer.DeletionTimestamp.IsZero() {
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

// ensureQuota bounds a twin, as by the consumer's offers, and tells whether the
// bound is in force: until the cluster has counted what there is, it refuses
// every pod.
func (p *Provider) ensureQuota(ctx context.Context, foreignCluster, twin string, hard corev1.ResourceList) (bool, error) {
	client := p.kube.CoreV1().ResourceQuotas(twin)
	current, err := p.quotas.ResourceQuotas(twin).Get(quotaName)
	if apierrors.IsNotFound(err) {
		_, err := client.Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{
				Name:      quotaName,
				Namespace: twin,
				Labels:    map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: foreignCluster},
			},
			Spec: corev1.ResourceQuotaSpec{Hard: hard},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return false, fmt.Errorf("create the resource quota in %s: %w", twin, err)
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !equality.Semantic.DeepEqual(current.Spec.Hard, hard) {
		changed := current.DeepCopy()
		changed.Spec.Hard = hard
		if _, err := client.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return false, fmt.Errorf("update the resource quota in %s: %w", twin, err)
		}
	}
	return len(current.Status.Hard) > 0, nil
}
