// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/pattern"
	"liqo.io/federation/apiserver/podspec"
)

// Refusals returns an error for each label, annotation and field of a pod that a policy does not permit. specPath is
// the path of the spec. consumer is the name of the ForeignCluster in which the provider's administrator can permit
// more. Values of old, the pod before an update, are permitted; old is nil for a new pod.
func Refusals(
	policy *v1alpha1.PodPolicy, pod, old *corev1.PodTemplateSpec, specPath *field.Path, consumer string,
) field.ErrorList {
	if old == nil {
		old = &corev1.PodTemplateSpec{}
	}
	remedy := remedy{consumer}
	metadata := field.NewPath("metadata")
	errs := keys(policy, pod.Labels, old.Labels, metadata.Child("labels"), remedy)
	errs = append(errs, keys(policy, pod.Annotations, old.Annotations, metadata.Child("annotations"), remedy)...)
	for i, toleration := range pod.Spec.Tolerations {
		if !ownTaint(toleration.Key) && !pattern.MatchesAny(policy.Tolerations, toleration.Key) &&
			!slices.ContainsFunc(old.Spec.Tolerations, func(before corev1.Toleration) bool {
				return apiequality.Semantic.DeepEqual(before, toleration)
			}) {
			errs = append(errs, field.Forbidden(specPath.Child("tolerations").Index(i).Child("key"),
				"the provider does not permit tolerations of taint "+toleration.Key+remedy.in("tolerations")))
		}
	}
	class, oldClass := ptr.Deref(pod.Spec.RuntimeClassName, ""), ptr.Deref(old.Spec.RuntimeClassName, "")
	if class != "" && class != oldClass &&
		!anything(policy.RuntimeClasses) && !slices.Contains(policy.RuntimeClasses, class) {
		errs = append(errs, field.Forbidden(specPath.Child("runtimeClassName"),
			"the provider permits "+list(policy.RuntimeClasses)+remedy.in("runtimeClasses")))
	}
	grace := ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 0)
	if most := policy.MaxGracePeriodSeconds; most != nil && grace > *most &&
		grace > ptr.Deref(old.Spec.TerminationGracePeriodSeconds, 0) {
		errs = append(errs, field.Invalid(specPath.Child("terminationGracePeriodSeconds"), grace,
			fmt.Sprintf("the provider permits at most %d seconds%s", *most, remedy.in("maxGracePeriodSeconds"))))
	}
	if policy.Limits == v1alpha1.PodLimitsRequired {
		errs = append(errs, withoutLimits(&pod.Spec, &old.Spec, specPath, remedy)...)
	}
	return errs
}

// limitedResources are the resources that containers must limit if limits are required.
var limitedResources = []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// withoutLimits returns an error for each container of a pod that can use more of a resource than it requests.
// Ephemeral containers cannot have limits; a new ShadowPod has none.
func withoutLimits(pod, old *corev1.PodSpec, path *field.Path, remedy remedy) field.ErrorList {
	var errs field.ErrorList
	for _, list := range []struct {
		name       string
		containers []corev1.Container
		old        []corev1.Container
	}{
		{"initContainers", pod.InitContainers, old.InitContainers}, {"containers", pod.Containers, old.Containers},
	} {
		for i, container := range list.containers {
			at := path.Child(list.name).Index(i).Child("resources", "limits")
			before := slices.IndexFunc(list.old, func(old corev1.Container) bool { return old.Name == container.Name })
			for _, resource := range limitedResources {
				if limited(container, resource) || before >= 0 && !limited(list.old[before], resource) {
					continue
				}
				errs = append(errs, field.Forbidden(at.Key(string(resource)), fmt.Sprintf("the provider requires that "+
					"container %s has a limit for %s that is not greater than its request%s", container.Name, resource,
					remedy.without("limits"))))
			}
		}
	}
	return errs
}

// limited reports whether a container cannot use more of a resource than it requests, which is what quotas count. A
// limit of 0 means that there is none.
func limited(container corev1.Container, resource corev1.ResourceName) bool {
	limit, request := container.Resources.Limits[resource], container.Resources.Requests[resource]
	return limit.Sign() > 0 && limit.Cmp(request) <= 0
}

// keys returns an error for each new or changed label or annotation that is refused.
func keys(policy *v1alpha1.PodPolicy, values, old map[string]string, path *field.Path, remedy remedy) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if before, found := old[key]; found && before == values[key] {
			continue
		}
		if handling, controls := podspec.HandlingOf(key, policy.MetadataKeys); handling == podspec.MetadataRefused {
			errs = append(errs, field.Forbidden(path.Key(key), "it controls "+controls+" of the provider"+
				remedy.in("metadataKeys")))
		}
	}
	return errs
}

// WithoutLocal removes from an object all labels and annotations except those that a policy forwards to the provider. A
// nil policy forwards all.
func WithoutLocal(policy *v1alpha1.PodPolicy, object metav1.Object) {
	if policy == nil {
		return
	}
	forwarded := func(values map[string]string) map[string]string {
		kept := maps.Clone(values)
		maps.DeleteFunc(kept, func(key, _ string) bool {
			handling, _ := podspec.HandlingOf(key, policy.MetadataKeys)
			return handling != podspec.MetadataForwarded
		})
		return kept
	}
	object.SetLabels(forwarded(object.GetLabels()))
	object.SetAnnotations(forwarded(object.GetAnnotations()))
}

// RuntimeClass returns the RuntimeClass for pods that specify none: the first in policy. It returns nil if policy is
// nil, contains no RuntimeClass, or permits all.
func RuntimeClass(policy *v1alpha1.PodPolicy) *string {
	if policy == nil || len(policy.RuntimeClasses) == 0 || policy.RuntimeClasses[0] == pattern.Any {
		return nil
	}
	return ptr.To(policy.RuntimeClasses[0])
}

// ownTaint reports whether key is node.kubernetes.io/not-ready or node.kubernetes.io/unreachable. Kubernetes adds
// tolerations of these taints to every pod.
func ownTaint(key string) bool {
	return key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable
}

// remedy is the end of each error message of Refusals. consumer is the name of a ForeignCluster.
type remedy struct{ consumer string }

func (r remedy) in(name string) string {
	return fmt.Sprintf(": remove it, or have the provider's administrator permit it in spec.incomingPolicy.pods.%s of "+
		"ForeignCluster %s", name, r.consumer)
}

// without is like in, for something that the pod lacks.
func (r remedy) without(name string) string {
	return fmt.Sprintf(": set it, or have the provider's administrator set spec.incomingPolicy.pods.%s of ForeignCluster "+
		"%s, or the value policy.pods.%s, to Any", name, r.consumer, name)
}

func list(names []string) string {
	if len(names) == 0 {
		return "no runtime classes"
	}
	return "runtime classes " + strings.Join(names, ", ")
}
