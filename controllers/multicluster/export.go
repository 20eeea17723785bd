// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/reflection"
)

// ReasonNotOffloaded is the reason of the condition Ready of a ServiceExport
// that was exported and whose namespace extends to no other cluster any more.
const ReasonNotOffloaded mcsv1alpha1.ServiceExportConditionReason = "NotOffloaded"

// Wanted tells whether a ServiceExport counts: it is not on its way out, and its
// owner does not keep it home.
func Wanted(export metav1.Object) bool {
	return export.GetDeletionTimestamp().IsZero() && !reflection.StaysHome(export)
}

// standing is how an export stands: whether its Service can be exported, and is.
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
		valid: metav1.ConditionTrue, validReason: mcsv1alpha1.ServiceExportReasonValid, validMessage: "The Service can be exported.",
		ready: metav1.ConditionTrue, readyReason: mcsv1alpha1.ServiceExportReasonExported,
		readyMessage: "It is imported here, and by each cluster that the namespace extends to and that serves ServiceImports.",
	}
	nameTaken = failed("the namespace has a ServiceImport of this name that somebody else made; it is left alone: remove it, and within half a minute this is tried again")
	gone      = standing{
		ready: metav1.ConditionFalse, readyReason: ReasonNotOffloaded, readyMessage: "The namespace extends to no other cluster.",
	}
)

// failed is an export of a good Service that was refused.
func failed(message string) standing {
	s := exported
	s.ready, s.readyReason, s.readyMessage = metav1.ConditionFalse, mcsv1alpha1.ServiceExportReasonFailed, message
	return s
}

// exportable says how the export of a Service stands before anything is done
// about it; the Service is nil if there is none.
func exportable(service *corev1.Service) standing {
	s := standing{valid: metav1.ConditionFalse, ready: metav1.ConditionFalse}
	switch {
	case service == nil:
		s.validReason, s.validMessage = mcsv1alpha1.ServiceExportReasonNoService, "There is no Service of this name."
		s.readyReason, s.readyMessage = mcsv1alpha1.ServiceExportReasonPending, "It waits for the Service."
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		s.validReason = mcsv1alpha1.ServiceExportReasonInvalidServiceType
		s.validMessage = fmt.Sprintf("A Service of type %s has no endpoints to export.", service.Spec.Type)
		s.readyReason, s.readyMessage = mcsv1alpha1.ServiceExportReasonFailed, s.validMessage
	default:
		return exported
	}
	return s
}

// tell writes a standing into a status. There is one export of each Service, the
// one at home, so none is ever in conflict with another. What a standing does
// not speak of stays.
func (s standing) tell(status *mcsv1alpha1.ServiceExportStatus, generation int64) {
	set := func(of mcsv1alpha1.ServiceExportConditionType, is metav1.ConditionStatus, reason mcsv1alpha1.ServiceExportConditionReason, message string) {
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
			"The Service is exported from here alone.")
	}
}
