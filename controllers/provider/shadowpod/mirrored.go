// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// annotationMirrored records, on a pod, the state of its shadow pod that it was created or
// last updated from. Later changes of the shadow pod are found by it; changes that the
// provider made to the pod are not reverted.
const annotationMirrored = "federation.liqo.io/mirrored"

// mirrored is the state of a shadow pod that a pod has.
type mirrored struct {
	// Hash is the hash of all fields that can change except the resources of containers, whose
	// hashes are in Resources: the provider may refuse to change them.
	Hash      string `json:"hash"`
	Resources string `json:"resources,omitempty"`
	// Labels and Annotations are the keys of the shadow pod.
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
}

// mirroredOf returns the state of a shadow pod.
func mirroredOf(shadow *v1alpha1.ShadowPod) (mirrored, error) {
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
		return mirrored{}, fmt.Errorf("hashing shadow pod %s/%s: %w", shadow.Namespace, shadow.Name, err)
	}
	resources, err := hashOf([][]corev1.ResourceRequirements{
		requirements(spec.Containers), requirements(spec.InitContainers),
	})
	if err != nil {
		return mirrored{}, fmt.Errorf("hashing the resources of shadow pod %s/%s: %w", shadow.Namespace, shadow.Name, err)
	}
	return mirrored{
		Hash:        hash,
		Resources:   resources,
		Labels:      slices.Sorted(maps.Keys(shadow.Labels)),
		Annotations: slices.Sorted(maps.Keys(shadow.Annotations)),
	}, nil
}

// recordedOn returns the state that is recorded on a pod; an empty one if none can be read.
func recordedOn(pod *corev1.Pod) mirrored {
	var recorded mirrored
	if json.Unmarshal([]byte(pod.Annotations[annotationMirrored]), &recorded) != nil {
		return mirrored{}
	}
	return recorded
}

func hashOf(value any) (string, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8]), nil
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
