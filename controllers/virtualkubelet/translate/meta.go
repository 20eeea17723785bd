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

// Change is what has to be done with an existing reflected object.
type Change int

const (
	// Keep means that it is the desired one.
	Keep Change = iota
	// Update means that it differs.
	Update
	// Replace means that it differs in fields that no update can change.
	Replace
)

// reflectedMeta returns the metadata of a reflected object. Owners and finalizers are not
// reflected: they belong to the local cluster.
func reflectedMeta(local metav1.Object, name, namespace string, to Destination) metav1.ObjectMeta {
	labels, annotations := maps.Clone(local.GetLabels()), maps.Clone(local.GetAnnotations())
	delete(annotations, corev1.LastAppliedConfigAnnotation)
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

// reflectedKeys lists the keys of labels and annotations, neither of which can contain these
// separators.
func reflectedKeys(labels, annotations map[string]string) string {
	join := func(values map[string]string) string { return strings.Join(slices.Sorted(maps.Keys(values)), ",") }
	return join(labels) + ";" + join(annotations)
}

// updateMeta adds the reflected labels and annotations to an existing object, removes those that
// were reflected and do not exist any more, and keeps the provider's own. It reports whether it changed
// the object.
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

// changed returns Update or Keep.
func changed(differs bool) Change {
	if differs {
		return Update
	}
	return Keep
}
