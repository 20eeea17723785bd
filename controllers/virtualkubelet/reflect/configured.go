// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

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

// MaxConfigured bounds, in bytes of JSON and without its metadata, an object of
// a configured kind, and the status that comes back for it: a third of what
// etcd takes, so that its labels and managed fields have room beside it.
const MaxConfigured = 512 << 10

// Configured is the copy of a local object whose kind was configured to be
// copied; nil if it stays home. Nothing is known of its fields but that status
// is the provider's. The hash of the others tells later whether one of them was
// taken away, which the copy itself, with what the provider has added, does not.
func Configured(local *unstructured.Unstructured, twin string, to Destination) *unstructured.Unstructured {
	if reflection.StaysHome(local) {
		return nil
	}
	wanted := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content(local))}
	wanted.SetGroupVersionKind(local.GroupVersionKind())
	meta := copyMeta(local, local.GetName(), twin, to)
	meta.Annotations[v1alpha1.AnnotationOriginUID] = string(local.GetUID())
	meta.Annotations[v1alpha1.AnnotationReflectedHash] = hash(local)
	wanted.SetNamespace(meta.Namespace)
	wanted.SetName(meta.Name)
	wanted.SetLabels(meta.Labels)
	wanted.SetAnnotations(meta.Annotations)
	return wanted
}

// UpdateConfigured makes an existing copy the wanted one. What the provider has
// added to it stays as long as the local object does not change. The copy of an
// object that was deleted and made anew is made anew, so that its status is not
// taken for the new one's.
func UpdateConfigured(existing, wanted *unstructured.Unstructured) Change {
	if existing.GetAnnotations()[v1alpha1.AnnotationOriginUID] != wanted.GetAnnotations()[v1alpha1.AnnotationOriginUID] {
		return Replace
	}
	// The hash is an annotation, so it is compared here too.
	differs := updateMeta(existing, wanted)
	if !differs && has(content(existing), content(wanted)) {
		return Keep
	}
	object := runtime.DeepCopyJSON(content(wanted))
	for _, field := range []string{"apiVersion", "kind", "metadata", "status"} {
		if value, ok := existing.Object[field]; ok {
			object[field] = value
		}
	}
	existing.Object = object
	return Update
}

// Size is how large an object of a configured kind is, as MaxConfigured counts.
func Size(local *unstructured.Unstructured) int { return len(encode(content(local))) }

// StatusSize is how large its status is.
func StatusSize(object *unstructured.Unstructured) int { return len(encode(object.Object["status"])) }

// StatusBack is the local object with the status of its copy; nil if there is
// nothing to bring back: the copy is not that of the object as it is now, it
// has no status, or the object has the same one.
func StatusBack(local, existing *unstructured.Unstructured) *unstructured.Unstructured {
	annotations := existing.GetAnnotations()
	status, ok := existing.Object["status"].(map[string]any)
	if !ok || annotations[v1alpha1.AnnotationOriginUID] != string(local.GetUID()) || annotations[v1alpha1.AnnotationReflectedHash] != hash(local) {
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

// content is what is copied of an object beside its metadata. It shares it with
// the object.
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

// encode is JSON with sorted keys.
func encode(value any) []byte {
	// What was decoded from JSON can be encoded again.
	text, _ := json.Marshal(value)
	return text
}

// has tells whether everything that is wanted is there: maps may have more.
func has(existing, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		existing, ok := existing.(map[string]any)
		if !ok {
			return false
		}
		for key, value := range wanted {
			if found, ok := existing[key]; !ok && value != nil || !has(found, value) {
				return false
			}
		}
		return true
	case []any:
		existing, ok := existing.([]any)
		if !ok || len(existing) != len(wanted) {
			return false
		}
		for i := range wanted {
			if !has(existing[i], wanted[i]) {
				return false
			}
		}
		return true
	}
	return equality.Semantic.DeepEqual(existing, wanted)
}

// printable is a provider's status without control characters.
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

// observed has a status speak of the generations of the local object: those of
// its copy are counted apart. What was observed of an earlier one is earlier
// than this one.
func observed(status map[string]any, there, here int64) {
	const field = "observedGeneration"
	translate := func(of map[string]any) {
		if generation, ok := of[field].(int64); ok {
			if generation == there {
				of[field] = here
			} else {
				of[field] = max(0, min(generation, here-1))
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
