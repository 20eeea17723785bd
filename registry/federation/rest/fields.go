// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/nearest"
)

// suggestFields returns err, the error of decoding object. In a strict decoding error, it adds a suggestion to each
// unknown field: the field of the same struct with the nearest name.
func suggestFields(object runtime.Object, err error) error {
	strict, ok := runtime.AsStrictDecodingError(err)
	if !ok || object == nil {
		return err
	}
	problems := slices.Clone(strict.Errors())
	for i, problem := range problems {
		var path string
		// The type of the error also contains the path, but does not distinguish unknown fields from duplicate ones.
		if _, err := fmt.Sscanf(problem.Error(), "unknown field %q", &path); err != nil {
			continue
		}
		if name := nearestField(reflect.TypeOf(object), path); name != "" {
			problems[i] = fmt.Errorf("%w; did you mean %q?", problem, name)
		}
	}
	return runtime.NewStrictDecodingError(problems)
}

// nearestField returns the JSON name of the field that nearest.Name finds for the last name of a path, for example name
// for spec.items[0].nam. of is the type that the path starts at. It returns an empty string if nearest.Name finds none,
// or if the path contains a map key that contains a dot.
func nearestField(of reflect.Type, path string) string {
	names := strings.Split(path, ".")
	for i, name := range names {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Array {
			of = of.Elem()
		}
		switch of.Kind() {
		case reflect.Map:
			of = of.Elem()
		case reflect.Struct:
			fields := jsonFields(of)
			if i == len(names)-1 {
				return nearest.Name(name, slices.Sorted(maps.Keys(fields)))
			}
			name, _, _ = strings.Cut(name, "[")
			known, ok := fields[name]
			if !ok {
				return ""
			}
			of = known
		default:
			return ""
		}
	}
	return ""
}

// jsonFields returns the types of the fields of a struct by JSON name, including those of embedded structs.
func jsonFields(of reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && field.Anonymous && field.Type.Kind() == reflect.Struct:
			maps.Copy(fields, jsonFields(field.Type))
		case name != "" && name != "-":
			fields[name] = field.Type
		}
	}
	return fields
}
