// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/reflection"
)

const (
	// rootCA is the ConfigMap that every cluster creates in each namespace, with the CA certificate of its API server.
	rootCA = "kube-root-ca.crt"
	// consumerRootCA is the name under which the consumer's rootCA is reflected, since the remote namespace has the
	// provider's.
	consumerRootCA = rootCA + ".home"
)

// RemoteConfigMap returns the name of a local ConfigMap's reflected object.
func RemoteConfigMap(name string) string {
	if name == rootCA {
		return consumerRootCA
	}
	return name
}

// LocalConfigMap returns the name of the local ConfigMap whose reflected object has this name.
func LocalConfigMap(name string) string {
	if name == consumerRootCA {
		return rootCA
	}
	return name
}

// ConfigMap returns the desired reflected object of a local ConfigMap; nil if it is not reflected.
func ConfigMap(local *corev1.ConfigMap, namespace string, to Destination) *corev1.ConfigMap {
	if reflection.Excludes(local, to.DestinationID) || local.Name == consumerRootCA {
		return nil
	}
	desired := local.DeepCopy()
	return &corev1.ConfigMap{
		ObjectMeta: reflectedMeta(local, RemoteConfigMap(local.Name), namespace, to),
		Immutable:  desired.Immutable,
		Data:       desired.Data,
		BinaryData: desired.BinaryData,
	}
}

// UpdateConfigMap changes an existing reflected ConfigMap into the desired one. It returns Replace if the existing one
// is immutable and differs.
func UpdateConfigMap(existing, desired *corev1.ConfigMap) Change {
	same := equality.Semantic.DeepEqual(existing.Data, desired.Data) &&
		equality.Semantic.DeepEqual(existing.BinaryData, desired.BinaryData)
	if ptr.Deref(existing.Immutable, false) && !(same && ptr.Deref(desired.Immutable, false)) {
		return Replace
	}
	differs := updateMeta(&existing.ObjectMeta, &desired.ObjectMeta)
	if !same || !ptr.Equal(existing.Immutable, desired.Immutable) {
		existing.Data, existing.BinaryData, existing.Immutable = desired.Data, desired.BinaryData, desired.Immutable
		differs = true
	}
	return changed(differs)
}

// renameConfigMaps replaces the names of ConfigMaps in a pod's volumes and variables by the names of their reflected
// objects.
func renameConfigMaps(spec *corev1.PodSpec) {
	for i := range spec.Volumes {
		if volume := spec.Volumes[i].ConfigMap; volume != nil {
			volume.Name = RemoteConfigMap(volume.Name)
		}
		if spec.Volumes[i].Projected == nil {
			continue
		}
		for _, source := range spec.Volumes[i].Projected.Sources {
			if source.ConfigMap != nil {
				source.ConfigMap.Name = RemoteConfigMap(source.ConfigMap.Name)
			}
		}
	}
	eachContainer(spec, func(container *corev1.Container) {
		for _, env := range container.Env {
			if env.ValueFrom != nil && env.ValueFrom.ConfigMapKeyRef != nil {
				env.ValueFrom.ConfigMapKeyRef.Name = RemoteConfigMap(env.ValueFrom.ConfigMapKeyRef.Name)
			}
		}
		for _, from := range container.EnvFrom {
			if from.ConfigMapRef != nil {
				from.ConfigMapRef.Name = RemoteConfigMap(from.ConfigMapRef.Name)
			}
		}
	})
}
