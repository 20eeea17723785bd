// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Change is what has to happen to a copy so that it is the wanted one.
type Change int

const (
	// Keep says that it is.
	Keep Change = iota
	// Update says that it differs.
	Update
	// Replace says that it differs in what no update can change.
	Replace
)

// copyMeta is what a copy is called and labelled. Who owns an object and what
// holds it back are things of its own cluster.
func copyMeta(local metav1.Object, name, twin string, to Destination) metav1.ObjectMeta {
	labels, annotations := maps.Clone(local.GetLabels()), maps.Clone(local.GetAnnotations())
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	keys := reflectedKeys(labels, annotations)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, to.CopyLabels())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationOriginNamespace] = local.GetNamespace()
	annotations[v1alpha1.AnnotationReflectedKeys] = keys
	return metav1.ObjectMeta{Namespace: twin, Name: name, Labels: labels, Annotations: annotations}
}

// reflectedKeys names labels and annotations, neither of which can have these
// separators in their names.
func reflectedKeys(labels, annotations map[string]string) string {
	join := func(values map[string]string) string { return strings.Join(slices.Sorted(maps.Keys(values)), ",") }
	return join(labels) + ";" + join(annotations)
}

// updateMeta brings labels and annotations to a copy, takes those away that
// came with it and are gone, and leaves the provider's own. It tells whether
// something changed.
func updateMeta(existing, wanted metav1.Object) bool {
	labelKeys, annotationKeys, _ := strings.Cut(existing.GetAnnotations()[v1alpha1.AnnotationReflectedKeys], ";")
	labels := merge(existing.GetLabels(), labelKeys, wanted.GetLabels())
	annotations := merge(existing.GetAnnotations(), annotationKeys, wanted.GetAnnotations())
	if maps.Equal(labels, existing.GetLabels()) && maps.Equal(annotations, existing.GetAnnotations()) {
		return false
	}
	existing.SetLabels(labels)
	existing.SetAnnotations(annotations)
	return true
}

func merge(existing map[string]string, reflected string, wanted map[string]string) map[string]string {
	result := maps.Clone(existing)
	if result == nil {
		result = map[string]string{}
	}
	for key := range strings.SplitSeq(reflected, ",") {
		delete(result, key)
	}
	maps.Copy(result, wanted)
	return result
}

// changed is Update or Keep.
func changed(differs bool) Change {
	if differs {
		return Update
	}
	return Keep
}
