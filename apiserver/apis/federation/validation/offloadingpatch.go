// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
)

// offloadingPatch validates spec.offloadingPatch of a virtual node, by the rules that the provider
// applies to shadow pods. Otherwise the provider would refuse every pod of the virtual node.
func offloadingPatch(patch *federation.OffloadingPatch, path *field.Path) field.ErrorList {
	errs := labels(patch.NodeSelector, path.Child("nodeSelector"))
	errs = append(errs, nodeLabels(patch.NodeSelector, path.Child("nodeSelector"))...)
	errs = append(errs, patchedAffinity(patch.Affinity, path.Child("affinity"))...)
	errs = append(errs, tolerations(patch.Tolerations, path.Child("tolerations"))...)
	for i, toleration := range patch.Tolerations {
		at := path.Child("tolerations").Index(i)
		errs = append(errs, oneOf(toleration.Operator, at.Child("operator"), "",
			corev1.TolerationOpEqual, corev1.TolerationOpExists)...)
		errs = append(errs, oneOf(toleration.Effect, at.Child("effect"), "",
			corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
		errs = append(errs, metav1validation.ValidateLabelName(toleration.Key, at.Child("key"))...)
	}
	if patch.RuntimeClassName != nil {
		errs = append(errs, optional(*patch.RuntimeClassName, path.Child("runtimeClassName"), subdomain)...)
	}
	errs = append(errs, excluded(patch.ExcludedLabels, path.Child("excludedLabels"))...)
	return append(errs, excluded(patch.ExcludedAnnotations, path.Child("excludedAnnotations"))...)
}

// patchedAffinity validates the affinity of an offloading patch.
func patchedAffinity(wanted *corev1.Affinity, path *field.Path) field.ErrorList {
	if wanted == nil {
		return nil
	}
	errs := affinity(wanted, "", path)
	if a := wanted.NodeAffinity; a != nil {
		at := path.Child("nodeAffinity")
		if required := a.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			at := at.Child("requiredDuringSchedulingIgnoredDuringExecution")
			if len(required.NodeSelectorTerms) == 0 {
				errs = append(errs, field.Required(at.Child("nodeSelectorTerms"),
					"must have at least one term: without terms no node matches"))
			}
			errs = append(errs, nodeSelector(required, at)...)
		}
		at = at.Child("preferredDuringSchedulingIgnoredDuringExecution")
		if len(a.PreferredDuringSchedulingIgnoredDuringExecution) > maxSelectorTerms {
			return append(errs, field.TooMany(at, len(a.PreferredDuringSchedulingIgnoredDuringExecution), maxSelectorTerms))
		}
		for i, term := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			errs = append(errs, weight(term.Weight, at.Index(i))...)
			preference := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term.Preference}}
			errs = append(errs, nodeSelector(preference, at.Index(i).Child("preference"))...)
		}
	}
	if a := wanted.PodAffinity; a != nil {
		errs = append(errs, patchedTerms(a.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))...)
	}
	if a := wanted.PodAntiAffinity; a != nil {
		errs = append(errs, patchedTerms(a.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))...)
	}
	return errs
}

func patchedTerms(
	required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, path *field.Path,
) field.ErrorList {
	if len(required) > maxTerms || len(preferred) > maxTerms {
		// The function affinity has already returned an error for the length.
		return nil
	}
	var errs field.ErrorList
	check := func(term *corev1.PodAffinityTerm, at *field.Path) {
		errs = append(errs, metav1validation.ValidateLabelName(term.TopologyKey, at.Child("topologyKey"))...)
		errs = append(errs, metav1validation.ValidateLabelSelector(term.LabelSelector,
			metav1validation.LabelSelectorValidationOptions{}, at.Child("labelSelector"))...)
		if len(term.MatchLabelKeys)+len(term.MismatchLabelKeys) > 0 {
			errs = append(errs, field.Forbidden(at.Child("matchLabelKeys"), "must be empty in a patch: use labelSelector"))
		}
	}
	at := path.Child("requiredDuringSchedulingIgnoredDuringExecution")
	for i := range required {
		check(&required[i], at.Index(i))
	}
	at = path.Child("preferredDuringSchedulingIgnoredDuringExecution")
	for i := range preferred {
		errs = append(errs, weight(preferred[i].Weight, at.Index(i))...)
		check(&preferred[i].PodAffinityTerm, at.Index(i).Child("podAffinityTerm"))
	}
	return errs
}

func weight(weight int32, path *field.Path) field.ErrorList {
	if weight < 1 || weight > 100 {
		return field.ErrorList{field.Invalid(path.Child("weight"), weight, "must be 1 to 100")}
	}
	return nil
}
