// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const fieldServiceAccount = "spec.serviceAccountName"

// localFields maps fields of the downward API that differ on the provider to fields of the remote pod that have the
// values of the local pod.
var localFields = map[string]string{
	"metadata.namespace": "metadata.annotations['" + v1alpha1.AnnotationOriginNamespace + "']",
	"metadata.uid":       "metadata.annotations['" + v1alpha1.AnnotationOriginUID + "']",
	"spec.nodeName":      "metadata.labels['" + v1alpha1.LabelVirtualNode + "']",
}

// useLocalFields replaces references of the downward API to fields that differ on the provider, so that containers get
// the values of the local pod. It does not replace addresses, since containers need the ones on the provider.
func useLocalFields(spec, local *corev1.PodSpec) {
	eachContainer(spec, func(container *corev1.Container) {
		for i := range container.Env {
			env := &container.Env[i]
			switch {
			case env.ValueFrom == nil || env.ValueFrom.FieldRef == nil:
			case env.ValueFrom.FieldRef.FieldPath == fieldServiceAccount:
				env.Value, env.ValueFrom = local.ServiceAccountName, nil
			default:
				localField(env.ValueFrom.FieldRef)
			}
		}
	})
	for i := range spec.Volumes {
		if volume := spec.Volumes[i].DownwardAPI; volume != nil {
			localFiles(volume.Items)
		}
		if spec.Volumes[i].Projected == nil {
			continue
		}
		for _, source := range spec.Volumes[i].Projected.Sources {
			if source.DownwardAPI != nil {
				localFiles(source.DownwardAPI.Items)
			}
		}
	}
}

func localFiles(files []corev1.DownwardAPIVolumeFile) {
	for i := range files {
		if files[i].FieldRef != nil {
			localField(files[i].FieldRef)
		}
	}
}

func localField(field *corev1.ObjectFieldSelector) {
	if replacement, ok := localFields[field.FieldPath]; ok {
		field.FieldPath = replacement
	}
}
