// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	maxSelectorTerms        = 32
	maxSelectorRequirements = 32
	maxSelectorValues       = 128
	maxClusters             = 1000
)

// ValidateNamespaceOffloading tells what is wrong with a new namespace
// offloading.
func ValidateNamespaceOffloading(offloading *federation.NamespaceOffloading) field.ErrorList {
	errs := metadata(offloading, true)
	errs = append(errs, ValidateOffloadingName(offloading.Name)...)
	return append(errs, namespaceOffloadingSpec(&offloading.Spec)...)
}

// ValidateNamespaceOffloadingUpdate tells what is wrong with a new version of
// a namespace offloading.
func ValidateNamespaceOffloadingUpdate(offloading, old *federation.NamespaceOffloading) field.ErrorList {
	errs := metadataUpdate(offloading, old)
	errs = append(errs, namespaceOffloadingSpec(&offloading.Spec)...)
	errs = append(errs, immutable(offloading.Spec.NamespaceMappingStrategy, old.Spec.NamespaceMappingStrategy, specPath.Child("namespaceMappingStrategy"))...)
	return append(errs, immutable(offloading.Spec.RemoteNamespaceName, old.Spec.RemoteNamespaceName, specPath.Child("remoteNamespaceName"))...)
}

// ValidateNamespaceOffloadingStatusUpdate tells what is wrong with a new
// status.
func ValidateNamespaceOffloadingStatusUpdate(offloading, old *federation.NamespaceOffloading) field.ErrorList {
	status := &offloading.Status
	errs := metadataUpdate(offloading, old)
	errs = append(errs, notNegative(status.ObservedGeneration, statusPath.Child("observedGeneration"))...)
	errs = append(errs, oneOf(status.Phase, statusPath.Child("phase"), "", federation.OffloadingReady, federation.OffloadingInProgress,
		federation.OffloadingNoClusterSelected, federation.OffloadingSomeFailed, federation.OffloadingAllFailed, federation.OffloadingTerminating)...)
	errs = append(errs, optional(status.RemoteNamespaceName, statusPath.Child("remoteNamespaceName"), dnsLabel)...)
	errs = append(errs, conditions(status.Conditions, statusPath.Child("conditions"))...)

	path := statusPath.Child("clusters")
	if len(status.Clusters) > maxClusters {
		return append(errs, field.TooMany(path, len(status.Clusters), maxClusters))
	}
	seen := map[string]bool{}
	for i, cluster := range status.Clusters {
		if seen[cluster.Name] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("name"), truncate(cluster.Name)))
		}
		seen[cluster.Name] = true
		errs = append(errs, clusterName(cluster.Name, path.Index(i).Child("name"))...)
		errs = append(errs, conditions(cluster.Conditions, path.Index(i).Child("conditions"))...)
	}
	return errs
}

// ValidateOffload tells what is wrong with what the verb offload asks for.
func ValidateOffload(offload *federation.Offload) field.ErrorList {
	return namespaceOffloadingSpec(&offload.Spec)
}

// ValidateOffloadingName tells whether a namespace offloading may have that
// name: there is one a namespace.
func ValidateOffloadingName(name string) field.ErrorList {
	if name == v1alpha1.NamespaceOffloadingName {
		return nil
	}
	return field.ErrorList{field.NotSupported(metadataPath.Child("name"), truncate(name), []string{v1alpha1.NamespaceOffloadingName})}
}

func namespaceOffloadingSpec(spec *federation.NamespaceOffloadingSpec) field.ErrorList {
	errs := oneOf(spec.NamespaceMappingStrategy, specPath.Child("namespaceMappingStrategy"), federation.DefaultName, federation.EnforceSameName, federation.SelectedName)
	errs = append(errs, remoteNamespaceName(spec)...)
	errs = append(errs, oneOf(spec.PodOffloadingStrategy, specPath.Child("podOffloadingStrategy"), federation.LocalAndRemote, federation.Local, federation.Remote)...)
	errs = append(errs, oneOf(spec.Enforcement, specPath.Child("enforcement"), federation.Warn, federation.Evict)...)
	errs = append(errs, oneOf(spec.Volumes.OnUnoffload, specPath.Child("volumes", "onUnoffload"), "", federation.UnoffloadRefuse,
		federation.UnoffloadMove, federation.UnoffloadRetain, federation.UnoffloadDelete)...)
	return append(errs, nodeSelector(&spec.ClusterSelector, specPath.Child("clusterSelector"))...)
}

// remoteNamespaceName checks the name of the twins, which one strategy needs
// and the others make themselves.
func remoteNamespaceName(spec *federation.NamespaceOffloadingSpec) field.ErrorList {
	path := specPath.Child("remoteNamespaceName")
	switch selected := spec.NamespaceMappingStrategy == federation.SelectedName; {
	case selected && spec.RemoteNamespaceName == "":
		return field.ErrorList{field.Required(path, "name the twin namespaces, or use another namespaceMappingStrategy")}
	case !selected && spec.RemoteNamespaceName != "":
		return field.ErrorList{field.Forbidden(path, "needs namespaceMappingStrategy SelectedName")}
	}
	return optional(spec.RemoteNamespaceName, path, dnsLabel)
}

// nodeSelector checks a selector as it is checked in a pod's affinity, and
// bounds it. One without terms is fine.
func nodeSelector(selector *corev1.NodeSelector, path *field.Path) field.ErrorList {
	terms := path.Child("nodeSelectorTerms")
	if len(selector.NodeSelectorTerms) > maxSelectorTerms {
		return field.ErrorList{field.TooMany(terms, len(selector.NodeSelectorTerms), maxSelectorTerms)}
	}
	var errs field.ErrorList
	for i, term := range selector.NodeSelectorTerms {
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			errs = append(errs, field.Required(terms.Index(i), "must have an expression: a term without any matches nothing"))
		}
		errs = append(errs, boundedRequirements(term.MatchExpressions, terms.Index(i).Child("matchExpressions"))...)
		errs = append(errs, boundedRequirements(term.MatchFields, terms.Index(i).Child("matchFields"))...)
	}
	if len(errs) > 0 {
		return errs
	}
	if _, err := nodeaffinity.NewNodeSelector(selector, field.WithPath(path)); err != nil {
		return fieldErrors(err, path)
	}
	return nil
}

func boundedRequirements(requirements []corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	if len(requirements) > maxSelectorRequirements {
		return field.ErrorList{field.TooMany(path, len(requirements), maxSelectorRequirements)}
	}
	var errs field.ErrorList
	for i, requirement := range requirements {
		if len(requirement.Values) > maxSelectorValues {
			errs = append(errs, field.TooMany(path.Index(i).Child("values"), len(requirement.Values), maxSelectorValues))
		}
	}
	return errs
}

// fieldErrors takes an aggregate of field errors apart.
func fieldErrors(err error, path *field.Path) field.ErrorList {
	aggregate, ok := err.(interface{ Errors() []error })
	if !ok {
		return field.ErrorList{field.Invalid(path, "", err.Error())}
	}
	var errs field.ErrorList
	for _, one := range aggregate.Errors() {
		if typed, ok := one.(*field.Error); ok {
			errs = append(errs, typed)
			continue
		}
		errs = append(errs, field.Invalid(path, "", one.Error()))
	}
	return errs
}
