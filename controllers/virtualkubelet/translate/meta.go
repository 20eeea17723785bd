// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Change is the request that makes an existing reflected object equal to the desired one.
type Change int

const (
	// Keep means that no request is needed.
	Keep Change = iota
	// Update means that an update is needed.
	Update
	// Replace means that immutable fields differ, so that the object must be deleted and created again.
	Replace
)

// reflectedMeta returns the metadata of a reflected object. It omits owner references and finalizers, which have a
// meaning in the local cluster only, and AnnotationReflectTo, which contains the IDs of other clusters.
func reflectedMeta(local metav1.Object, name, namespace string, to Destination) metav1.ObjectMeta {
	labels, annotations := maps.Clone(local.GetLabels()), maps.Clone(local.GetAnnotations())
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	delete(annotations, v1alpha1.AnnotationReflectTo)
	keys := reflectedKeys(labels, annotations)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, to.ReflectedLabels())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationOriginNamespace] = local.GetNamespace()
	annotations[v1alpha1.AnnotationReflectedKeys] = keys
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, Annotations: annotations}
}

// reflectedKeys returns the sorted keys of labels and annotations, for the annotation by which updateMeta recognizes
// reflected keys. Keys can contain neither separator.
func reflectedKeys(labels, annotations map[string]string) string {
	join := func(values map[string]string) string { return strings.Join(slices.Sorted(maps.Keys(values)), ",") }
	return join(labels) + ";" + join(annotations)
}

// updateMeta sets the reflected labels and annotations on an existing object, removes earlier reflected ones that are
// no longer desired, and keeps the provider's own. It reports whether it changed the object.
func updateMeta(existing, desired metav1.Object) bool {
	labelKeys, annotationKeys, _ := strings.Cut(existing.GetAnnotations()[v1alpha1.AnnotationReflectedKeys], ";")
	labels := merge(existing.GetLabels(), labelKeys, desired.GetLabels())
	annotations := merge(existing.GetAnnotations(), annotationKeys, desired.GetAnnotations())
	if maps.Equal(labels, existing.GetLabels()) && maps.Equal(annotations, existing.GetAnnotations()) {
		return false
	}
	existing.SetLabels(labels)
	existing.SetAnnotations(annotations)
	return true
}

func merge(existing map[string]string, reflected string, desired map[string]string) map[string]string {
	result := maps.Clone(existing)
	if result == nil {
		result = map[string]string{}
	}
	for key := range strings.SplitSeq(reflected, ",") {
		delete(result, key)
	}
	maps.Copy(result, desired)
	return result
}

func changed(differs bool) Change {
	if differs {
		return Update
	}
	return Keep
}
