// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const fieldServiceAccount = "spec.serviceAccountName"

// localFields are the fields of a pod that differ on the provider, and where
// the provider's pod has those of the local one.
var localFields = map[string]string{
	"metadata.namespace": "metadata.annotations['" + v1alpha1.AnnotationOriginNamespace + "']",
	"metadata.uid":       "metadata.annotations['" + v1alpha1.AnnotationOriginUID + "']",
	"spec.nodeName":      "metadata.labels['" + v1alpha1.LabelVirtualNode + "']",
}

// tellOfLocal has the downward API tell a pod of itself what it would tell it
// at home. Addresses are told as they are where the pod runs: they are for it
// to use there.
func tellOfLocal(spec, local *corev1.PodSpec) {
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
	if instead, ok := localFields[field.FieldPath]; ok {
		field.FieldPath = instead
	}
}
