// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	maxTolerations = 100
	// maxTerms is the maximum length of each list of terms that the scheduler evaluates for a pod.
	maxTerms        = 100
	roleTaintPrefix = "node-role.kubernetes.io/"
	// nodeTaintPrefix and cloudTaintPrefix are prefixes of taints that Kubernetes sets.
	nodeTaintPrefix  = "node.kubernetes.io/"
	cloudTaintPrefix = "node.cloudprovider.kubernetes.io/"
	schedulerChoice  = "must not select a node or a role of nodes: the scheduler of the provider selects the node"
)

// podPlacement validates that a pod does not select single nodes or nodes with a role, that its pod
// affinity and anti-affinity select only pods of its own namespace, and that its tolerations are
// permitted. If a pod had an anti-affinity to pods of another namespace, the scheduler would keep
// those pods off the node of this pod.
func podPlacement(spec *corev1.PodSpec, namespace string) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, nodeLabels(spec.NodeSelector, podPath.Child("nodeSelector"))...)
	errs = append(errs, affinity(spec.Affinity, namespace, podPath.Child("affinity"))...)
	if len(spec.TopologySpreadConstraints) > maxTerms {
		errs = append(errs, field.TooMany(podPath.Child("topologySpreadConstraints"),
			len(spec.TopologySpreadConstraints), maxTerms))
	}
	return append(errs, tolerations(spec.Tolerations, podPath.Child("tolerations"))...)
}

func nodeLabels(selector map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		if namesNode(key) {
			errs = append(errs, field.Forbidden(path.Key(key), schedulerChoice))
		}
	}
	return errs
}

func tolerations(list []corev1.Toleration, path *field.Path) field.ErrorList {
	if len(list) > maxTolerations {
		return field.ErrorList{field.TooMany(path, len(list), maxTolerations)}
	}
	var errs field.ErrorList
	for i, toleration := range list {
		at := path.Index(i).Child("key")
		switch {
		case toleration.Key == "":
			errs = append(errs, field.Forbidden(at, "must be set: a toleration of all taints is not allowed"))
		case toleration.Key == corev1.TaintNodeNotReady, toleration.Key == corev1.TaintNodeUnreachable:
			// Kubernetes adds these tolerations to every pod, to limit the time that it stays on a
			// node that is not ready.
		case strings.HasPrefix(toleration.Key, nodeTaintPrefix), strings.HasPrefix(toleration.Key, cloudTaintPrefix):
			errs = append(errs, field.Forbidden(at, "must not be a taint of Kubernetes, except not-ready and unreachable"))
		case strings.HasPrefix(toleration.Key, roleTaintPrefix), toleration.Key == v1alpha1.TaintVirtualNode:
			errs = append(errs, field.Forbidden(at, "must not be a taint of a node role or of virtual nodes"))
		}
	}
	return errs
}

// affinity validates the affinity of a pod in a namespace. If namespace is empty, the namespace is
// unknown, and no term may name a namespace.
func affinity(wanted *corev1.Affinity, namespace string, path *field.Path) field.ErrorList {
	if wanted == nil {
		return nil
	}
	errs := nodeTerms(wanted.NodeAffinity, path.Child("nodeAffinity"))
	if a := wanted.PodAffinity; a != nil {
		errs = append(errs, podTerms(a.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PreferredDuringSchedulingIgnoredDuringExecution, namespace, path.Child("podAffinity"))...)
	}
	if a := wanted.PodAntiAffinity; a != nil {
		errs = append(errs, podTerms(a.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PreferredDuringSchedulingIgnoredDuringExecution, namespace, path.Child("podAntiAffinity"))...)
	}
	return errs
}

func nodeTerms(wanted *corev1.NodeAffinity, path *field.Path) field.ErrorList {
	if wanted == nil {
		return nil
	}
	var errs field.ErrorList
	check := func(term corev1.NodeSelectorTerm, at *field.Path) {
		if len(term.MatchFields) > 0 {
			errs = append(errs, field.Forbidden(at.Child("matchFields"), schedulerChoice))
		}
		for i, requirement := range term.MatchExpressions {
			if namesNode(requirement.Key) {
				errs = append(errs, field.Forbidden(at.Child("matchExpressions").Index(i).Child("key"), schedulerChoice))
			}
		}
	}
	if required := wanted.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		for i, term := range required.NodeSelectorTerms {
			check(term, path.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms").Index(i))
		}
	}
	for i, preferred := range wanted.PreferredDuringSchedulingIgnoredDuringExecution {
		at := path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		check(preferred.Preference, at.Child("preference"))
	}
	return errs
}

func podTerms(
	required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, namespace string, path *field.Path,
) field.ErrorList {
	at := path.Child("requiredDuringSchedulingIgnoredDuringExecution")
	if len(required) > maxTerms {
		return field.ErrorList{field.TooMany(at, len(required), maxTerms)}
	}
	var errs field.ErrorList
	for i := range required {
		errs = append(errs, podTerm(&required[i], namespace, at.Index(i))...)
	}
	at = path.Child("preferredDuringSchedulingIgnoredDuringExecution")
	if len(preferred) > maxTerms {
		return append(errs, field.TooMany(at, len(preferred), maxTerms))
	}
	for i := range preferred {
		errs = append(errs, podTerm(&preferred[i].PodAffinityTerm, namespace, at.Index(i).Child("podAffinityTerm"))...)
	}
	return errs
}

// podTerm validates that an affinity term selects only pods of the namespace.
func podTerm(term *corev1.PodAffinityTerm, namespace string, path *field.Path) field.ErrorList {
	const own = "must be empty: only pods of the same namespace can be selected"
	var errs field.ErrorList
	for i, name := range term.Namespaces {
		if name == "" || name != namespace {
			errs = append(errs, field.Forbidden(path.Child("namespaces").Index(i), own))
			break
		}
	}
	if term.NamespaceSelector != nil {
		errs = append(errs, field.Forbidden(path.Child("namespaceSelector"), own))
	}
	return errs
}

// namesNode reports whether a label identifies a single node or the nodes with a role.
func namesNode(label string) bool {
	return label == corev1.LabelHostname || strings.HasPrefix(label, roleTaintPrefix)
}
