// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// ValidateNamespaceOffloading validates a new namespace offloading.
func ValidateNamespaceOffloading(offloading *federation.NamespaceOffloading) field.ErrorList {
	errs := metadata(offloading, true)
	errs = append(errs, ValidateOffloadingName(offloading.Name)...)
	errs = append(errs, namespaceOffloadingSpec(&offloading.Spec)...)
	return append(errs, nodeFields(&offloading.Spec.ClusterSelector)...)
}

// ValidateNamespaceOffloadingUpdate validates an update of a namespace offloading. The names of
// remote namespaces cannot change.
func ValidateNamespaceOffloadingUpdate(offloading, old *federation.NamespaceOffloading) field.ErrorList {
	errs := metadataUpdate(offloading, old)
	errs = append(errs, namespaceOffloadingSpec(&offloading.Spec)...)
	if !equality.Semantic.DeepEqual(offloading.Spec.ClusterSelector, old.Spec.ClusterSelector) {
		errs = append(errs, nodeFields(&offloading.Spec.ClusterSelector)...)
	}
	errs = append(errs, immutable(offloading.Spec.NamespaceMappingStrategy, old.Spec.NamespaceMappingStrategy,
		specPath.Child("namespaceMappingStrategy"))...)
	return append(errs, immutable(offloading.Spec.RemoteNamespaceName, old.Spec.RemoteNamespaceName,
		specPath.Child("remoteNamespaceName"))...)
}

// ValidateNamespaceOffloadingStatusUpdate validates an update of the status of a namespace
// offloading.
func ValidateNamespaceOffloadingStatusUpdate(offloading, old *federation.NamespaceOffloading) field.ErrorList {
	status := &offloading.Status
	errs := metadataUpdate(offloading, old)
	errs = append(errs, notNegative(status.ObservedGeneration, statusPath.Child("observedGeneration"))...)
	errs = append(errs, oneOf(status.Phase, statusPath.Child("phase"), "",
		federation.OffloadingReady, federation.OffloadingInProgress, federation.OffloadingNoClusterSelected,
		federation.OffloadingSomeFailed, federation.OffloadingAllFailed, federation.OffloadingTerminating)...)
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

// ValidateOffload validates the body of a request to the verb offload.
func ValidateOffload(offload *federation.Offload) field.ErrorList {
	return namespaceOffloadingSpec(&offload.Spec)
}

// ValidateOffloadingName validates that a namespace offloading is named offloading: a namespace has
// at most one.
func ValidateOffloadingName(name string) field.ErrorList {
	if name == v1alpha1.NamespaceOffloadingName {
		return nil
	}
	return field.ErrorList{field.NotSupported(metadataPath.Child("name"), truncate(name),
		[]string{v1alpha1.NamespaceOffloadingName})}
}

func namespaceOffloadingSpec(spec *federation.NamespaceOffloadingSpec) field.ErrorList {
	errs := oneOf(spec.NamespaceMappingStrategy, specPath.Child("namespaceMappingStrategy"),
		federation.DefaultName, federation.EnforceSameName, federation.SelectedName)
	errs = append(errs, remoteNamespaceName(spec)...)
	errs = append(errs, oneOf(spec.PodOffloadingStrategy, specPath.Child("podOffloadingStrategy"),
		federation.LocalAndRemote, federation.Local, federation.Remote)...)
	errs = append(errs, oneOf(spec.Enforcement, specPath.Child("enforcement"), federation.Warn, federation.Evict)...)
	errs = append(errs, oneOf(spec.Volumes.OnUnoffload, specPath.Child("volumes", "onUnoffload"), "",
		federation.UnoffloadRefuse, federation.UnoffloadMove, federation.UnoffloadRetain, federation.UnoffloadDelete)...)
	return append(errs, nodeSelector(&spec.ClusterSelector, specPath.Child("clusterSelector"))...)
}

// remoteNamespaceName validates spec.remoteNamespaceName: it is required with strategy
// SelectedName, and forbidden with the other strategies.
func remoteNamespaceName(spec *federation.NamespaceOffloadingSpec) field.ErrorList {
	path := specPath.Child("remoteNamespaceName")
	switch selected := spec.NamespaceMappingStrategy == federation.SelectedName; {
	case selected && spec.RemoteNamespaceName == "":
		return field.ErrorList{field.Required(path, "must be set with namespaceMappingStrategy SelectedName")}
	case !selected && spec.RemoteNamespaceName != "":
		return field.ErrorList{field.Forbidden(path, "may only be set with namespaceMappingStrategy SelectedName")}
	}
	return optional(spec.RemoteNamespaceName, path, dnsLabel)
}

// nodeSelector validates a selector by the rules for the node affinity of a pod, and limits its
// size. A selector without terms is valid.
func nodeSelector(selector *corev1.NodeSelector, path *field.Path) field.ErrorList {
	terms := path.Child("nodeSelectorTerms")
	if len(selector.NodeSelectorTerms) > maxSelectorTerms {
		return field.ErrorList{field.TooMany(terms, len(selector.NodeSelectorTerms), maxSelectorTerms)}
	}
	var errs field.ErrorList
	for i, term := range selector.NodeSelectorTerms {
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			errs = append(errs, field.Required(terms.Index(i),
				"must have at least one expression: an empty term matches no node"))
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

// nodeFields validates that matchFields in spec.clusterSelector contain only metadata.name, the
// only field of nodes that Kubernetes can select by. Versions up to v0.1.0 stored other fields, so
// a selector that does not change is not validated.
func nodeFields(selector *corev1.NodeSelector) field.ErrorList {
	var errs field.ErrorList
	for i, term := range selector.NodeSelectorTerms {
		path := specPath.Child("clusterSelector", "nodeSelectorTerms").Index(i).Child("matchFields")
		for j, requirement := range term.MatchFields {
			errs = append(errs, oneOf(requirement.Key, path.Index(j).Child("key"), metav1.ObjectNameField)...)
		}
	}
	return errs
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

// fieldErrors returns the errors of an aggregate. An error that is not a field error becomes one
// for path.
func fieldErrors(err error, path *field.Path) field.ErrorList {
	var aggregate interface {
		error
		Errors() []error
	}
	if !errors.As(err, &aggregate) {
		return field.ErrorList{field.Invalid(path, "", err.Error())}
	}
	var errs field.ErrorList
	for _, one := range aggregate.Errors() {
		var typed *field.Error
		if errors.As(one, &typed) {
			errs = append(errs, typed)
			continue
		}
		errs = append(errs, field.Invalid(path, "", one.Error()))
	}
	return errs
}
