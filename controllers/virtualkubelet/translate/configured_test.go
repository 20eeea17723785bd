// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

var toMilan = Destination{OriginID: "rome-id", DestinationID: "milan-id", NodeName: "liqo-milan"}

// widget returns a local object of a configured kind. fields is JSON and has all fields but type and metadata.
func widget(t *testing.T, fields string) *unstructured.Unstructured {
	t.Helper()
	text := `{"apiVersion":"example.com/v1","kind":"Widget",` +
		`"metadata":{"name":"w","namespace":"shop","uid":"local","generation":3}`
	if fields != "{}" {
		text += ","
	}
	made := &unstructured.Unstructured{}
	if err := made.UnmarshalJSON([]byte(text + fields[1:])); err != nil {
		t.Fatal(err)
	}
	return made
}

// reflected returns the reflected object of a widget, modified by change.
func reflected(local *unstructured.Unstructured, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	existing := Configured(local, "shop-rome", toMilan)
	existing.SetUID("remote")
	existing.SetGeneration(7)
	if change != nil {
		change(existing)
	}
	return existing
}

func set(t *testing.T, value any, fields ...string) func(*unstructured.Unstructured) {
	t.Helper()
	return func(object *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(object.Object, value, fields...); err != nil {
			t.Error(err)
		}
	}
}

func TestConfiguredReflectsEverythingButStatus(t *testing.T) {
	local := widget(t, `{"spec":{"size":3,"parts":["a"]},"more":true,"status":{"phase":"Ready"}}`)
	local.SetLabels(map[string]string{"app": "web"})
	local.SetAnnotations(map[string]string{"note": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}"})
	local.SetFinalizers([]string{"example.com/hold"})
	local.SetResourceVersion("12")
	before := local.DeepCopy()
	got := Configured(local, "shop-rome", toMilan)
	want := map[string]any{
		"apiVersion": "example.com/v1",
		"kind":       "Widget",
		"more":       true,
		"spec":       map[string]any{"size": int64(3), "parts": []any{"a"}},
		"metadata": map[string]any{
			"name": "w", "namespace": "shop-rome",
			"labels": map[string]any{
				"app": "web", v1alpha1.LabelOrigin: "rome-id", v1alpha1.LabelDestination: "milan-id",
			},
			"annotations": map[string]any{
				"note": "x", v1alpha1.AnnotationOriginNamespace: "shop", v1alpha1.AnnotationReflectedKeys: "app;note",
				v1alpha1.AnnotationOriginUID: "local", v1alpha1.AnnotationReflectedHash: hash(local),
			},
		},
	}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Errorf("reflected object (-want +got):\n%s", diff)
	}
	set(t, "other", "spec", "size")(got)
	if diff := cmp.Diff(before, local); diff != "" {
		t.Errorf("the local object was changed:\n%s", diff)
	}
	local.SetAnnotations(map[string]string{v1alpha1.AnnotationSkipReflection: ""})
	if got := Configured(local, "shop-rome", toMilan); got != nil {
		t.Errorf("excluded object is reflected: %v", got)
	}
}

func TestUpdateConfigured(t *testing.T) {
	const fields = `{"spec":{"size":3,"parts":[{"name":"a"}]}}`
	for _, test := range []struct {
		name      string
		local     string
		reflected func(*unstructured.Unstructured)
		want      Change
	}{
		{"no change", fields, nil, Keep},
		{"field added by the provider", fields, set(t, "red", "spec", "color"), Keep},
		{"status set by the provider", fields, set(t, "Ready", "status", "phase"), Keep},
		{"changed value", `{"spec":{"size":4,"parts":[{"name":"a"}]}}`, nil, Update},
		{"removed field", `{"spec":{"parts":[{"name":"a"}]}}`, nil, Update},
		{"all fields removed", `{}`, nil, Update},
		{"added list item", `{"spec":{"size":3,"parts":[{"name":"a"},{"name":"b"}]}}`, nil, Update},
		{"field changed by the provider", fields, set(t, int64(9), "spec", "size"), Update},
		{"list item changed by the provider", fields, set(t, []any{map[string]any{"name": "b"}}, "spec", "parts"), Update},
		{
			"field added to a list item by the provider", fields,
			set(t, []any{map[string]any{"name": "a", "color": "red"}}, "spec", "parts"), Keep,
		},
		{"field removed by the provider", fields, func(u *unstructured.Unstructured) { delete(u.Object, "spec") }, Update},
		{"of an earlier object", fields, func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{v1alpha1.AnnotationOriginUID: "earlier"})
		}, Replace},
		{"label removed by the provider", fields, func(u *unstructured.Unstructured) { u.SetLabels(nil) }, Update},
	} {
		t.Run(test.name, func(t *testing.T) {
			existing := reflected(widget(t, fields), test.reflected)
			before := existing.DeepCopy()
			desired := Configured(widget(t, test.local), "shop-rome", toMilan)
			if got := UpdateConfigured(existing, desired); got != test.want {
				t.Fatalf("change %v, want %v", got, test.want)
			}
			if test.want == Update {
				if diff := cmp.Diff(content(desired), content(existing)); diff != "" {
					t.Errorf("content (-want +got):\n%s", diff)
				}
				if existing.GetUID() != "remote" || existing.GetGeneration() != 7 ||
					!cmp.Equal(existing.Object["status"], before.Object["status"]) {
					t.Errorf("fields of the provider are missing: %v", existing)
				}
				if again := UpdateConfigured(existing, desired); again != Keep {
					t.Errorf("a second update: %v", again)
				}
			}
		})
	}
}

