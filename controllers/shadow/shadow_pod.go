// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
)

// annotationMirrored records, on a pod, what it was given by its shadow pod:
// later changes are told from those that the provider made itself, which are
// none of ours to undo.
const annotationMirrored = "federation.liqo.io/mirrored"

var shadowKind = v1alpha1.SchemeGroupVersion.WithKind("ShadowPod")

// mirrored is what a pod was given by its shadow pod.
type mirrored struct {
	// Hash is one of everything that can change, but for what Resources is one of:
	// what the containers ask for, which the provider may refuse to change.
	Hash      string `json:"hash"`
	Resources string `json:"resources,omitempty"`
	// Labels and Annotations are the keys that were given.
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
}

// podFor is the pod of a shadow pod in a twin namespace. The twin says where
// it comes from: what a peer writes about itself does not count.
func podFor(shadow *v1alpha1.ShadowPod, twin *corev1.Namespace) (*corev1.Pod, error) {
	// A new pod has no ephemeral containers: they are added to it once it is
	// there, as a change like any other.
	shadow = shadow.DeepCopy()
	shadow.Spec.Pod.EphemeralContainers = nil
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            shadow.Name,
			Namespace:       shadow.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(shadow, shadowKind)},
		},
		Spec: shadow.Spec.Pod,
	}
	if err := dress(pod, shadow, twin, true); err != nil {
		return nil, err
	}
	// Identities and priorities of this cluster are not a peer's, and no node
	// is for it to choose.
	pod.Spec.ServiceAccountName = ""
	pod.Spec.DeprecatedServiceAccount = ""
	pod.Spec.AutomountServiceAccountToken = ptr.To(false)
	pod.Spec.EnableServiceLinks = ptr.To(false)
	pod.Spec.PriorityClassName = ""
	pod.Spec.Priority = nil
	pod.Spec.NodeName = ""
	countable(pod.Spec.InitContainers)
	countable(pod.Spec.Containers)
	if finishes(pod) {
		// How it ended must be known before it is forgotten.
		pod.Finalizers = []string{v1alpha1.Finalizer}
	}
	return pod, nil
}

// confine keeps a pod on nodes with these labels, beside what it asks for
// itself: where the two contradict each other it runs nowhere.
func confine(spec *corev1.PodSpec, nodes map[string]string) {
	if len(nodes) == 0 {
		return
	}
	var shared []corev1.NodeSelectorRequirement
	for _, key := range slices.Sorted(maps.Keys(nodes)) {
		shared = append(shared, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{nodes[key]}})
	}
	affinity := nodeAffinity(spec)
	required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: shared}},
		}
		return
	}
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		// A term that asks for nothing matches no node, and would match ours.
		if len(term.MatchExpressions)+len(term.MatchFields) > 0 {
			term.MatchExpressions = append(term.MatchExpressions, shared...)
		}
	}
}

// mostWanted is the highest weight that a preference can have.
const mostWanted = 100

// attract has a pod run on a node rather than elsewhere, while there is room.
func attract(spec *corev1.PodSpec, node string) {
	if node == "" {
		return
	}
	affinity := nodeAffinity(spec)
	affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{
		Weight: mostWanted,
		Preference: corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}},
	})
}

func nodeAffinity(spec *corev1.PodSpec) *corev1.NodeAffinity {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	return spec.Affinity.NodeAffinity
}

// countable makes containers that ask for nothing ask for 0: where a quota
// bounds CPU and memory, each container has to say how much it wants.
func countable(containers []corev1.Container) {
	for i := range containers {
		wanted := &containers[i].Resources
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			_, requested := wanted.Requests[name]
			_, limited := wanted.Limits[name]
			if requested || limited {
				continue
			}
			if wanted.Requests == nil {
				wanted.Requests = corev1.ResourceList{}
			}
			wanted.Requests[name] = resource.Quantity{}
		}
	}
}

// dress gives a pod the labels and annotations of its shadow pod and takes off
// those that it was given before. It has the resources of the shadow pod, or
// still those that it was given before.
func dress(pod *corev1.Pod, shadow *v1alpha1.ShadowPod, twin *corev1.Namespace, resized bool) error {
	before := givenTo(pod)
	for _, key := range before.Labels {
		delete(pod.Labels, key)
	}
	for _, key := range before.Annotations {
		delete(pod.Annotations, key)
	}
	pod.Labels = merge(pod.Labels, shadow.Labels)
	pod.Labels[v1alpha1.LabelOrigin] = twin.Labels[v1alpha1.LabelOrigin]
	pod.Labels[v1alpha1.LabelDestination] = twin.Labels[v1alpha1.LabelDestination]
	pod.Annotations = merge(pod.Annotations, shadow.Annotations)
	given, err := giftOf(shadow)
	if err != nil {
		return err
	}
	if !resized {
		given.Resources = before.Resources
	}
	encoded, err := json.Marshal(given)
	if err != nil {
		return fmt.Errorf("record what pod %s/%s was given: %w", shadow.Namespace, shadow.Name, err)
	}
	pod.Annotations[annotationMirrored] = string(encoded)
	return nil
}

func merge(into, from map[string]string) map[string]string {
	if into == nil {
		into = make(map[string]string, len(from)+3)
	}
	maps.Copy(into, from)
	return into
}

