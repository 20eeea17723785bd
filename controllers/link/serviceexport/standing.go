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

// standing is the state of an export: whether its Service can be exported, and is exported.
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
		readyMessage: "It is imported in this cluster, and in each cluster that the namespace is offloaded to and " +
			"that serves ServiceImports.",
	}
	nameTaken = failed(
		"The namespace has a ServiceImport of this name that was not created for the export; it is not changed. " +
			"Delete it: the export is retried within half a minute.",
	)
	notOffloaded = standing{
		ready: metav1.ConditionFalse, readyReason: ReasonNotOffloaded, readyMessage: "The namespace is not offloaded.",
	}
)

// failed returns the standing of a valid Service whose export was refused.
func failed(message string) standing {
	s := exported
	s.ready, s.readyReason, s.readyMessage = metav1.ConditionFalse, mcsv1alpha1.ServiceExportReasonFailed, message
	return s
}

// exportable returns the standing of an export by its Service alone; nil is no Service.
func exportable(service *corev1.Service) standing {
	s := standing{valid: metav1.ConditionFalse, ready: metav1.ConditionFalse}
	switch {
	case service == nil:
		s.validReason, s.validMessage = mcsv1alpha1.ServiceExportReasonNoService, "There is no Service of this name."
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

// report writes a standing into a status. Each Service has one export, the consumer's, so none
// is ever in conflict with another one. Conditions that a standing lacks stay.
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
