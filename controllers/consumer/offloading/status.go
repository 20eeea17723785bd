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
	// ending reports whether the peering is being ended, which releases the data.
	ending bool
	// refusal is the reason for which the cluster is not selected.
	refusal     string
	selectorErr error
	// requested reports whether the cluster's map has an entry of the namespace, full whether the map has the maximum
	// number of entries, and taken whether another entry has the same remote namespace.
	requested, full, taken bool
	// pods is the number of unfinished pods of the namespace on the cluster; kept reports whether the remote namespace
	// is kept for some of them.
	pods int
	kept bool
	// reported is the status of the entry; nil before the cluster reports it.
	reported *v1alpha1.NamespaceMappingStatus
	// former is an earlier remote namespace, with another name, that the cluster still reports.
	former string
}

// observe sets the state from the NamespaceMap of the cluster. remoteName is the name of a new remote namespace. A
// status with another remote name than the entry is older than the entry.
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

// left returns the remote namespace that the cluster reports; empty if there is none.
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
		return metav1.ConditionTrue, "RemoteNamespaceCreated", ""
	case s.reported != nil && s.reported.Phase == v1alpha1.NamespaceMappingReady && s.pods > 0:
		return metav1.ConditionFalse, "PodsRemain",
			"Pods of the namespace run on the cluster; its remote namespace is deleted after them."
	case s.reported != nil && s.reported.Phase == v1alpha1.NamespaceMappingReady:
		return metav1.ConditionFalse, "Leaving", "The cluster has not begun to delete the remote namespace."
	case s.reported != nil:
		return metav1.ConditionFalse, string(s.reported.Phase), s.reported.Message
	case !s.requested && s.taken:
		return metav1.ConditionFalse, "NameTaken",
			"On the cluster, the remote namespace of another namespace has this name: " +
				"use another mapping strategy, or unoffload that namespace."
	case !s.requested && s.full:
		return metav1.ConditionFalse, "TooManyNamespaces", fmt.Sprintf(
			"The cluster accepts no more than %d namespaces: unoffload another one.", maxEntries)
	case s.former != "":
		return metav1.ConditionFalse, "Pending", fmt.Sprintf(
			"The cluster has not answered yet: it has not deleted %s, the last remote namespace of the namespace.",
			s.former)
	}
	return metav1.ConditionFalse, "Pending", "The cluster has not answered yet."
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

// recordFailures records an event for each provider on which the namespace failed with a new reason.
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
				"%s does not have the namespace: %s", s.cluster, message)
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

// statusOf returns the status of an offloading with the states. The conditions of the offloading are unchanged.
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
