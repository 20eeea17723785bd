// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	maxPodSpec      = 256 << 10
	maxPodStatus    = 256 << 10
	maxContainers   = 100
	maxVolumes      = 250
	maxTolerations  = 100
	defaultAccount  = "default"
	roleTaintPrefix = "node-role.kubernetes.io/"
)

var podPath = specPath.Child("pod")

// baseline are the checks that keep a pod from its node.
var baseline = func() policy.Evaluator {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic(fmt.Sprintf("the checks of pod security contradict each other: %v", err))
	}
	return evaluator
}()

// ValidateShadowPod tells what is wrong with a new shadow pod. It comes from
// another cluster, and a pod of this one is made of it: nothing in it may
// reach beyond its namespace, name a node, or take an identity here.
func ValidateShadowPod(pod *federation.ShadowPod) field.ErrorList {
	errs := metadata(pod, true)
	spec := &pod.Spec.Pod
	if size := spec.Size(); size > maxPodSpec {
		return append(errs, field.TooLong(podPath, "", maxPodSpec))
	}
	errs = append(errs, podSize(spec)...)
	errs = append(errs, podIdentity(spec)...)
	errs = append(errs, podPlacement(spec)...)
	return append(errs, podSecurity(pod)...)
}

// ValidateShadowPodUpdate tells what is wrong with a new version of a shadow
// pod, of whose pod only what Kubernetes lets change in a running one can
// change.
func ValidateShadowPodUpdate(pod, old *federation.ShadowPod) field.ErrorList {
	errs := metadataUpdate(pod, old)
	errs = append(errs, immutable(pod.Annotations[v1alpha1.AnnotationOriginUID], old.Annotations[v1alpha1.AnnotationOriginUID],
		metadataPath.Child("annotations").Key(v1alpha1.AnnotationOriginUID))...)
	errs = append(errs, immutable(pod.Labels[v1alpha1.LabelOrigin], old.Labels[v1alpha1.LabelOrigin],
		metadataPath.Child("labels").Key(v1alpha1.LabelOrigin))...)
	errs = append(errs, podUpdate(&pod.Spec.Pod, &old.Spec.Pod)...)
	if !apiequality.Semantic.DeepEqual(pod.Spec, old.Spec) || !apiequality.Semantic.DeepEqual(pod.Annotations, old.Annotations) {
		errs = append(errs, podPlacement(&pod.Spec.Pod)...)
		errs = append(errs, podSecurity(pod)...)
	}
	return errs
}

// ValidateShadowPodStatusUpdate tells what is wrong with a new status. How a
// pod ended does not change any more.
func ValidateShadowPodStatusUpdate(pod, old *federation.ShadowPod) field.ErrorList {
	errs := metadataUpdate(pod, old)
	errs = append(errs, oneOf(pod.Status.Phase, statusPath.Child("phase"), "", corev1.PodSucceeded, corev1.PodFailed)...)
	errs = append(errs, onceSet(string(pod.Status.Phase), string(old.Status.Phase), statusPath.Child("phase"))...)
	if pod.Status.Pod != nil {
		if pod.Status.Pod.Size() > maxPodStatus {
			errs = append(errs, field.TooLong(statusPath.Child("pod"), "", maxPodStatus))
		}
		if pod.Status.Phase == "" {
			errs = append(errs, field.Forbidden(statusPath.Child("pod"), "is there for finished pods only; until then the pod itself tells"))
		}
	}
	return append(errs, conditions(pod.Status.Conditions, statusPath.Child("conditions"))...)
}

// podSize bounds a pod, and refuses one that cannot be a pod at all. The rest
// is checked where the pod is created.
func podSize(spec *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(podPath.Child("containers"), "must have at least one container"))
	}
	errs = append(errs, containers(spec.InitContainers, podPath.Child("initContainers"))...)
	errs = append(errs, containers(spec.Containers, podPath.Child("containers"))...)
	if len(spec.Volumes) > maxVolumes {
		errs = append(errs, field.TooMany(podPath.Child("volumes"), len(spec.Volumes), maxVolumes))
	}
	if len(spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(podPath.Child("ephemeralContainers"), "cannot be in a new pod"))
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
	}
	return errs
}

// podIdentity keeps a pod from every identity and priority of this cluster.
func podIdentity(spec *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, account(spec.ServiceAccountName, podPath.Child("serviceAccountName"))...)
	errs = append(errs, account(spec.DeprecatedServiceAccount, podPath.Child("serviceAccount"))...)
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		errs = append(errs, field.Required(podPath.Child("automountServiceAccountToken"), "must be false: tokens of this cluster are not for pods of others"))
	}
	for i, volume := range spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for j, source := range volume.Projected.Sources {
			at := podPath.Child("volumes").Index(i).Child("projected", "sources").Index(j)
			if source.ServiceAccountToken != nil {
				errs = append(errs, field.Forbidden(at.Child("serviceAccountToken"), "tokens of this cluster are not for pods of others"))
			}
			if source.PodCertificate != nil {
				errs = append(errs, field.Forbidden(at.Child("podCertificate"), "certificates of this cluster are not for pods of others"))
			}
		}
	}
	if spec.PriorityClassName != "" || spec.Priority != nil {
		errs = append(errs, field.Forbidden(podPath.Child("priorityClassName"), "priorities of this cluster are not for pods of others; leave priorityClassName and priority empty"))
	}
	if spec.SchedulerName != "" && spec.SchedulerName != corev1.DefaultSchedulerName {
		errs = append(errs, field.Forbidden(podPath.Child("schedulerName"), "must be empty or "+corev1.DefaultSchedulerName))
	}
	return errs
}

