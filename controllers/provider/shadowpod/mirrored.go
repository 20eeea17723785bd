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
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// annotationMirrored is the annotation of a pod that records the state of its ShadowPod when the pod was
// created or last updated. A ShadowPod with another state has changed. Changes that the provider made to
// the pod are therefore not reverted.
const annotationMirrored = "federation.liqo.io/mirrored"

// mirrored is the value of annotationMirrored.
type mirrored struct {
	// Hash is the hash of all mutable fields of the ShadowPod except the resources of containers, and Resources
	// is the hash of these resources. The provider may refuse a change of the resources, and accept other
	// changes.
	Hash      string `json:"hash"`
	Resources string `json:"resources,omitempty"`
	// Labels and Annotations are the keys of the labels and annotations of the ShadowPod.
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
	// LabelHashes and AnnotationHashes are the hashes of their values, in the order of the keys. They are empty if
	// v0.1.0 recorded the state.
	LabelHashes      []string `json:"labelHashes,omitempty"`
	AnnotationHashes []string `json:"annotationHashes,omitempty"`
}

// mirroredOf returns the state of a ShadowPod. It fails only if the ShadowPod cannot be encoded.
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
	state := mirrored{
		Hash:        hash,
		Resources:   resources,
		Labels:      slices.Sorted(maps.Keys(shadow.Labels)),
		Annotations: slices.Sorted(maps.Keys(shadow.Annotations)),
	}
	state.LabelHashes = hashesOf(shadow.Labels, state.Labels)
	state.AnnotationHashes = hashesOf(shadow.Annotations, state.Annotations)
	return state, nil
}

// hashesOf returns the hashes of the values of keys.
func hashesOf(values map[string]string, keys []string) []string {
	var hashes []string
	for _, key := range keys {
		hashes = append(hashes, hashOfText(values[key]))
	}
	return hashes
}

func hashOfText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// copyValues returns the labels or annotations of a pod after a change of those of its ShadowPod. keys and hashes are
// the keys that the ShadowPod had before, and the hashes of their values. It changes no value that the provider set,
// changed or removed, for example by a webhook: such a value is not the one in hashes. Without hashes, the provider
// changed none of keys. Keys of offloading.liqo.io, by which the consumer finds its pods, always have the value that is
// wanted.
func copyValues(of, wanted map[string]string, keys, hashes []string) map[string]string {
	if of == nil {
		of = make(map[string]string, len(wanted)+3)
	}
	kept := map[string]bool{}
	for key := range of {
		kept[key] = true
	}
	for i, key := range keys {
		value, exists := of[key]
		if len(hashes) == len(keys) && (!exists || hashOfText(value) != hashes[i]) {
			kept[key] = true
			continue
		}
		delete(of, key)
		delete(kept, key)
	}
	for key, value := range wanted {
		if !kept[key] || strings.HasPrefix(key, "offloading.liqo.io/") {
			of[key] = value
		}
	}
	return of
}

// recordedOn returns the state in the annotation of a pod; an empty state if it is missing or invalid.
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
	return hashOfText(string(encoded)), nil
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
