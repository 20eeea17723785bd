// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/reflection"
)

// MaxReflectedSize is the limit, in bytes of JSON and without metadata, of an object of a
// configured kind, and of the status that is written back to it. It is a third of what etcd
// accepts, which leaves room for labels and managed fields.
const MaxReflectedSize = 512 << 10

// Configured returns the reflected object of a local object of a configured kind; nil if it is not reflected. All
// fields except status are reflected. A hash of them is stored in an annotation: it reveals removed fields, which a
// comparison with the reflected object, to which the provider may add fields, does not.
func Configured(local *unstructured.Unstructured, namespace string, to Destination) *unstructured.Unstructured {
	if reflection.SkipsReflection(local) {
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

// UpdateConfigured changes an existing reflected object into the desired one. Fields that the
// provider has added stay as long as the local object does not change. If the local object was
// deleted and created again, the reflected one is too, so that the old status is not taken for the
// new object's.
func UpdateConfigured(existing, desired *unstructured.Unstructured) Change {
	const originUID = v1alpha1.AnnotationOriginUID
	if existing.GetAnnotations()[originUID] != desired.GetAnnotations()[originUID] {
		return Replace
	}
	// The hash is an annotation, so this compares it too.
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

// ReflectedSize returns the size of an object of a configured kind, as MaxReflectedSize counts it.
func ReflectedSize(local *unstructured.Unstructured) int { return len(encode(content(local))) }

// RemoteStatusSize returns the size of its status.
func RemoteStatusSize(object *unstructured.Unstructured) int {
	return len(encode(object.Object["status"]))
}

// WithRemoteStatus returns the local object with the status of its reflected object. It returns
// nil if there is nothing to write: the reflected object was made from an older state of the local
// one, it has no status, or the statuses are equal.
func WithRemoteStatus(local, existing *unstructured.Unstructured) *unstructured.Unstructured {
	annotations := existing.GetAnnotations()
	status, ok := existing.Object["status"].(map[string]any)
	if !ok || annotations[v1alpha1.AnnotationOriginUID] != string(local.GetUID()) ||
		annotations[v1alpha1.AnnotationReflectedHash] != hash(local) {
		return nil
	}
	status = printable(status).(map[string]any)
	observed(status, existing.GetGeneration(), local.GetGeneration())
	if equality.Semantic.DeepEqual(local.Object["status"], status) {
		return nil
	}
	result := local.DeepCopy()
	result.Object["status"] = status
	return result
}

// content returns the fields that are reflected in addition to metadata. The result shares them with the
// object.
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

// encode returns JSON with sorted keys.
func encode(value any) []byte {
	// A value that was decoded from JSON can be encoded again.
	text, _ := json.Marshal(value)
	return text
}

// has reports whether everything in desired is in existing: maps may have more.
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

// printable returns a provider's status without control characters.
func printable(value any) any {
	switch value := value.(type) {
	case map[string]any:
		result := make(map[string]any, len(value))
		for key, below := range value {
			result[key] = printable(below)
		}
		return result
	case []any:
		result := make([]any, len(value))
		for i, below := range value {
			result[i] = printable(below)
		}
		return result
	case string:
		return clean(value, len(value))
	}
	return value
}

// observed translates the observed generations in a status from those of the reflected object to
// those of the local one. An observation of an earlier generation stays earlier than the current
// one.
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
