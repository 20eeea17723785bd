// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"slices"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/registry/federation/shadowpod"
)

// BeyondLimits returns the unfinished shadow pods of a consumer that a policy would refuse, as sorted namespace/name.
func (r Reader) BeyondLimits(ctx context.Context, consumer string, policy *v1alpha1.PodPolicy) ([]string, error) {
	if policy == nil {
		return nil, nil
	}
	obj, err := r.ShadowPods.List(genericapirequest.WithNamespace(ctx, metav1.NamespaceAll),
		&metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	pods := obj.(*federation.ShadowPodList).Items
	for i := range pods {
		if pods[i].Status.ForeignCluster == consumer && pods[i].Status.Phase == "" &&
			len(trust.Refusals(policy, shadowpod.Template(&pods[i]), nil, field.NewPath("spec", "pod"), consumer)) > 0 {
			names = append(names, pods[i].Namespace+"/"+pods[i].Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// WithAccess returns the sorted names of the virtual nodes of a provider whose pods have access to the local API
// server: own are those whose spec.apiAccess gives it; following are those with unfinished pods that have it from their
// ForeignCluster, and pods is the number of these pods. provider is the name of the ForeignCluster.
func (r Reader) WithAccess(ctx context.Context, provider string) (own, following []string, pods int32, err error) {
	if r.VirtualNodes == nil {
		return nil, nil, 0, nil
	}
	nodes, err := r.virtualNodes(ctx, naming.PeerNamespace(provider))
	if err != nil {
		return nil, nil, 0, err
	}
	for _, node := range nodes {
		switch {
		case node.Spec.APIAccess == v1alpha1.APIAccessConsumer:
			own = append(own, node.Spec.NodeName)
		case node.Spec.APIAccess == "" && node.Status.APIAccess == v1alpha1.APIAccessConsumer && node.Status.Pods > 0:
			following = append(following, node.Spec.NodeName)
			pods += node.Status.Pods
		}
	}
	slices.Sort(own)
	slices.Sort(following)
	return own, following, pods, nil
}

// limits returns the limits for pods that the accepted offers of each provider contain, by the name of the provider's
// ForeignCluster.
func (r Reader) limits(ctx context.Context, providers []placement.Provider) (map[string][]*v1alpha1.PodPolicy, error) {
	if r.Offers == nil {
		return nil, nil
	}
	obj, err := r.Offers.List(genericapirequest.WithNamespace(ctx, metav1.NamespaceAll),
		&metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	list := &v1alpha1.ResourceOfferList{}
	if err := v1alpha1.Convert_federation_ResourceOfferList_To_v1alpha1_ResourceOfferList(
		obj.(*federation.ResourceOfferList), list, nil); err != nil {
		return nil, err
	}
	offers := map[string][]*v1alpha1.ResourceOffer{}
	for i := range list.Items {
		offers[list.Items[i].Namespace] = append(offers[list.Items[i].Namespace], &list.Items[i])
	}
	limits := map[string][]*v1alpha1.PodPolicy{}
	for _, provider := range providers {
		limits[provider.Cluster.Name] = quota.PodPolicies(offers[naming.PeerNamespace(provider.Cluster.Name)])
	}
	return limits, nil
}
