// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const exported = "true"

// Exported reports whether a reflected Service has the label of exported Services.
func Exported(service *corev1.Service) bool {
	return service.Labels[v1alpha1.LabelExported] == exported
}

// MarkExported returns a local Service, with the label of exported Services if the second argument is true, and
// otherwise without it. A label that a user set has no effect, since only a ServiceExport exports a Service. It does
// not modify the argument.
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
