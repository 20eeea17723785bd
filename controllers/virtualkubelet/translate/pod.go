// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
)

// apiAccessVolumePrefix is the name prefix of the volumes by which the ServiceAccount admission plugin gives pods
// access to the API server.
const apiAccessVolumePrefix = "kube-api-access-"

// Destination has the names of consumer, provider and virtual node, and the offers of the provider, on which the
// translation of an object depends.
type Destination struct {
	// OriginID and DestinationID are the cluster ids of the consumer and of the provider.
	OriginID, DestinationID string
	// NodeName is the name of the virtual node that pods are bound to.
	NodeName string
	// OfferedNode is the name of the provider's node that the virtual node represents; empty means the whole provider.
	OfferedNode string
	// ConsumerAPI is the endpoint at which remote pods reach the consumer's API server.
	ConsumerAPI ConsumerAPI
	// Classes are the classes of the provider's offer that reflected objects may name.
	Classes Classes
}

// Labels returns the labels of every shadow pod and remote pod of the virtual node, by which the virtual kubelet
// selects them.
func (d Destination) Labels() map[string]string {
	return map[string]string{
		v1alpha1.LabelOrigin:      d.OriginID,
		v1alpha1.LabelDestination: d.DestinationID,
		v1alpha1.LabelVirtualNode: d.NodeName,
	}
}

// ReflectedLabels returns the labels of the consumer's reflected objects in remote namespaces. They do not name a
// virtual node, because all virtual nodes of a provider share these objects.
func (d Destination) ReflectedLabels() map[string]string {
	return map[string]string{
		v1alpha1.LabelOrigin:      d.OriginID,
		v1alpha1.LabelDestination: d.DestinationID,
	}
}

// ShadowPod returns the desired shadow pod of a local pod in the remote namespace, with the virtual node's offloading
// patch, which may be nil. It shares no memory with its arguments.
func ShadowPod(
	pod *corev1.Pod, namespace string, to Destination, patch *v1alpha1.OffloadingPatch,
) *v1alpha1.ShadowPod {
	if patch == nil {
		patch = &v1alpha1.OffloadingPatch{}
	}
	spec, tokens := redirectToConsumerAPI(pod, to)
	annotations := podAnnotations(pod, patch.ExcludedAnnotations)
	delete(annotations, v1alpha1.AnnotationTokenSecret)
	if tokens != "" {
		annotations[v1alpha1.AnnotationTokenSecret] = tokens
	}
	shadow := &v1alpha1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   namespace,
			Name:        pod.Name,
			Labels:      podLabels(pod, to, patch.ExcludedLabels),
			Annotations: annotations,
		},
		Spec: v1alpha1.ShadowPodSpec{Pod: podSpec(pod, spec, patch.ExcludedLabels), OfferedNode: to.OfferedNode},
	}
	applyPatch(&shadow.Spec.Pod, patch.DeepCopy())
	return shadow
}

// OriginUID returns the UID of the local pod that a shadow pod or a remote pod belongs to; empty if it names none.
func OriginUID(obj metav1.Object) types.UID {
	return types.UID(obj.GetAnnotations()[v1alpha1.AnnotationOriginUID])
}

func podLabels(pod *corev1.Pod, to Destination, excluded []string) map[string]string {
	labels := without(pod.Labels, excluded)
	maps.Copy(labels, to.Labels())
	return labels
}

func podAnnotations(pod *corev1.Pod, excluded []string) map[string]string {
	annotations := without(pod.Annotations, excluded)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	annotations[v1alpha1.AnnotationOriginNamespace] = pod.Namespace
	annotations[v1alpha1.AnnotationOriginUID] = string(pod.UID)
	return annotations
}

// podSpec returns the specification for a shadow pod. podspec.PodFields defines which fields are forwarded, and the
// values of some are translated here. Affinity terms and topology spread constraints that select by an excluded label
// are dropped.
func podSpec(local *corev1.Pod, from *corev1.PodSpec, excluded []string) corev1.PodSpec {
	spec := podspec.Forward(from)
	spec.Affinity = affinity(spec.Affinity, local, excluded)
	spec.Tolerations = podspec.ForwardTolerations(spec.Tolerations)
	spec.TopologySpreadConstraints = spreadConstraints(spec.TopologySpreadConstraints, local, excluded)
	if from.HostNetwork {
		eachContainer(&spec, clearHostPorts)
	}
	spec.EphemeralContainers = slices.DeleteFunc(spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool {
		return isRefused(find(local.Status.EphemeralContainerStatuses, c.Name))
	})

	dropIdentityVolumes(&spec)
	renameConfigMaps(&spec)
	useLocalFields(&spec, &local.Spec)
	return spec
}

// eachContainer calls visit with each init, regular and ephemeral container of a pod.
func eachContainer(spec *corev1.PodSpec, visit func(*corev1.Container)) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			visit(&containers[i])
		}
	}
	for i := range spec.EphemeralContainers {
		// EphemeralContainerCommon and Container have the same fields.
		visit((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

func clearHostPorts(container *corev1.Container) {
	for i := range container.Ports {
		container.Ports[i].HostPort = 0
	}
}

// dropIdentityVolumes removes the sources of volumes from which the provider's kubelet would mount an identity of the
// provider, for example tokens. It removes a volume without other sources, and its mounts.
func dropIdentityVolumes(spec *corev1.PodSpec) {
	removed := map[string]bool{}
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
		removed[v.Name] = true
		return true
	})
	if len(removed) == 0 {
		return
	}
	eachContainer(spec, func(container *corev1.Container) {
		container.VolumeMounts = slices.DeleteFunc(
			container.VolumeMounts,
			func(m corev1.VolumeMount) bool { return removed[m.Name] },
		)
	})
}
