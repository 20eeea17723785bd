// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// state is the state of a namespace on one provider.
type state struct {
	cluster  string
	selected bool
	// ending is true while the peering is being ended. Then the teardown in package consumer/peering moves or deletes
	// the data; this package does so only if the namespace is unoffloaded, too.
	ending bool
	// refusal is the reason why the cluster is not selected.
	refusal     string
	selectorErr error
	// requested is true if the cluster's NamespaceMap has an entry for the namespace, full if the map has maxEntries
	// entries, and taken if the entry of another namespace has the same remote namespace.
	requested, full, taken bool
	// pods is the number of unfinished pods of the namespace on the cluster. kept is true if the remote namespace is
	// kept for some of them.
	pods int
	kept bool
	// reported is the status of the entry in the NamespaceMap; nil until the cluster has written it.
	reported *v1alpha1.NamespaceMappingStatus
	// former is the name of an earlier remote namespace that the cluster still reports; empty if there is none.
	former string
}

// observe sets the fields of s from the NamespaceMap of the cluster. remoteName is the name that a new remote namespace
// would get. A status with another name than the entry was written before the entry changed.
func (s *state) observe(current *v1alpha1.NamespaceMap, namespace, remoteName string) {
	s.full = len(current.Spec.Namespaces) >= maxEntries
	requested := remoteName
	for _, entry := range current.Spec.Namespaces {
		switch {
		case entry.Name == namespace:
			s.requested, requested = true, entry.RemoteName
		case entry.RemoteName == remoteName:
			s.taken = true
		}
	}
	i := slices.IndexFunc(current.Status.Namespaces, func(status v1alpha1.NamespaceMappingStatus) bool {
		return status.Name == namespace
	})
	if i < 0 {
		return
	}
	switch status := &current.Status.Namespaces[i]; {
	case status.RemoteName == requested:
		s.reported = status
	case status.Phase == v1alpha1.NamespaceMappingReady, status.Phase == v1alpha1.NamespaceMappingTerminating:
		s.former = status.RemoteName
	}
}

// left returns the name of the remote namespace that the cluster still reports; empty if there is none.
func (s state) left() string {
	if s.reported != nil {
		return s.reported.RemoteName
	}
	return s.former
}

// ready returns the condition Ready of a provider.
func (s state) ready() (status metav1.ConditionStatus, reason, message string) {
	switch {
	case s.reported != nil && s.reported.Phase == v1alpha1.NamespaceMappingReady && s.selected:
		return metav1.ConditionTrue, reasonRemoteNamespaceCreated, ""
	case s.reported != nil && s.reported.Phase == v1alpha1.NamespaceMappingReady && s.pods > 0:
		return metav1.ConditionFalse, reasonPodsRemain,
			"Pods of the namespace still run on the cluster: the remote namespace is deleted once they have ended."
	case s.reported != nil && s.reported.Phase == v1alpha1.NamespaceMappingReady:
		return metav1.ConditionFalse, reasonLeaving, "The cluster has not started to delete the remote namespace yet."
	case s.reported != nil:
		return metav1.ConditionFalse, string(s.reported.Phase), s.reported.Message
	case !s.requested && s.taken:
		return metav1.ConditionFalse, reasonNameTaken,
			"Another offloaded namespace uses the same name for its remote namespace on the cluster: " +
				"use another namespace mapping strategy, or unoffload the other namespace."
	case !s.requested && s.full:
		return metav1.ConditionFalse, reasonTooManyNamespaces, fmt.Sprintf(
			"%d namespaces are offloaded to the cluster, which is the maximum: unoffload another namespace.", maxEntries)
	case s.former != "":
		return metav1.ConditionFalse, reasonPending, fmt.Sprintf(
			"The cluster has not created the remote namespace yet: the previous remote namespace %s is not deleted.",
			s.former)
	}
	return metav1.ConditionFalse, reasonPending, "The cluster has not created the remote namespace yet."
}

