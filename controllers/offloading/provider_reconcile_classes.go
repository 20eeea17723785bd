// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// classesOf are the annotations of a consumer's twins that say which classes its
// objects may name, nil for those that the setting of this installation says.
func classesOf(lending *v1alpha1.PeeringLending) map[string]*string {
	classes := map[string]*string{}
	for key, names := range map[string][]string{
		v1alpha1.AnnotationIngressClasses:      lending.IngressClasses,
		v1alpha1.AnnotationLoadBalancerClasses: lending.LoadBalancerClasses,
	} {
		classes[key] = nil
		if len(names) > 0 {
			joined := strings.Join(names, ",")
			classes[key] = &joined
		}
	}
	return classes
}

// ensureClasses says on a twin which classes count in it. One that is not seen
// yet was made with them.
func (p *Provider) ensureClasses(ctx context.Context, t tenant, twin string) error {
	namespace, err := p.namespaces.Get(twin)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	changed := map[string]*string{}
	for key, wanted := range t.classes {
		found, ok := namespace.Annotations[key]
		if ok != (wanted != nil) || ok && found != *wanted {
			changed[key] = wanted
		}
	}
	if len(changed) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": namespace.UID, "annotations": changed}})
	if err != nil {
		return err
	}
	if _, err := p.kube.CoreV1().Namespaces().Patch(ctx, twin, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("say which classes count in %s: %w", twin, err)
	}
	return nil
}
