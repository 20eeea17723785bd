// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceexport

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// importFor returns the ServiceImport of a Service in the same namespace. Unless the Service is headless, the
// ServiceImport has its cluster IP, because the Service has the endpoints of all reachable clusters already. The
// garbage collector deletes the ServiceImport together with owner.
func importFor(service *corev1.Service, owner metav1.OwnerReference) *mcsv1alpha1.ServiceImport {
	from := service.DeepCopy().Spec
	spec := mcsv1alpha1.ServiceImportSpec{
		Type:                  mcsv1alpha1.ClusterSetIP,
		IPs:                   from.ClusterIPs,
		IPFamilies:            from.IPFamilies,
		SessionAffinity:       from.SessionAffinity,
		SessionAffinityConfig: from.SessionAffinityConfig,
		InternalTrafficPolicy: from.InternalTrafficPolicy,
		TrafficDistribution:   from.TrafficDistribution,
		Ports:                 []mcsv1alpha1.ServicePort{},
	}
	if from.ClusterIP == corev1.ClusterIPNone {
		spec.Type, spec.IPs = mcsv1alpha1.Headless, nil
	}
	for _, port := range from.Ports {
		spec.Ports = append(spec.Ports, mcsv1alpha1.ServicePort{
			Name: port.Name, Protocol: port.Protocol, AppProtocol: port.AppProtocol, Port: port.Port,
		})
	}
	return &mcsv1alpha1.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace, Name: service.Name,
			Labels:          map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: spec,
	}
}

// isManaged reports whether this controller created a ServiceImport.
func isManaged(found *mcsv1alpha1.ServiceImport) bool {
	return found.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy
}

// updateImport copies the desired fields to an existing ServiceImport, and reports whether it changed.
// Labels and annotations of other clients stay.
func updateImport(existing, wanted *mcsv1alpha1.ServiceImport) bool {
	labels := maps.Clone(existing.Labels)
	maps.Copy(labels, wanted.Labels)
	if maps.Equal(labels, existing.Labels) && equality.Semantic.DeepEqual(existing.Spec, wanted.Spec) &&
		equality.Semantic.DeepEqual(existing.OwnerReferences, wanted.OwnerReferences) {
		return false
	}
	existing.Labels, existing.Spec, existing.OwnerReferences = labels, wanted.Spec, wanted.OwnerReferences
	return true
}

// updateStatus sets the clusters, and the condition Ready, in the status of a ServiceImport. present is
// true if it has EndpointSlices.
func updateStatus(existing *mcsv1alpha1.ServiceImport, clusters []string, present bool) {
	status := &existing.Status
	status.EndpointSliceObjects = mcsv1alpha1.EndpointSliceObjectsAbsent
	if present {
		status.EndpointSliceObjects = mcsv1alpha1.EndpointSliceObjectsPresent
	}
	status.Clusters = nil
	// Two clusters may have the same name, which the list has once.
	clusters = slices.Clone(clusters)
	slices.Sort(clusters)
	for _, cluster := range slices.Compact(clusters) {
		status.Clusters = append(status.Clusters, mcsv1alpha1.ClusterStatus{Cluster: cluster})
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: string(
			mcsv1alpha1.ServiceImportConditionReady,
		), Status: metav1.ConditionTrue, Reason: string(mcsv1alpha1.ServiceImportReasonReady),
		Message:            "The Service of the same name has the endpoints of all clusters in status.clusters.",
		ObservedGeneration: existing.Generation,
	})
}
