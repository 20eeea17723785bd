// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
)

const (
	// maxShadowPod is the maximum size of the metadata and the spec of a shadow pod together, and
	// maxPodStatus the maximum size of status.pod, in bytes. With the maximum number of shadow pods,
	// they limit the space that a consumer uses in etcd. Objects that an older version stored may be
	// larger, and must not grow.
	maxShadowPod  = 128 << 10
	maxPodStatus  = 64 << 10
	maxContainers = 100
	maxVolumes    = 250
)

var podPath = specPath.Child("pod")

const noToken = "pods of consumers get no tokens or certificates of this cluster"

// baseline evaluates pods by the Pod Security Standards.
var baseline = func() policy.Evaluator {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic(fmt.Sprintf("the checks of pod security contradict each other: %v", err))
	}
	return evaluator
}()

// ValidateShadowPod validates a new shadow pod. A peer writes it, and the controllers create a pod
// of the local cluster from it. The pod must not have access beyond its namespace, select single
// nodes or nodes with a role, or use an identity of the local cluster.
func ValidateShadowPod(pod *federation.ShadowPod) field.ErrorList {
	errs := metadata(pod, true)
	if size(pod) > maxShadowPod {
		return append(errs, tooLarge())
	}
	spec := &pod.Spec.Pod
	errs = append(errs, optional(pod.Spec.OfferedNode, specPath.Child("offeredNode"), dnsLabel)...)
	errs = append(errs, podSize(spec)...)
	errs = append(errs, refusals(spec)...)
	errs = append(errs, podIdentity(spec)...)
	errs = append(errs, podPlacement(spec, pod.Namespace)...)
	return append(errs, podSecurity(pod)...)
}

// ValidateShadowPodUpdate validates an update of a shadow pod. In spec.pod only fields can change
// that are mutable in a running pod.
func ValidateShadowPodUpdate(pod, old *federation.ShadowPod) field.ErrorList {
	errs := metadataUpdate(pod, old)
	if size(pod) > max(maxShadowPod, size(old)) {
		return append(errs, tooLarge())
	}
	errs = append(errs, immutable(pod.Annotations[v1alpha1.AnnotationOriginUID],
		old.Annotations[v1alpha1.AnnotationOriginUID],
		metadataPath.Child("annotations").Key(v1alpha1.AnnotationOriginUID))...)
	errs = append(errs, immutable(pod.Labels[v1alpha1.LabelOrigin], old.Labels[v1alpha1.LabelOrigin],
		metadataPath.Child("labels").Key(v1alpha1.LabelOrigin))...)
	errs = append(errs, optional(pod.Spec.OfferedNode, specPath.Child("offeredNode"), dnsLabel)...)
	errs = append(errs, podUpdate(&pod.Spec.Pod, &old.Spec.Pod)...)
	if !apiequality.Semantic.DeepEqual(pod.Spec, old.Spec) ||
		!apiequality.Semantic.DeepEqual(pod.Annotations, old.Annotations) {
		errs = append(errs, refusals(&pod.Spec.Pod)...)
		errs = append(errs, podPlacement(&pod.Spec.Pod, pod.Namespace)...)
		errs = append(errs, podSecurity(pod)...)
	}
	return errs
}

// ValidateShadowPodStatusUpdate validates an update of the status of a shadow pod. A phase that is
// set cannot change.
func ValidateShadowPodStatusUpdate(pod, old *federation.ShadowPod) field.ErrorList {
	errs := metadataUpdate(pod, old)
	errs = append(errs, oneOf(pod.Status.Phase, statusPath.Child("phase"), "", corev1.PodSucceeded, corev1.PodFailed)...)
	errs = append(errs, onceSet(string(pod.Status.Phase), string(old.Status.Phase), statusPath.Child("phase"))...)
	errs = append(errs, optional(pod.Status.ForeignCluster, statusPath.Child("foreignCluster"), subdomain)...)
	errs = append(errs, onceSet(pod.Status.ForeignCluster, old.Status.ForeignCluster,
		statusPath.Child("foreignCluster"))...)
	errs = append(errs, resources(pod.Status.AllocatedResources, statusPath.Child("allocatedResources"))...)
	if pod.Status.Pod != nil {
		if pod.Status.Pod.Size() > max(maxPodStatus, old.Status.Pod.Size()) {
			errs = append(errs, field.TooLong(statusPath.Child("pod"), "", maxPodStatus))
		}
		if pod.Status.Phase == "" {
			errs = append(errs, field.Forbidden(statusPath.Child("pod"), "may only be set if phase is set"))
		}
	}
	return append(errs, conditions(pod.Status.Conditions, statusPath.Child("conditions"))...)
}

