// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/printable"
	"liqo.io/federation/apiserver/reflection"
)

// MaxReflectedSize is the maximum size of a reflected object of a configured kind, without metadata, and of a status
// that is copied to the local object, in bytes of JSON. It is a third of etcd's limit, which leaves space for labels
// and managed fields.
const MaxReflectedSize = 512 << 10

// Configured returns the desired reflected object of a local object of a configured kind; nil if it is not reflected.
// It has all fields but the status, and a hash of them in an annotation. The hash makes the removal of a field visible,
// which a comparison does not, because the provider may add fields to the reflected object.
func Configured(local *unstructured.Unstructured, namespace string, to Destination) *unstructured.Unstructured {
	if reflection.Excludes(local, to.DestinationID) {
		return nil
	}
	desired := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content(local))}
	desired.SetGroupVersionKind(local.GroupVersionKind())
	meta := reflectedMeta(local, local.GetName(), namespace, to)
	meta.Annotations[v1alpha1.AnnotationOriginUID] = string(local.GetUID())
	meta.Annotations[v1alpha1.AnnotationReflectedHash] = hash(local)
	desired.SetNamespace(meta.Namespace)
	desired.SetName(meta.Name)
	desired.SetLabels(meta.Labels)
	desired.SetAnnotations(meta.Annotations)
	return desired
}

// UpdateConfigured changes an existing reflected object of a configured kind into the desired one. Fields that the
// provider added remain until the local object changes. If the local object was deleted and created again, it returns
// Replace, so that the status of the earlier object is not copied to the new one.
func UpdateConfigured(existing, desired *unstructured.Unstructured) Change {
	const originUID = v1alpha1.AnnotationOriginUID
	if existing.GetAnnotations()[originUID] != desired.GetAnnotations()[originUID] {
		return Replace
	}
	// The annotations include the hash of the local object.
	differs := updateMeta(existing, desired)
	if !differs && has(content(existing), content(desired)) {
		return Keep
	}
	object := runtime.DeepCopyJSON(content(desired))
	for _, field := range []string{"apiVersion", "kind", "metadata", "status"} {
		if value, ok := existing.Object[field]; ok {
			object[field] = value
		}
	}
	existing.Object = object
	return Update
}

// ReflectedSize returns the size of an object without metadata and status, to compare with MaxReflectedSize.
func ReflectedSize(local *unstructured.Unstructured) int { return len(encode(content(local))) }

// RemoteStatusSize returns the size of an object's status, to compare with MaxReflectedSize.
func RemoteStatusSize(object *unstructured.Unstructured) int {
	return len(encode(object.Object["status"]))
}

// WithRemoteStatus returns a copy of the local object with the status of its reflected object. It returns nil if no
// update is needed: the statuses are equal, the reflected object has no status, or it does not reflect the current
// local object yet.
func WithRemoteStatus(local, existing *unstructured.Unstructured) *unstructured.Unstructured {
	annotations := existing.GetAnnotations()
	status, ok := existing.Object["status"].(map[string]any)
	if !ok || annotations[v1alpha1.AnnotationOriginUID] != string(local.GetUID()) ||
		annotations[v1alpha1.AnnotationReflectedHash] != hash(local) {
		return nil
	}
	status = cleaned(status).(map[string]any)
	observed(status, existing.GetGeneration(), local.GetGeneration())
	if equality.Semantic.DeepEqual(local.Object["status"], status) {
		return nil
	}
	result := local.DeepCopy()
	result.Object["status"] = status
	return result
}

// content returns the fields of an object but its type, metadata and status. The result shares memory with the object.
func content(object *unstructured.Unstructured) map[string]any {
	result := maps.Clone(object.Object)
	for _, field := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(result, field)
	}
	return result
}

func hash(object *unstructured.Unstructured) string {
	sum := sha256.Sum256(encode(content(object)))
	return hex.EncodeToString(sum[:])
}

// encode returns a value as JSON with sorted keys.
func encode(value any) []byte {
	// Encoding cannot fail, because the value was decoded from JSON.
	text, _ := json.Marshal(value)
	return text
}

// has reports whether existing contains desired. Maps in existing may have further keys.
func has(existing, desired any) bool {
	switch desired := desired.(type) {
	case map[string]any:
		existing, ok := existing.(map[string]any)
		if !ok {
			return false
		}
		for key, value := range desired {
			if found, ok := existing[key]; !ok && value != nil || !has(found, value) {
				return false
			}
		}
		return true
	case []any:
		existing, ok := existing.([]any)
		if !ok || len(existing) != len(desired) {
			return false
		}
		for i := range desired {
			if !has(existing[i], desired[i]) {
				return false
			}
		}
		return true
	}
	return equality.Semantic.DeepEqual(existing, desired)
}

// cleaned returns a copy of a provider's status without control characters. If keys of a map differ only in these, one
// of their values is kept, which is the same one for each copy.
func cleaned(value any) any {
	switch value := value.(type) {
	case map[string]any:
		result := make(map[string]any, len(value))
		for _, key := range slices.Sorted(maps.Keys(value)) {
			result[printable.Text(key, len(key))] = cleaned(value[key])
		}
		return result
	case []any:
		result := make([]any, len(value))
		for i, below := range value {
			result[i] = cleaned(below)
		}
		return result
	case string:
		return printable.Text(value, len(value))
	}
	return value
}

// observed replaces the observed generations in a status, which refer to the reflected object, by generations of the
// local object. If the provider observed an earlier generation of the reflected object, the result is earlier than the
// local object's current generation.
func observed(status map[string]any, remote, local int64) {
	const field = "observedGeneration"
	translate := func(of map[string]any) {
		if generation, ok := of[field].(int64); ok {
			if generation == remote {
				of[field] = local
			} else {
				of[field] = max(0, min(generation, local-1))
			}
		}
	}
	translate(status)
	conditions, _ := status["conditions"].([]any)
	for _, condition := range conditions {
		if condition, ok := condition.(map[string]any); ok {
			translate(condition)
		}
	}
}