func account(name string, path *field.Path) field.ErrorList {
	if name == "" || name == defaultAccount {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, "service accounts of this cluster are not for pods of others; leave it empty")}
}

// podPlacement keeps a pod from choosing one node, and from nodes with a
// role: where it runs is the scheduler's to say.
func podPlacement(spec *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	if spec.NodeName != "" {
		errs = append(errs, field.Forbidden(podPath.Child("nodeName"), "the scheduler of this cluster chooses the node"))
	}
	for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		if namesNode(key) {
			errs = append(errs, field.Forbidden(podPath.Child("nodeSelector").Key(key), "the scheduler of this cluster chooses the node"))
		}
	}
	errs = append(errs, podAffinity(spec.Affinity)...)
	if len(spec.Tolerations) > maxTolerations {
		return append(errs, field.TooMany(podPath.Child("tolerations"), len(spec.Tolerations), maxTolerations))
	}
	for i, toleration := range spec.Tolerations {
		at := podPath.Child("tolerations").Index(i).Child("key")
		switch {
		case toleration.Key == "":
			errs = append(errs, field.Forbidden(at, "must be set: every taint at once cannot be tolerated"))
		case strings.HasPrefix(toleration.Key, roleTaintPrefix), toleration.Key == v1alpha1.TaintVirtualNode:
			errs = append(errs, field.Forbidden(at, "nodes with a role of their own are not for pods of others"))
		}
	}
	return errs
}

func podAffinity(affinity *corev1.Affinity) field.ErrorList {
	if affinity == nil || affinity.NodeAffinity == nil {
		return nil
	}
	var errs field.ErrorList
	check := func(term corev1.NodeSelectorTerm, at *field.Path) {
		if len(term.MatchFields) > 0 {
			errs = append(errs, field.Forbidden(at.Child("matchFields"), "the scheduler of this cluster chooses the node"))
		}
		for i, requirement := range term.MatchExpressions {
			if namesNode(requirement.Key) {
				errs = append(errs, field.Forbidden(at.Child("matchExpressions").Index(i).Child("key"), "the scheduler of this cluster chooses the node"))
			}
		}
	}
	path := podPath.Child("affinity", "nodeAffinity")
	if required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		for i, term := range required.NodeSelectorTerms {
			check(term, path.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms").Index(i))
		}
	}
	for i, preferred := range affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		check(preferred.Preference, path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("preference"))
	}
	return errs
}

// namesNode tells whether a label singles out a node, or nodes with a role.
func namesNode(label string) bool {
	return label == corev1.LabelHostname || strings.HasPrefix(label, roleTaintPrefix)
}

func podSecurity(pod *federation.ShadowPod) field.ErrorList {
	level := podsecurity.LevelVersion{Level: podsecurity.LevelBaseline, Version: podsecurity.LatestVersion()}
	result := policy.AggregateCheckResults(baseline.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec.Pod))
	if result.Allowed {
		return nil
	}
	return field.ErrorList{field.Forbidden(podPath, fmt.Sprintf("violates Pod Security %s: %s", level.Level, result.ForbiddenDetail()))}
}

// podUpdate checks that nothing changes but the images, the deadline, which
// can come earlier, the tolerations, which can be added to, and a negative
// grace period, which can become 1 second.
func podUpdate(spec, old *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	rest := spec.DeepCopy()
	keepImages(rest.Containers, old.Containers)
	keepImages(rest.InitContainers, old.InitContainers)

	if deadline, before := spec.ActiveDeadlineSeconds, old.ActiveDeadlineSeconds; before != nil && (deadline == nil || *deadline > *before) {
		errs = append(errs, field.Invalid(podPath.Child("activeDeadlineSeconds"), deadline, "can only come earlier"))
	}
	rest.ActiveDeadlineSeconds = old.ActiveDeadlineSeconds

	for _, toleration := range old.Tolerations {
		if !tolerates(spec.Tolerations, toleration) {
			errs = append(errs, field.Forbidden(podPath.Child("tolerations"), "can be added to, not taken from"))
			break
		}
	}
	rest.Tolerations = old.Tolerations

	if before := old.TerminationGracePeriodSeconds; before != nil && *before < 0 && spec.TerminationGracePeriodSeconds != nil && *spec.TerminationGracePeriodSeconds == 1 {
		rest.TerminationGracePeriodSeconds = before
	}
	if !apiequality.Semantic.DeepEqual(rest, old) {
		errs = append(errs, field.Forbidden(podPath, "cannot change, but for the images of containers, activeDeadlineSeconds and additional tolerations"))
	}
	return errs
}

func keepImages(containers, old []corev1.Container) {
	for i := range containers {
		if i < len(old) && containers[i].Image != "" {
			containers[i].Image = old[i].Image
		}
	}
}

// tolerates tells whether a toleration is in the list. How many seconds it
// holds can change.
func tolerates(list []corev1.Toleration, wanted corev1.Toleration) bool {
	for _, toleration := range list {
		toleration.TolerationSeconds = wanted.TolerationSeconds
		if toleration == wanted {
			return true
		}
	}
	return false
}