// size returns the size of the metadata, without managed fields, and of spec.pod of a shadow pod,
// in bytes.
func size(pod *federation.ShadowPod) int {
	// Managed fields do not count: the API server writes them.
	meta := pod.ObjectMeta
	meta.ManagedFields = nil
	return meta.Size() + pod.Spec.Pod.Size()
}

func tooLarge() *field.Error {
	err := field.TooLong(podPath, "", maxShadowPod)
	err.Detail += ", with labels and annotations"
	return err
}

// podSize validates that the lists of a new pod are not longer than their limits, for example
// maxContainers, that the pod has containers with names and images, and that its resources and
// volumes are valid. kube-apiserver validates the other fields when the controllers create the pod.
func podSize(spec *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(podPath.Child("containers"), "must have at least one container"))
	}
	errs = append(errs, containers(spec.InitContainers, podPath.Child("initContainers"))...)
	errs = append(errs, containers(spec.Containers, podPath.Child("containers"))...)
	errs = append(errs, requirements(spec.Resources, podPath.Child("resources"))...)
	errs = append(errs, resources(spec.Overhead, podPath.Child("overhead"))...)
	errs = append(errs, volumes(spec.Volumes, podPath.Child("volumes"))...)
	if len(spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(podPath.Child("ephemeralContainers"), "must be empty in a new pod"))
	}
	return errs
}

func containers(list []corev1.Container, path *field.Path) field.ErrorList {
	if len(list) > maxContainers {
		return field.ErrorList{field.TooMany(path, len(list), maxContainers)}
	}
	var errs field.ErrorList
	for i, container := range list {
		errs = append(errs, dnsLabel(container.Name, path.Index(i).Child("name"))...)
		if container.Image == "" {
			errs = append(errs, field.Required(path.Index(i).Child("image"), "must name the image to run"))
		}
		errs = append(errs, requirements(&container.Resources, path.Index(i).Child("resources"))...)
	}
	return errs
}

// requirements validates requests and limits. A negative request would reduce the quota usage of
// the consumer.
func requirements(wanted *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	if wanted == nil {
		return nil
	}
	errs := resources(wanted.Requests, path.Child("requests"))
	return append(errs, resources(wanted.Limits, path.Child("limits"))...)
}

// refusals returns an error for each set field that podspec.PodFields does not permit.
func refusals(spec *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	for _, refusal := range podspec.Refusals(spec) {
		errs = append(errs, field.Forbidden(podPath.Child(refusal.Field), refusal.Message))
	}
	return errs
}

// podIdentity validates that a pod mounts no token or certificate of the local cluster.
func podIdentity(spec *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		errs = append(errs, field.Required(podPath.Child("automountServiceAccountToken"), "must be false: "+noToken))
	}
	for i, volume := range spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for j, source := range volume.Projected.Sources {
			at := podPath.Child("volumes").Index(i).Child("projected", "sources").Index(j)
			if source.ServiceAccountToken != nil {
				errs = append(errs, field.Forbidden(at.Child("serviceAccountToken"), noToken))
			}
			if source.PodCertificate != nil {
				errs = append(errs, field.Forbidden(at.Child("podCertificate"), noToken))
			}
		}
	}
	return errs
}

func podSecurity(pod *federation.ShadowPod) field.ErrorList {
	level := podsecurity.LevelVersion{Level: podsecurity.LevelBaseline, Version: podsecurity.LatestVersion()}
	result := policy.AggregateCheckResults(baseline.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec.Pod))
	if result.Allowed {
		return nil
	}
	return field.ErrorList{field.Forbidden(podPath,
		fmt.Sprintf("violates Pod Security %s: %s", level.Level, result.ForbiddenDetail()))}
}

