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
	// maxTerms bounds what the scheduler compares a pod with, list by list.
	maxTerms        = 100
	roleTaintPrefix = "node-role.kubernetes.io/"
	// nodeTaintPrefix and cloudTaintPrefix begin what the cluster itself says of
	// a node.
	nodeTaintPrefix  = "node.kubernetes.io/"
	cloudTaintPrefix = "node.cloudprovider.kubernetes.io/"
	schedulerChoice  = "the scheduler of the provider chooses the node"
)

// podPlacement keeps a pod from choosing one node, and from nodes with a
// role: where it runs is the scheduler's to say. Nor does it keep away, or
// follow, pods of other namespaces than its own: the scheduler heeds terms of
// anti-affinity also when it places those others.
func podPlacement(spec *corev1.PodSpec, namespace string) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, nodeLabels(spec.NodeSelector, podPath.Child("nodeSelector"))...)
	errs = append(errs, affinity(spec.Affinity, namespace, podPath.Child("affinity"))...)
	if len(spec.TopologySpreadConstraints) > maxTerms {
		errs = append(errs, field.TooMany(podPath.Child("topologySpreadConstraints"), len(spec.TopologySpreadConstraints), maxTerms))
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
			errs = append(errs, field.Forbidden(at, "must be set: every taint at once cannot be tolerated"))
		case toleration.Key == corev1.TaintNodeNotReady, toleration.Key == corev1.TaintNodeUnreachable:
			// For how long a pod stays on a node that is lost is its own to say, as
			// every pod does.
		case strings.HasPrefix(toleration.Key, nodeTaintPrefix), strings.HasPrefix(toleration.Key, cloudTaintPrefix):
			errs = append(errs, field.Forbidden(at, "a node that is cordoned, short of something or not set up takes no pods of others"))
		case strings.HasPrefix(toleration.Key, roleTaintPrefix), toleration.Key == v1alpha1.TaintVirtualNode:
			errs = append(errs, field.Forbidden(at, "nodes with a role of their own are not for pods of others"))
		}
	}
	return errs
}

// affinity checks the affinities of a pod in a namespace; the name is empty
// where it is not known, and then no term can have one.
func affinity(wanted *corev1.Affinity, namespace string, path *field.Path) field.ErrorList {
	if wanted == nil {
		return nil
	}
	errs := nodeTerms(wanted.NodeAffinity, path.Child("nodeAffinity"))
	if a := wanted.PodAffinity; a != nil {
		errs = append(errs, podTerms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution,
			namespace, path.Child("podAffinity"))...)
	}
	if a := wanted.PodAntiAffinity; a != nil {
		errs = append(errs, podTerms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution,
			namespace, path.Child("podAntiAffinity"))...)
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
		check(preferred.Preference, path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("preference"))
	}
	return errs
}

func podTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, namespace string, path *field.Path) field.ErrorList {
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

// podTerm keeps a term to the pods of the namespace of its own pod.
func podTerm(term *corev1.PodAffinityTerm, namespace string, path *field.Path) field.ErrorList {
	const own = "pods of other namespaces are none of this pod's: leave it out"
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

// namesNode tells whether a label singles out a node, or nodes with a role.
func namesNode(label string) bool {
	return label == corev1.LabelHostname || strings.HasPrefix(label, roleTaintPrefix)
}
