// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const maxResources = 64

// resources validates the names of resources, and that no quantity is negative. Counts of objects
// must be whole numbers.
func resources(list corev1.ResourceList, path *field.Path) field.ErrorList {
	if len(list) > maxResources {
		return field.ErrorList{field.TooMany(path, len(list), maxResources)}
	}
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		at := path.Key(truncate(string(name)))
		for _, message := range validation.IsQualifiedName(string(name)) {
			errs = append(errs, field.Invalid(at, truncate(string(name)), message))
		}
		if quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(at, quantity.String(), "must not be negative"))
		}
		if countable(name) && quantity.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at, quantity.String(), "must be a whole number"))
		}
	}
	return errs
}

// countable reports whether quantities of a resource must be whole numbers.
func countable(name corev1.ResourceName) bool {
	return name == corev1.ResourcePods || name == corev1.ResourcePersistentVolumeClaims
}

// requiredResources validates a list of resources that must not be empty.
func requiredResources(list corev1.ResourceList, path *field.Path) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, "must contain at least one resource")}
	}
	return resources(list, path)
}

// uniqueNames validates a list of at most most names without duplicates, and calls check for each
// name.
func uniqueNames(
	list []string, most int, path *field.Path, check func(string, *field.Path) field.ErrorList,
) field.ErrorList {
	if len(list) > most {
		return field.ErrorList{field.TooMany(path, len(list), most)}
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, name := range list {
		at := path.Index(i)
		if seen[name] {
			errs = append(errs, field.Duplicate(at, truncate(name)))
		}
		seen[name] = true
		errs = append(errs, check(name, at)...)
	}
	return errs
}

// qualifiedName validates a name with an optional domain as prefix, for example the key of a label.
func qualifiedName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(path, truncate(name), message))
	}
	return errs
}

// seconds validates that a number of seconds is from least to most. Nil is valid.
func seconds[T ~int32 | ~int64](value *T, least, most T, path *field.Path) field.ErrorList {
	if value == nil {
		return nil
	}
	if *value < least || *value > most {
		return field.ErrorList{field.Invalid(path, *value, fmt.Sprintf("must be %d to %d seconds", least, most))}
	}
	return nil
}
