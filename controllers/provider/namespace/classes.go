// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// classesOf returns the annotations of a consumer's remote namespaces with the classes that its objects
// may use. A nil value means that the flags of this installation apply instead.
func classesOf(settings *v1alpha1.IncomingPolicy) map[string]*string {
	classes := map[string]*string{}
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
		return fmt.Errorf("setting the classes of remote namespace %s: %w", name, err)
	}
	return nil
}