// podUpdate validates that only mutable fields of a running pod change: images, CPU and memory of
// containers; activeDeadlineSeconds, which may only decrease; tolerations and ephemeral containers,
// which may only be added; and a negative terminationGracePeriodSeconds, which may become 1.
func podUpdate(spec, old *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	rest := spec.DeepCopy()
	keepImages(rest.Containers, old.Containers)
	keepImages(rest.InitContainers, old.InitContainers)
	every := func(*corev1.Container) bool { return true }
	errs = append(errs, keepResources(rest.Containers, old.Containers, every, podPath.Child("containers"))...)
	errs = append(errs, keepResources(rest.InitContainers, old.InitContainers, isSidecar,
		podPath.Child("initContainers"))...)

	deadline, before := spec.ActiveDeadlineSeconds, old.ActiveDeadlineSeconds
	if before != nil && (deadline == nil || *deadline > *before) {
		errs = append(errs, field.Invalid(podPath.Child("activeDeadlineSeconds"), deadline, "may only be set or decreased"))
	}
	rest.ActiveDeadlineSeconds = old.ActiveDeadlineSeconds

	for _, toleration := range old.Tolerations {
		if !tolerates(spec.Tolerations, toleration) {
			errs = append(errs, field.Forbidden(podPath.Child("tolerations"), "may only be added"))
			break
		}
	}
	rest.Tolerations = old.Tolerations

	errs = append(errs, moreEphemeralContainers(spec.EphemeralContainers, old.EphemeralContainers,
		podPath.Child("ephemeralContainers"))...)
	rest.EphemeralContainers = old.EphemeralContainers

	if before := old.TerminationGracePeriodSeconds; before != nil && *before < 0 &&
		spec.TerminationGracePeriodSeconds != nil && *spec.TerminationGracePeriodSeconds == 1 {
		rest.TerminationGracePeriodSeconds = before
	}
	if !apiequality.Semantic.DeepEqual(rest, old) {
		errs = append(errs, field.Forbidden(podPath, "may only change in the images of containers, the CPU and memory of "+
			"containers and sidecars, activeDeadlineSeconds, additional tolerations and additional ephemeral containers"))
	}
	return errs
}

// moreEphemeralContainers validates that existing ephemeral containers do not change, and validates
// the added ephemeral containers. podSecurity evaluates them as it does other containers.
func moreEphemeralContainers(list, old []corev1.EphemeralContainer, path *field.Path) field.ErrorList {
	if len(list) > maxContainers {
		return field.ErrorList{field.TooMany(path, len(list), maxContainers)}
	}
	if len(list) < len(old) || !apiequality.Semantic.DeepEqual(list[:len(old)], old) {
		return field.ErrorList{field.Forbidden(path, "may only be appended")}
	}
	var errs field.ErrorList
	added := make([]corev1.Container, len(list))
	names := map[string]bool{}
	for i := range list {
		added[i] = corev1.Container(list[i].EphemeralContainerCommon)
		if names[list[i].Name] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("name"), list[i].Name))
		}
		names[list[i].Name] = true
	}
	return append(errs, containers(added, path)...)
}

func keepImages(containers, old []corev1.Container) {
	for i := range containers {
		if i < len(old) && containers[i].Image != "" {
			containers[i].Image = old[i].Image
		}
	}
}

// keepResources sets the CPU and memory of containers to the values in old, so that the caller can
// compare all other fields with old. It does so for each container for which the function resizes
// returns true; all other containers cannot be resized. Like Kubernetes, it returns an error if a
// request or a limit was removed.
func keepResources(
	containers, old []corev1.Container, resizes func(*corev1.Container) bool, path *field.Path,
) field.ErrorList {
	var errs field.ErrorList
	for i := range containers {
		if i >= len(old) || !resizes(&old[i]) {
			continue
		}
		wanted, before, at := &containers[i].Resources, &old[i].Resources, path.Index(i).Child("resources")
		errs = append(errs, requirements(wanted, at)...)
		errs = append(errs, keepAmounts(&wanted.Requests, before.Requests, at.Child("requests"))...)
		errs = append(errs, keepAmounts(&wanted.Limits, before.Limits, at.Child("limits"))...)
	}
	return errs
}

func isSidecar(container *corev1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func keepAmounts(wanted *corev1.ResourceList, old corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		before, had := old[name]
		if !had {
			delete(*wanted, name)
			continue
		}
		if _, has := (*wanted)[name]; !has {
			errs = append(errs, field.Forbidden(path.Key(string(name)), "may change, but must not be removed"))
		}
		if *wanted == nil {
			*wanted = corev1.ResourceList{}
		}
		(*wanted)[name] = before
	}
	return errs
}

// tolerates reports whether a toleration is in the list; tolerationSeconds may differ.
func tolerates(list []corev1.Toleration, wanted corev1.Toleration) bool {
	for _, toleration := range list {
		toleration.TolerationSeconds = wanted.TolerationSeconds
		if toleration == wanted {
			return true
		}
	}
	return false
}
