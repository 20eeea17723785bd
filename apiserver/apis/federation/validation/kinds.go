// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
)

const (
	// maxKinds is the maximum number of kinds in one list. The virtual kubelets watch each kind in
	// each offloaded namespace.
	maxKinds = 32
	// maxExcluded is the maximum number of excluded keys of labels, and of annotations.
	maxExcluded = 128
)

// Parts of error messages: reasons for which the kinds of an API group cannot be configured for
// reflection.
const (
	builtIn     = "the kinds of this group that can be reflected are always reflected"
	exports     = "ServiceExports are always supported, and the provider creates its ServiceImports"
	makesPods   = "a provider creates pods only from ShadowPods, within the quota of the consumer"
	givesRights = "its objects grant permissions or change the API of the provider"
	ofClusters  = "its objects describe the cluster or the nodes of the provider"
	federated   = "objects of the federation are not reflected"
)

// reservedGroups are the API groups whose kinds cannot be configured for reflection, each with the
// reason: objects of these kinds affect more than the remote namespace, or are reflected without
// configuration.
var reservedGroups = map[string]string{
	"":                             builtIn,
	"networking.k8s.io":            builtIn,
	"multicluster.x-k8s.io":        exports,
	"apps":                         makesPods,
	"batch":                        makesPods,
	"autoscaling":                  makesPods,
	"extensions":                   makesPods,
	"policy":                       ofClusters,
	"discovery.k8s.io":             ofClusters,
	"events.k8s.io":                ofClusters,
	"coordination.k8s.io":          ofClusters,
	"scheduling.k8s.io":            ofClusters,
	"storage.k8s.io":               ofClusters,
	"resource.k8s.io":              ofClusters,
	"node.k8s.io":                  ofClusters,
	"metrics.k8s.io":               ofClusters,
	"flowcontrol.apiserver.k8s.io": ofClusters,
	"internal.apiserver.k8s.io":    ofClusters,
	"apiregistration.k8s.io":       givesRights,
	"apiextensions.k8s.io":         givesRights,
	"admissionregistration.k8s.io": givesRights,
	"authentication.k8s.io":        givesRights,
	"authorization.k8s.io":         givesRights,
	"certificates.k8s.io":          givesRights,
	"rbac.authorization.k8s.io":    givesRights,
	"storagemigration.k8s.io":      ofClusters,
}

// IsBuiltInKind reports whether the objects of a resource are reflected without configuration.
func IsBuiltInKind(group, resource string) bool {
	switch group {
	case "":
		return resource == "configmaps" || resource == "secrets" || resource == "services"
	case "networking.k8s.io":
		return resource == "ingresses"
	case "discovery.k8s.io":
		return resource == "endpointslices"
	}
	return false
}

// ReflectedKinds validates a list of additional kinds for reflection. It does not verify that the
// kinds exist and are namespaced.
func ReflectedKinds(kinds []metav1.GroupVersionResource, path *field.Path) field.ErrorList {
	if len(kinds) > maxKinds {
		return field.ErrorList{field.TooMany(path, len(kinds), maxKinds)}
	}
	var errs field.ErrorList
	seen := map[schema.GroupResource]bool{}
	for i, kind := range kinds {
		at, name := path.Index(i), schema.GroupResource{Group: kind.Group, Resource: kind.Resource}
		if seen[name] {
			errs = append(errs, field.Duplicate(at, truncate(name.String())))
		}
		seen[name] = true
		errs = append(errs, kindNames(kind.Group, kind.Version, kind.Resource, at)...)
		errs = append(errs, mayBeConfigured(kind.Group, at.Child("group"))...)
	}
	return errs
}

// kindNames validates the group, the version and the name of a resource.
func kindNames(group, version, resource string, path *field.Path) field.ErrorList {
	errs := optional(group, path.Child("group"), subdomain)
	errs = append(errs, dnsLabel(version, path.Child("version"))...)
	if strings.Contains(resource, "/") {
		return append(errs, field.Invalid(path.Child("resource"), truncate(resource),
			"must be a resource, not a subresource"))
	}
	return append(errs, dnsLabel(resource, path.Child("resource"))...)
}

func mayBeConfigured(group string, path *field.Path) field.ErrorList {
	reason, reserved := reservedGroups[group]
	if inDomain(group, "liqo.io") {
		reason, reserved = federated, true
	}
	if reserved {
		return field.ErrorList{field.Forbidden(path,
			fmt.Sprintf("no kind of group %q can be configured: %s", truncate(group), reason))}
	}
	return nil
}

// reflection validates spec.reflection of a virtual node.
func reflection(spec *federation.VirtualNodeReflection, path *field.Path) field.ErrorList {
	errs := excluded(spec.ExcludedLabels, path.Child("excludedLabels"))
	errs = append(errs, excluded(spec.ExcludedAnnotations, path.Child("excludedAnnotations"))...)
	kinds := path.Child("kinds")
	if len(spec.Kinds) > maxKinds {
		return append(errs, field.TooMany(kinds, len(spec.Kinds), maxKinds))
	}
	seen := map[schema.GroupResource]bool{}
	for i := range spec.Kinds {
		kind, at := &spec.Kinds[i], kinds.Index(i)
		name := schema.GroupResource{Group: kind.Group, Resource: kind.Resource}
		if seen[name] {
			errs = append(errs, field.Duplicate(at, truncate(name.String())))
		}
		seen[name] = true
		errs = append(errs, kindNames(kind.Group, kind.Version, kind.Resource, at)...)
		if IsBuiltInKind(kind.Group, kind.Resource) {
			errs = append(errs, oneOf(kind.Version, at.Child("version"), "v1")...)
		} else {
			errs = append(errs, mayBeConfigured(kind.Group, at.Child("group"))...)
		}
		errs = append(errs, oneOf(kind.Policy, at.Child("policy"), "",
			federation.ReflectionDenyList, federation.ReflectionAllowList)...)
		errs = append(errs, excluded(kind.ExcludedLabels, at.Child("excludedLabels"))...)
		errs = append(errs, excluded(kind.ExcludedAnnotations, at.Child("excludedAnnotations"))...)
	}
	return errs
}

// excluded validates excluded keys of labels or annotations. Keys of liqo.io cannot be excluded,
// because reflection itself depends on them.
func excluded(keys []string, path *field.Path) field.ErrorList {
	errs := uniqueNames(keys, maxExcluded, path, qualifiedName)
	for i, key := range keys[:min(len(keys), maxExcluded)] {
		if domain, _, _ := strings.Cut(key, "/"); inDomain(domain, "liqo.io") {
			errs = append(errs, field.Forbidden(path.Index(i), "must not be a key of liqo.io"))
		}
	}
	return errs
}
