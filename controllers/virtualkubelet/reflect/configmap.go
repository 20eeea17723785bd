// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/reflection"
)

const (
	// rootCA is the ConfigMap that each cluster puts into each of its
	// namespaces: who it is that answers at its API server.
	rootCA = "kube-root-ca.crt"
	// homeRootCA is the name in a twin namespace of the one from home, since
	// the provider has its own there.
	homeRootCA = rootCA + ".home"
)

// RemoteConfigMap is the name in a twin namespace of a local ConfigMap.
func RemoteConfigMap(name string) string {
	if name == rootCA {
		return homeRootCA
	}
	return name
}

// LocalConfigMap is the name of the local ConfigMap that the copy of a name
// was made from.
func LocalConfigMap(name string) string {
	if name == homeRootCA {
		return rootCA
	}
	return name
}

// ConfigMap is the copy of a local ConfigMap; nil if it stays home.
func ConfigMap(local *corev1.ConfigMap, twin string, to Destination) *corev1.ConfigMap {
	if reflection.StaysHome(local) || local.Name == homeRootCA {
		return nil
	}
	wanted := local.DeepCopy()
	return &corev1.ConfigMap{
		ObjectMeta: copyMeta(local, RemoteConfigMap(local.Name), twin, to),
		Immutable:  wanted.Immutable,
		Data:       wanted.Data,
		BinaryData: wanted.BinaryData,
	}
}

// UpdateConfigMap makes an existing copy the wanted one, as far as it can be
// changed.
func UpdateConfigMap(existing, wanted *corev1.ConfigMap) Change {
	same := equality.Semantic.DeepEqual(existing.Data, wanted.Data) && equality.Semantic.DeepEqual(existing.BinaryData, wanted.BinaryData)
	if ptr.Deref(existing.Immutable, false) && !(same && ptr.Deref(wanted.Immutable, false)) {
		return Replace
	}
	differs := updateMeta(&existing.ObjectMeta, &wanted.ObjectMeta)
	if !same || !ptr.Equal(existing.Immutable, wanted.Immutable) {
		existing.Data, existing.BinaryData, existing.Immutable, differs = wanted.Data, wanted.BinaryData, wanted.Immutable, true
	}
	return changed(differs)
}

// renameConfigMaps lets a pod find the ConfigMaps that have another name in
// the twin namespace.
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
