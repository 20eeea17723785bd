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
	// OfferedNode is the node of the provider's offer that this one stands for;
	// empty stands for the provider as a whole.
	OfferedNode string
	// Home is where the pods reach their own API server.
	Home Home
	// Classes are those of the provider that copies may name.
	Classes Classes
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
// twin namespace, with what the virtual node's patch, if there is one, gives
// it there. It shares nothing with the pod, nor with the patch.
func ShadowPod(pod *corev1.Pod, twin string, to Destination, patch *v1alpha1.OffloadingPatch) *v1alpha1.ShadowPod {
	if patch == nil {
		patch = &v1alpha1.OffloadingPatch{}
	}
	spec, tokens := leadHome(pod, to)
	annotations := podAnnotations(pod, patch.ExcludedAnnotations)
	delete(annotations, v1alpha1.AnnotationTokenSecret)
	if tokens != "" {
		annotations[v1alpha1.AnnotationTokenSecret] = tokens
	}
	shadow := &v1alpha1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   twin,
			Name:        pod.Name,
			Labels:      podLabels(pod, to, patch.ExcludedLabels),
			Annotations: annotations,
		},
		Spec: v1alpha1.ShadowPodSpec{Pod: podSpec(pod, spec, patch.ExcludedLabels), OfferedNode: to.OfferedNode},
	}
	applyPatch(&shadow.Spec.Pod, patch.DeepCopy())
	return shadow
}

// OriginUID is the UID of the local pod that a shadow pod or its pod stands
// for; empty if it stands for none.
func OriginUID(obj metav1.Object) types.UID {
	return types.UID(obj.GetAnnotations()[v1alpha1.AnnotationOriginUID])
}

func podLabels(pod *corev1.Pod, to Destination, staying []string) map[string]string {
	labels := without(pod.Labels, staying)
	maps.Copy(labels, to.Labels())
	return labels
}

func podAnnotations(pod *corev1.Pod, staying []string) map[string]string {
	annotations := without(pod.Annotations, staying)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	annotations[v1alpha1.AnnotationOriginNamespace] = pod.Namespace
	annotations[v1alpha1.AnnotationOriginUID] = string(pod.UID)
	return annotations
}

// podSpec is what of a specification of a local pod travels; staying are the
// labels that do not.
func podSpec(local *corev1.Pod, from *corev1.PodSpec, staying []string) corev1.PodSpec {
	spec := *from.DeepCopy()

	// Where a pod runs over there, and before whom, is the provider's to say.
	spec.NodeName = ""
	spec.NodeSelector = nil
	spec.Affinity = affinity(spec.Affinity, local, staying)
	spec.Tolerations = tolerations(spec.Tolerations)
	spec.TopologySpreadConstraints = spread(spec.TopologySpreadConstraints, local, staying)
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
		eachContainer(&spec, clearHostPorts)
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
	spec.EphemeralContainers = slices.DeleteFunc(spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool {
		return isRefused(find(local.Status.EphemeralContainerStatuses, c.Name))
	})

	dropIdentityVolumes(&spec)
	renameConfigMaps(&spec)
	tellOfLocal(&spec, &local.Spec)
	return spec
}

// eachContainer visits the containers of a pod, of every sort.
func eachContainer(spec *corev1.PodSpec, visit func(*corev1.Container)) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			visit(&containers[i])
		}
	}
	for i := range spec.EphemeralContainers {
		// They have the same fields.
		visit((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

func clearHostPorts(container *corev1.Container) {
	for i := range container.Ports {
		container.Ports[i].HostPort = 0
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
		if !strings.HasPrefix(v.Name, apiAccessVolumePrefix) || !slices.ContainsFunc(v.Projected.Sources, isToken) {
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
	eachContainer(spec, func(container *corev1.Container) {
		container.VolumeMounts = slices.DeleteFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return gone[m.Name] })
	})
}