// failed reports whether the namespace cannot become ready without a change by a user.
func (s state) failed() bool {
	if s.reported == nil {
		return !s.requested && (s.full || s.taken)
	}
	switch s.reported.Phase {
	case v1alpha1.NamespaceMappingConflict, v1alpha1.NamespaceMappingRefused, v1alpha1.NamespaceMappingFailed:
		return true
	}
	return false
}

// recordFailures emits an event for each provider on which the namespace cannot become ready, if the reason changed.
func (r *Reconciler) recordFailures(offloading *v1alpha1.NamespaceOffloading, states []state) {
	before := map[string]string{}
	for _, cluster := range offloading.Status.Clusters {
		if ready := meta.FindStatusCondition(cluster.Conditions, v1alpha1.ConditionReady); ready != nil {
			before[cluster.Name] = ready.Reason
		}
	}
	for _, s := range states {
		_, reason, message := s.ready()
		if s.selected && s.reported != nil && s.failed() && before[s.cluster] != reason {
			r.Events.Eventf(offloading, corev1.EventTypeWarning, "Namespace"+reason,
				"The namespace is not offloaded to %s: %s", s.cluster, message)
		}
	}
}

// phaseOf returns the phase of a namespace with these states.
func phaseOf(states []state) v1alpha1.OffloadingPhase {
	var selected, ready, failed int
	for _, s := range states {
		if !s.selected {
			continue
		}
		selected++
		if status, _, _ := s.ready(); status == metav1.ConditionTrue {
			ready++
		} else if s.failed() {
			failed++
		}
	}
	switch {
	case selected == 0:
		return v1alpha1.OffloadingNoClusterSelected
	case ready == selected:
		return v1alpha1.OffloadingReady
	case failed == selected:
		return v1alpha1.OffloadingAllFailed
	case failed > 0:
		return v1alpha1.OffloadingSomeFailed
	}
	return v1alpha1.OffloadingInProgress
}

// statusOf returns the status of a NamespaceOffloading with these states. Conditions of the object itself, unlike the
// conditions of each cluster, are unchanged.
func statusOf(offloading *v1alpha1.NamespaceOffloading, remoteName string, states []state,
	phase v1alpha1.OffloadingPhase, now time.Time,
) v1alpha1.NamespaceOffloadingStatus {
	before := map[string][]metav1.Condition{}
	for _, cluster := range offloading.Status.Clusters {
		before[cluster.Name] = cluster.Conditions
	}
	status := v1alpha1.NamespaceOffloadingStatus{
		ObservedGeneration:  offloading.Generation,
		Phase:               phase,
		RemoteNamespaceName: remoteName,
		Conditions:          slices.Clone(offloading.Status.Conditions),
	}
	for _, s := range states {
		conditions := append([]metav1.Condition{}, before[s.cluster]...)
		set := func(kind string, value metav1.ConditionStatus, reason, message string) {
			meta.SetStatusCondition(&conditions, metav1.Condition{
				Type: kind, Status: value, Reason: reason, Message: message,
				ObservedGeneration: offloading.Generation, LastTransitionTime: metav1.NewTime(now),
			})
		}
		switch {
		case s.selectorErr != nil:
			set(v1alpha1.ConditionOffloadingRequired, metav1.ConditionFalse, "InvalidSelector", s.selectorErr.Error())
		case s.selected:
			set(v1alpha1.ConditionOffloadingRequired, metav1.ConditionTrue, "ClusterSelected", "")
		default:
			set(v1alpha1.ConditionOffloadingRequired, metav1.ConditionFalse, "ClusterNotSelected", s.refusal)
		}
		if s.selected || s.reported != nil || s.former != "" {
			value, reason, message := s.ready()
			set(v1alpha1.ConditionReady, value, reason, message)
		} else {
			meta.RemoveStatusCondition(&conditions, v1alpha1.ConditionReady)
		}
		status.Clusters = append(status.Clusters, v1alpha1.OffloadedCluster{Name: s.cluster, Conditions: conditions})
	}
	return status
}