func TestRemoteStatusIsWrittenToTheLocalObject(t *testing.T) {
	const fields = `{"spec":{"size":3},"status":{"phase":"Pending"}}`
	for _, test := range []struct {
		name      string
		local     string
		reflected func(*unstructured.Unstructured)
		want      map[string]any
	}{
		{"changed status", fields, set(t, "Ready", "status", "phase"), map[string]any{"phase": "Ready"}},
		{"equal status", fields, set(t, "Pending", "status", "phase"), nil},
		{"no status", fields, nil, nil},
		{"status that is not a map", fields, func(u *unstructured.Unstructured) { u.Object["status"] = "Ready" }, nil},
		{"of an earlier object", fields, func(u *unstructured.Unstructured) {
			set(t, "Ready", "status", "phase")(u)
			annotations := u.GetAnnotations()
			annotations[v1alpha1.AnnotationOriginUID] = "earlier"
			u.SetAnnotations(annotations)
		}, nil},
		{"of an earlier spec", `{"spec":{"size":4}}`, set(t, "Ready", "status", "phase"), nil},
		{"in the generations of the local object", fields, set(t, map[string]any{
			"observedGeneration": int64(7),
			"conditions":         []any{map[string]any{"type": "Ready", "observedGeneration": int64(6)}, "none"},
		}, "status"), map[string]any{
			"observedGeneration": int64(3),
			"conditions":         []any{map[string]any{"type": "Ready", "observedGeneration": int64(2)}, "none"},
		}},
		{"without control characters", fields, set(t, []any{map[string]any{"a": "b\x1b[31m\nc"}}, "status", "list"),
			map[string]any{"list": []any{map[string]any{"a": "b[31m\nc"}}}},
		{"without control characters in keys", fields,
			set(t, map[string]any{"a\x1b[31m": "b", "\x00c": "d", "c": "e"}, "status"),
			map[string]any{"a[31m": "b", "c": "e"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			existing := reflected(widget(t, fields), test.reflected)
			before, local := existing.DeepCopy(), widget(t, test.local)
			var got map[string]any
			if result := WithRemoteStatus(local, existing); result != nil {
				got, _ = result.Object["status"].(map[string]any)
				result.Object["status"] = local.Object["status"]
				if !cmp.Equal(result, local) {
					t.Errorf("other fields than the status changed: %v", result)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if !cmp.Equal(before, existing) {
				t.Error("the reflected object was changed")
			}
		})
	}
}

// anything generates values as decoded from JSON.
func anything(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Map(rapid.StringMatching("[a-z]{0,4}"), func(s string) any { return s }),
		rapid.Map(rapid.Int64(), func(i int64) any { return i }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
	)
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(
		leaf,
		rapid.Map(rapid.SliceOfN(anything(depth-1), 0, 3), func(s []any) any { return s }),
		rapid.Map(
			rapid.MapOfN(rapid.StringMatching("[a-d]"), anything(depth-1), 0, 3),
			func(m map[string]any) any { return m },
		),
	)
}

// After one update, the reflected object equals the desired one, so that a second update finds no difference.
func TestOneUpdateIsEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) *unstructured.Unstructured {
			object := &unstructured.Unstructured{
				Object: map[string]any{
					"apiVersion": "example.com/v1", "kind": "Widget", "spec": anything(3).Draw(t, name),
				},
			}
			object.SetName("w")
			object.SetNamespace("shop")
			return object
		}
		desired := Configured(draw("local"), "shop-rome", toMilan)
		existing := Configured(draw("earlier"), "shop-rome", toMilan)
		existing.Object["spec"] = runtime.DeepCopyJSONValue(draw("drift").Object["spec"])
		UpdateConfigured(existing, desired)
		if !has(content(existing), content(desired)) {
			t.Fatalf("%v does not have %v", existing, desired)
		}
		if again := UpdateConfigured(existing, desired); again != Keep {
			t.Fatalf("second change: %v", again)
		}
	})
}
