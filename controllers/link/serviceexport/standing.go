// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceexport

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
)

// ReasonNotOffloaded of the condition Ready of a ServiceExport means that the namespace was unoffloaded, and the
// ServiceImports are deleted. Offload the namespace, or delete the ServiceExport.
const ReasonNotOffloaded mcsv1alpha1.ServiceExportConditionReason = "NotOffloaded"

// standing has the conditions of a ServiceExport: whether its Service can be exported, and is exported.
type standing struct {
	valid        metav1.ConditionStatus
	validReason  mcsv1alpha1.ServiceExportConditionReason
	ready        metav1.ConditionStatus
	readyReason  mcsv1alpha1.ServiceExportConditionReason
	validMessage string
	readyMessage string
}

var (
	exported = standing{
		valid: metav1.ConditionTrue, validReason: mcsv1alpha1.ServiceExportReasonValid,
		validMessage: "The Service can be exported.",
		ready:        metav1.ConditionTrue, readyReason: mcsv1alpha1.ServiceExportReasonExported,
		readyMessage: "The Service is imported in this cluster, and in each cluster to which the namespace is offloaded " +
			"and that serves ServiceImports.",
	}
	nameTaken = failed(
		"The namespace has a ServiceImport with this name that was not created for the export. " +
			"Delete that ServiceImport: the export is retried within half a minute.",
	)
	notOffloaded = standing{
		ready: metav1.ConditionFalse, readyReason: ReasonNotOffloaded, readyMessage: "The namespace is not offloaded.",
	}
)

// failed returns the standing of a valid Service whose ServiceImport the API server refused.
func failed(message string) standing {
	s := exported
	s.ready, s.readyReason, s.readyMessage = metav1.ConditionFalse, mcsv1alpha1.ServiceExportReasonFailed, message
	return s
}

// exportable returns the standing of a ServiceExport as far as its Service determines it. service is nil if
// it does not exist.
func exportable(service *corev1.Service) standing {
	s := standing{valid: metav1.ConditionFalse, ready: metav1.ConditionFalse}
	switch {
	case service == nil:
		s.validReason, s.validMessage = mcsv1alpha1.ServiceExportReasonNoService, "A Service with this name does not exist."
		s.readyReason, s.readyMessage = mcsv1alpha1.ServiceExportReasonPending, "The export waits for the Service."
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		s.validReason = mcsv1alpha1.ServiceExportReasonInvalidServiceType
		s.validMessage = fmt.Sprintf("A Service of type %s has no endpoints to export.", service.Spec.Type)
		s.readyReason, s.readyMessage = mcsv1alpha1.ServiceExportReasonFailed, s.validMessage
	default:
		return exported
	}
	return s
}

// report sets the conditions of a standing in a status. Only the consumer exports a Service, so exports never
// conflict with each other. Conditions that the standing does not have stay unchanged.
func (s standing) report(status *mcsv1alpha1.ServiceExportStatus, generation int64) {
	set := func(
		of mcsv1alpha1.ServiceExportConditionType, is metav1.ConditionStatus,
		reason mcsv1alpha1.ServiceExportConditionReason, message string,
	) {
		if is == "" {
			return
		}
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: string(of), Status: is, Reason: string(reason), Message: message, ObservedGeneration: generation,
		})
	}
	set(mcsv1alpha1.ServiceExportConditionValid, s.valid, s.validReason, s.validMessage)
	set(mcsv1alpha1.ServiceExportConditionReady, s.ready, s.readyReason, s.readyMessage)
	if s.valid == metav1.ConditionTrue {
		set(mcsv1alpha1.ServiceExportConditionConflict, metav1.ConditionFalse, mcsv1alpha1.ServiceExportReasonNoConflicts,
			"The Service is exported from this cluster alone.")
	}
}
