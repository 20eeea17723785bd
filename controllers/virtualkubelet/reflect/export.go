// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const exported = "true"

// Exported tells whether the copy of a Service says that it is exported.
func Exported(service *corev1.Service) bool {
	return service.Labels[v1alpha1.LabelExported] == exported
}

// MarkExported is a local Service with the label that says to its copies that
// it is exported, or without: only a ServiceExport gives it. The Service itself
// is not changed.
func MarkExported(local *corev1.Service, is bool) *corev1.Service {
	if _, labelled := local.Labels[v1alpha1.LabelExported]; labelled == is && Exported(local) == is {
		return local
	}
	marked := local.DeepCopy()
	delete(marked.Labels, v1alpha1.LabelExported)
	if is {
		if marked.Labels == nil {
			marked.Labels = map[string]string{}
		}
		marked.Labels[v1alpha1.LabelExported] = exported
	}
	return marked
}