// giftOf is what a shadow pod gives its pod.
func giftOf(shadow *v1alpha1.ShadowPod) (mirrored, error) {
	spec := &shadow.Spec.Pod
	hash, err := hashOf(struct {
		Labels, Annotations map[string]string
		Images, InitImages  []string
		Deadline            *int64
		Tolerations         []corev1.Toleration
		Ephemeral           []string `json:",omitempty"`
	}{
		shadow.Labels, shadow.Annotations,
		images(spec.Containers), images(spec.InitContainers),
		spec.ActiveDeadlineSeconds, spec.Tolerations,
		ephemeralNames(spec.EphemeralContainers),
	})
	if err != nil {
		return mirrored{}, fmt.Errorf("hash shadow pod %s/%s: %w", shadow.Namespace, shadow.Name, err)
	}
	resources, err := hashOf([2][]corev1.ResourceRequirements{requirements(spec.Containers), requirements(spec.InitContainers)})
	if err != nil {
		return mirrored{}, fmt.Errorf("hash the resources of shadow pod %s/%s: %w", shadow.Namespace, shadow.Name, err)
	}
	return mirrored{
		Hash:        hash,
		Resources:   resources,
		Labels:      slices.Sorted(maps.Keys(shadow.Labels)),
		Annotations: slices.Sorted(maps.Keys(shadow.Annotations)),
	}, nil
}

func hashOf(value any) (string, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8]), nil
}

// givenTo is what a pod was given; nothing if that cannot be told.
func givenTo(pod *corev1.Pod) mirrored {
	var given mirrored
	if json.Unmarshal([]byte(pod.Annotations[annotationMirrored]), &given) != nil {
		return mirrored{}
	}
	return given
}

func images(containers []corev1.Container) []string {
	all := make([]string, len(containers))
	for i := range containers {
		all[i] = containers[i].Image
	}
	return all
}

func requirements(containers []corev1.Container) []corev1.ResourceRequirements {
	all := make([]corev1.ResourceRequirements, len(containers))
	for i := range containers {
		all[i] = containers[i].Resources
	}
	return all
}

func ephemeralNames(containers []corev1.EphemeralContainer) []string {
	var all []string
	for i := range containers {
		all = append(all, containers[i].Name)
	}
	return all
}

// update changes in a running pod what Kubernetes lets change in one. Whether it
// was resized before is to be told.
func update(pod *corev1.Pod, shadow *v1alpha1.ShadowPod, twin *corev1.Namespace, resized bool) error {
	if err := dress(pod, shadow, twin, resized); err != nil {
		return err
	}
	wanted := &shadow.Spec.Pod
	setImages(pod.Spec.Containers, wanted.Containers)
	setImages(pod.Spec.InitContainers, wanted.InitContainers)
	if wanted.ActiveDeadlineSeconds != nil {
		pod.Spec.ActiveDeadlineSeconds = ptr.To(*wanted.ActiveDeadlineSeconds)
	}
	for _, toleration := range wanted.Tolerations {
		i := slices.IndexFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			t.TolerationSeconds = toleration.TolerationSeconds
			return t == toleration
		})
		if i < 0 {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration)
		} else {
			pod.Spec.Tolerations[i] = toleration
		}
	}
	return nil
}

// missingEphemeralContainers are those of a shadow pod that its pod does not
// have.
func missingEphemeralContainers(pod *corev1.Pod, shadow *v1alpha1.ShadowPod) []corev1.EphemeralContainer {
	has := ephemeralNames(pod.Spec.EphemeralContainers)
	var missing []corev1.EphemeralContainer
	for _, container := range shadow.Spec.Pod.EphemeralContainers {
		if !slices.Contains(has, container.Name) {
			missing = append(missing, *container.DeepCopy())
		}
	}
	return missing
}

func setImages(containers, wanted []corev1.Container) {
	for i := range containers {
		j := slices.IndexFunc(wanted, func(w corev1.Container) bool { return w.Name == containers[i].Name })
		if j >= 0 {
			containers[i].Image = wanted[j].Image
		}
	}
}

// finishes tells whether a pod can come to an end of its own.
func finishes(pod *corev1.Pod) bool {
	return pod.Spec.RestartPolicy == corev1.RestartPolicyNever || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
}

// trim keeps of a pod what the controller reads: who it is, whether it has a node
// and lives, how it ended, and, as what is allocated, what it takes beyond what it
// asks for.
func trim(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	trimmed := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:                       pod.Name,
			Namespace:                  pod.Namespace,
			UID:                        pod.UID,
			ResourceVersion:            pod.ResourceVersion,
			OwnerReferences:            pod.OwnerReferences,
			Finalizers:                 pod.Finalizers,
			DeletionTimestamp:          pod.DeletionTimestamp,
			DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		},
		Spec:   corev1.PodSpec{RestartPolicy: pod.Spec.RestartPolicy, NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, AllocatedResources: notGivenBack(pod)},
	}
	if given, ok := pod.Annotations[annotationMirrored]; ok {
		trimmed.Annotations = map[string]string{annotationMirrored: given}
	}
	if podspec.Finished(pod) && finishes(pod) {
		trimmed.Status = pod.Status
	}
	return trimmed, nil
}
