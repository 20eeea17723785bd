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
	// maxKinds bounds the kinds that are named in one list: each costs watches
	// in each offloaded namespace.
	maxKinds = 32
	// maxExcluded bounds the keys of labels or annotations that are left out.
	maxExcluded = 128
)

// Why the kinds of a group are not for peers to copy.
const (
	builtIn     = "what may be copied of this group is copied already, and the rest is the provider's"
	exports     = "ServiceExports are followed already, and what is imported is the provider's"
	makesPods   = "pods are made of ShadowPods, within what the provider offers; nothing else makes any"
	givesRights = "it says who may do what, or what everybody may write: that is the provider's"
	ofClusters  = "it is about the cluster or its nodes: that is the provider's"
	ofOurs      = "the federation's own objects are not copied"
)

// homeGroups are the groups none of whose kinds may be configured to be
// copied. Whoever writes objects of these kinds gets more than their contents.
var homeGroups = map[string]string{
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

// IsBuiltInKind tells whether the objects of a resource are copied without
// being configured.
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

// ReflectedKinds tells what is wrong with a list of kinds that are configured
// to be copied beside the built-in ones. Whether they are namespaced, only an
// API server can tell.
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

// kindNames checks the parts of the name of a resource. One with a slash is a
// subresource, and has no objects of its own.
func kindNames(group, version, resource string, path *field.Path) field.ErrorList {
	errs := optional(group, path.Child("group"), subdomain)
	errs = append(errs, dnsLabel(version, path.Child("version"))...)
	if strings.Contains(resource, "/") {
		return append(errs, field.Invalid(path.Child("resource"), truncate(resource), "must not be a subresource"))
	}
	return append(errs, dnsLabel(resource, path.Child("resource"))...)
}

func mayBeConfigured(group string, path *field.Path) field.ErrorList {
	reason, home := homeGroups[group]
	if inDomain(group, "liqo.io") {
		reason, home = ofOurs, true
	}
	if home {
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("no kind of group %q can be configured: %s", truncate(group), reason))}
	}
	return nil
}

// reflection checks what is said about the copies that a virtual node makes.
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
		errs = append(errs, oneOf(kind.Policy, at.Child("policy"), "", federation.ReflectionDenyList, federation.ReflectionAllowList)...)
		errs = append(errs, excluded(kind.ExcludedLabels, at.Child("excludedLabels"))...)
		errs = append(errs, excluded(kind.ExcludedAnnotations, at.Child("excludedAnnotations"))...)
	}
	return errs
}

// excluded checks keys of labels or annotations that are left out. Ours say
// what happens to an object, so they are looked at in any case.
func excluded(keys []string, path *field.Path) field.ErrorList {
	errs := uniqueNames(keys, maxExcluded, path, qualifiedName)
	for i, key := range keys[:min(len(keys), maxExcluded)] {
		if domain, _, _ := strings.Cut(key, "/"); inDomain(domain, "liqo.io") {
			errs = append(errs, field.Forbidden(path.Index(i), "keys of liqo.io cannot be left out"))
		}
	}
	return errs
}
