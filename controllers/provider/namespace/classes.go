// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/pattern"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
)

// classesOf returns annotations of a consumer's remote namespaces. They restrict the classes, external names,
// size, labels and annotations of the consumer's objects, and the network access of its pods. A nil value means
// that the annotation is absent. An absent annotation of classes means that the flags of this installation
// apply; any other absent one means no restriction.
func (r *Reconciler) classesOf(fc *v1alpha1.ForeignCluster) map[string]*string {
	classes := map[string]*string{}
	settings := &fc.Spec.IncomingPolicy
	for key, names := range map[string][]string{
		v1alpha1.AnnotationIngressClasses:      settings.IngressClasses,
		v1alpha1.AnnotationLoadBalancerClasses: settings.LoadBalancerClasses,
	} {
		classes[key] = nil
		if len(names) > 0 {
			joined := strings.Join(names, ",")
			classes[key] = &joined
		}
	}
	classes[v1alpha1.AnnotationNetworkAccess], classes[v1alpha1.AnnotationExternalNames] = nil, nil
	classes[v1alpha1.AnnotationMaxObjectBytes], classes[v1alpha1.AnnotationMetadataKeys] = nil, nil
	if most := trust.MaxObjectBytes(fc, r.MaxObjectBytes); most > 0 {
		classes[v1alpha1.AnnotationMaxObjectBytes] = ptr.To(strconv.FormatInt(most, 10))
	}
	if limits := r.Pods.PodLimits(fc); limits != nil && !slices.Contains(limits.MetadataKeys, pattern.Any) {
		classes[v1alpha1.AnnotationMetadataKeys] = ptr.To(strings.Join(limits.MetadataKeys, ","))
	}
	if access := trust.Network(fc, r.Network.Access); access == v1alpha1.NetworkIsolated {
		classes[v1alpha1.AnnotationNetworkAccess] = ptr.To(string(access))
	}
	if external := trust.ExternalNames(fc, r.ExternalNames); !slices.Contains(external, pattern.Any) {
		joined := strings.Join(external, ",")
		classes[v1alpha1.AnnotationExternalNames] = &joined
	}
	return classes
}

// ensureClasses sets the annotations of classesOf on a remote namespace. It does nothing for a namespace
// that is not cached yet, because that was created with these annotations a moment ago.
func (r *Reconciler) ensureClasses(ctx context.Context, t tenant, name string) error {
	current := r.namespace(ctx, name)
	if current == nil {
		return nil
	}
	wanted := current.DeepCopy()
	for key, value := range t.classes {
		if value != nil {
			metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, key, *value)
		} else {
			delete(wanted.Annotations, key)
		}
	}
	if _, err := kit.Commit(ctx, r.Client, current, wanted); err != nil {
		return fmt.Errorf("setting the annotations with the classes and limits of remote namespace %s: %w", name, err)
	}
	return nil
}
