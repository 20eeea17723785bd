// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// apiAccessVolumePrefix starts the names of the volumes that the
// ServiceAccount admission plugin adds for access to the API.
const apiAccessVolumePrefix = "kube-api-access-"

// Destination is where the pods of one virtual node go, and where they come
// from.
type Destination struct {
	// OriginID and DestinationID are the ids of the consumer and the provider.
	OriginID, DestinationID string
	// NodeName is the virtual node that the pods are bound to.
	NodeName string
}

// Labels are on every shadow pod of a virtual node, and on its pod: they are
// what the node looks for, and nothing else is its own.
func (d Destination) Labels() map[string]string {
	return map[string]string{
		v1alpha1.LabelOrigin:      d.OriginID,
		v1alpha1.LabelDestination: d.DestinationID,
		v1alpha1.LabelVirtualNode: d.NodeName,
	}
}

// CopyLabels are on every object of a twin namespace that is a copy of one of
// this cluster's: all virtual nodes of a provider keep the same copies.
func (d Destination) CopyLabels() map[string]string {
	return map[string]string{
		v1alpha1.LabelOrigin:      d.OriginID,
		v1alpha1.LabelDestination: d.DestinationID,
	}
}

// ShadowPod is what the provider is asked for so that a local pod runs in the
// twin namespace. It shares nothing with the pod.
func ShadowPod(pod *corev1.Pod, twin string, to Destination) *v1alpha1.ShadowPod {
	return &v1alpha1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   twin,
			Name:        pod.Name,
			Labels:      podLabels(pod, to),
			Annotations: podAnnotations(pod),
		},
		Spec: v1alpha1.ShadowPodSpec{Pod: podSpec(&pod.Spec)},
	}
}

// OriginUID is the UID of the local pod that a shadow pod or its pod stands
// for; empty if it stands for none.
func OriginUID(obj metav1.Object) types.UID {
	return types.UID(obj.GetAnnotations()[v1alpha1.AnnotationOriginUID])
}

// UpdateShadowPod brings what may change in a running pod from the wanted to
// the existing shadow pod: labels, annotations, images and the deadline. It
// tells whether something changed.
func UpdateShadowPod(existing, wanted *v1alpha1.ShadowPod) bool {
	changed := false
	if !maps.Equal(existing.Labels, wanted.Labels) {
		existing.Labels, changed = wanted.Labels, true
	}
	if !maps.Equal(existing.Annotations, wanted.Annotations) {
		existing.Annotations, changed = wanted.Annotations, true
	}
	if !ptr.Equal(existing.Spec.Pod.ActiveDeadlineSeconds, wanted.Spec.Pod.ActiveDeadlineSeconds) {
		existing.Spec.Pod.ActiveDeadlineSeconds, changed = wanted.Spec.Pod.ActiveDeadlineSeconds, true
	}
	if updateImages(existing.Spec.Pod.Containers, wanted.Spec.Pod.Containers) {
		changed = true
	}
	if updateImages(existing.Spec.Pod.InitContainers, wanted.Spec.Pod.InitContainers) {
		changed = true
	}
	return changed
}

func updateImages(existing, wanted []corev1.Container) bool {
	changed := false
	for i := range existing {
		j := slices.IndexFunc(wanted, func(c corev1.Container) bool { return c.Name == existing[i].Name })
		if j >= 0 && existing[i].Image != wanted[j].Image {
			existing[i].Image, changed = wanted[j].Image, true
		}
	}
	return changed
}

func podLabels(pod *corev1.Pod, to Destination) map[string]string {
	labels := maps.Clone(pod.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, to.Labels())
	return labels
}

func podAnnotations(pod *corev1.Pod) map[string]string {
	annotations := maps.Clone(pod.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	annotations[v1alpha1.AnnotationOriginNamespace] = pod.Namespace
	annotations[v1alpha1.AnnotationOriginUID] = string(pod.UID)
	return annotations
}

func podSpec(local *corev1.PodSpec) corev1.PodSpec {
	spec := *local.DeepCopy()

	// Where a pod runs over there, and before whom, is the provider's to say.
	spec.NodeName = ""
	spec.NodeSelector = nil
	spec.Affinity = nil
	spec.Tolerations = tolerations(spec.Tolerations)
	spec.TopologySpreadConstraints = nil
	spec.SchedulerName = ""
	spec.SchedulingGates = nil
	spec.SchedulingGroup = nil
	spec.Priority = nil
	spec.PriorityClassName = ""
	spec.PreemptionPolicy = nil
	spec.EvictionResponders = nil
	// The provider's RuntimeClass says what the runtime takes there.
	spec.Overhead = nil

	if spec.HostNetwork {
		clearHostPorts(spec.Containers)
		clearHostPorts(spec.InitContainers)
	}
	spec.HostNetwork = false
	spec.HostPID = false
	spec.HostIPC = false

	// Identities and Services are the consumer's. Gates are opened on the local
	// pod, never on the remote one.
	spec.ServiceAccountName = ""
	spec.DeprecatedServiceAccount = ""
	spec.AutomountServiceAccountToken = ptr.To(false)
	spec.EnableServiceLinks = ptr.To(false)
	spec.ReadinessGates = nil
	spec.EphemeralContainers = nil

	dropIdentityVolumes(&spec)
	renameConfigMaps(&spec)
	return spec
}

// tolerations are those that a pod may take along: of taints that somebody
// has put on nodes for pods like it. Conditions and roles of nodes are each
// cluster's own, and so are its virtual nodes; the provider refuses pods that
// tolerate everything.
func tolerations(local []corev1.Toleration) []corev1.Toleration {
	return slices.DeleteFunc(local, func(t corev1.Toleration) bool {
		return t.Key == "" || t.Key == v1alpha1.TaintVirtualNode ||
			strings.HasPrefix(t.Key, "node.kubernetes.io/") || strings.HasPrefix(t.Key, "node-role.kubernetes.io/")
	})
}

func clearHostPorts(containers []corev1.Container) {
	for i := range containers {
		for j := range containers[i].Ports {
			containers[i].Ports[j].HostPort = 0
		}
	}
}

// dropIdentityVolumes removes everything that the provider's kubelet would
// fill with an identity of the provider, and the mounts of what is gone.
func dropIdentityVolumes(spec *corev1.PodSpec) {
	gone := map[string]bool{}
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool {
		if v.Projected == nil {
			return false
		}
		if !strings.HasPrefix(v.Name, apiAccessVolumePrefix) {
			before := len(v.Projected.Sources)
			v.Projected.Sources = slices.DeleteFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
				return s.ServiceAccountToken != nil || s.PodCertificate != nil
			})
			if len(v.Projected.Sources) > 0 || before == 0 {
				return false
			}
		}
		gone[v.Name] = true
		return true
	})
	if len(gone) == 0 {
		return
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			containers[i].VolumeMounts = slices.DeleteFunc(containers[i].VolumeMounts, func(m corev1.VolumeMount) bool {
				return gone[m.Name]
			})
		}
	}
}
