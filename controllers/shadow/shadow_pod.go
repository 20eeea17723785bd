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
)

// annotationMirrored records, on a pod, what it was given by its shadow pod:
// later changes are told from those that the provider made itself, which are
// none of ours to undo.
const annotationMirrored = "federation.liqo.io/mirrored"

var shadowKind = v1alpha1.SchemeGroupVersion.WithKind("ShadowPod")

// mirrored is what a pod was given by its shadow pod.
type mirrored struct {
	// Hash is one of everything that can change.
	Hash string `json:"hash"`
	// Labels and Annotations are the keys that were given.
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
}

// podFor is the pod of a shadow pod in a twin namespace. The twin says where
// it comes from: what a peer writes about itself does not count.
func podFor(shadow *v1alpha1.ShadowPod, twin *corev1.Namespace) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            shadow.Name,
			Namespace:       shadow.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(shadow, shadowKind)},
		},
		Spec: *shadow.Spec.Pod.DeepCopy(),
	}
	if err := dress(pod, shadow, twin); err != nil {
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
// those that it was given before.
func dress(pod *corev1.Pod, shadow *v1alpha1.ShadowPod, twin *corev1.Namespace) error {
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
	changeable, err := json.Marshal(struct {
		Labels, Annotations map[string]string
		Images, InitImages  []string
		Deadline            *int64
		Tolerations         []corev1.Toleration
	}{
		shadow.Labels, shadow.Annotations,
		images(spec.Containers), images(spec.InitContainers),
		spec.ActiveDeadlineSeconds, spec.Tolerations,
	})
	if err != nil {
		return mirrored{}, fmt.Errorf("hash shadow pod %s/%s: %w", shadow.Namespace, shadow.Name, err)
	}
	sum := sha256.Sum256(changeable)
	return mirrored{
		Hash:        hex.EncodeToString(sum[:8]),
		Labels:      slices.Sorted(maps.Keys(shadow.Labels)),
		Annotations: slices.Sorted(maps.Keys(shadow.Annotations)),
	}, nil
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

// update changes in a running pod what Kubernetes lets change in one.
func update(pod *corev1.Pod, shadow *v1alpha1.ShadowPod, twin *corev1.Namespace) error {
	if err := dress(pod, shadow, twin); err != nil {
		return err
	}
	wanted := &shadow.Spec.Pod
	setImages(pod.Spec.Containers, wanted.Containers)
	setImages(pod.Spec.InitContainers, wanted.InitContainers)
	if wanted.ActiveDeadlineSeconds != nil {
		pod.Spec.ActiveDeadlineSeconds = ptr.To(*wanted.ActiveDeadlineSeconds)
	}
	for _, toleration := range wanted.Tolerations {
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return equal(t, toleration) }) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration)
		}
	}
	return nil
}

func setImages(containers, wanted []corev1.Container) {
	for i := range containers {
		j := slices.IndexFunc(wanted, func(w corev1.Container) bool { return w.Name == containers[i].Name })
		if j >= 0 {
			containers[i].Image = wanted[j].Image
		}
	}
}

func equal(a, b corev1.Toleration) bool {
	return ptr.Equal(a.TolerationSeconds, b.TolerationSeconds) &&
		a.Key == b.Key && a.Operator == b.Operator && a.Value == b.Value && a.Effect == b.Effect
}

// finishes tells whether a pod can come to an end of its own.
func finishes(pod *corev1.Pod) bool {
	return pod.Spec.RestartPolicy == corev1.RestartPolicyNever || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
}

// stopped tells whether nothing of a pod runs, nor ever will.
func stopped(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// trim keeps of a pod what the controller reads: who it is, whether it lives,
// and how it ended.
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
		Spec:   corev1.PodSpec{RestartPolicy: pod.Spec.RestartPolicy},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}
	if given, ok := pod.Annotations[annotationMirrored]; ok {
		trimmed.Annotations = map[string]string{annotationMirrored: given}
	}
	if stopped(pod) && finishes(pod) {
		trimmed.Status = pod.Status
	}
	return trimmed, nil
}
