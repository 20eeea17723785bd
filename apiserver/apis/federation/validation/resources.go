// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/nearest"
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

// podResources are names that spec.resources of a ForeignCluster may contain. Names of huge pages
// and extended resources, whose names have a domain, are valid in addition.
var podResources = []string{
	string(corev1.ResourceCPU), string(corev1.ResourceMemory), string(corev1.ResourceEphemeralStorage),
	string(corev1.ResourcePods),
}

// quotaResources are names that spec.incomingPolicy.limits of a ForeignCluster may contain. Names
// of huge pages and extended resources are valid in addition. The last name contains <class> as a
// placeholder for the name of a StorageClass.
var quotaResources = append(slices.Clone(podResources), string(corev1.ResourceRequestsStorage),
	string(corev1.ResourcePersistentVolumeClaims), string(v1alpha1.ClassStorage("<class>")))

// newResources returns an error for each resource in list that is not in old and whose name is
// unknown. Names with a domain are extended resources, and always valid. Resources in old are
// valid, because versions up to v0.1.0 stored unknown names.
func newResources(list, old corev1.ResourceList, known []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if _, stored := old[name]; stored {
			continue
		}
		if problem := unknownResource(string(name), known); problem != "" {
			errs = append(errs, field.Invalid(path.Key(truncate(string(name))), truncate(string(name)), problem))
		}
	}
	return errs
}

// UnknownQuotaResource returns an error message, with the nearest known name, if a quota cannot
// limit the resource with this name, and an empty string otherwise.
func UnknownQuotaResource(name string) string { return unknownResource(name, quotaResources) }

func unknownResource(name string, known []string) string {
	domain, _, extended := strings.Cut(name, "/")
	switch {
	case slices.Contains(known, name), strings.HasPrefix(name, corev1.ResourceHugePagesPrefix):
		return ""
	case v1alpha1.IsStorage(corev1.ResourceName(name)) && slices.Contains(known, string(corev1.ResourceRequestsStorage)):
		return ""
	case extended && domain != storageDomain && !strings.HasSuffix(domain, "."+storageDomain):
		return ""
	}
	problem := "unknown resource: must be " + strings.Join(known, ", ") +
		", hugepages-<size> or an extended resource, whose name has a domain, for example nvidia.com/gpu"
	if name := nearest.Name(name, known); name != "" {
		problem += "; did you mean " + name + "?"
	}
	return problem
}

// storageDomain is the domain in the names of resources that limit the storage of one StorageClass.
// Other names with this domain are not extended resources.
const storageDomain = "storage.k8s.io"

// requiredResources validates a list of resources that must not be empty.
func requiredResources(list corev1.ResourceList, path *field.Path) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, "must contain at least one resource")}
	}
	return resources(list, path)
}

// uniqueNames validates that a list has no duplicates and no more names than most, and calls check
// for each name.
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
