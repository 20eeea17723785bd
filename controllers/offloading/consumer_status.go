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

// standing is how a namespace stands at one cluster that lends.
type standing struct {
	cluster  string
	selected bool
	// ending reports that the peering with the cluster is not wanted any more: its end
	// releases the data.
	ending bool
	// refusal says why the cluster is not selected, if it is not.
	refusal     string
	selectorErr error
	// asked tells whether the cluster's map has an entry, full whether it can
	// take no more, taken whether it has another one with the same twin.
	asked, full, taken bool
	// pods counts those of the namespace that are there and have not finished;
	// inhabited tells whether some of them keep the twin.
	pods      int
	inhabited bool
	// answer is what the cluster made of the entry; nil before it answered.
	answer *v1alpha1.NamespaceMappingStatus
	// former is a twin from before, of another name, that the cluster still says
	// it has.
	former string
}

// hear takes in what the cluster said, when it was asked for a twin of this
// name. About another one it said it before.
func (s *standing) hear(answer *v1alpha1.NamespaceMappingStatus, asked string) {
	switch {
	case answer.RemoteName == asked:
		s.answer = answer
	case answer.Phase == v1alpha1.NamespaceMappingReady, answer.Phase == v1alpha1.NamespaceMappingTerminating:
		s.former = answer.RemoteName
	}
}

// left is the twin that the cluster has, as far as it has said; empty if none.
func (s standing) left() string {
	if s.answer != nil {
		return s.answer.RemoteName
	}
	return s.former
}

// ready tells whether the twin is there, and why not.
func (s standing) ready() (status metav1.ConditionStatus, reason, message string) {
	switch {
	case s.answer != nil && s.answer.Phase == v1alpha1.NamespaceMappingReady && s.selected:
		return metav1.ConditionTrue, "RemoteNamespaceCreated", ""
	case s.answer != nil && s.answer.Phase == v1alpha1.NamespaceMappingReady && s.pods > 0:
		return metav1.ConditionFalse, "PodsRemain", "Pods of the namespace are still there; its twin goes when they are gone."
	case s.answer != nil && s.answer.Phase == v1alpha1.NamespaceMappingReady:
		return metav1.ConditionFalse, "Leaving", "The cluster has yet to remove the namespace."
	case s.answer != nil:
		return metav1.ConditionFalse, string(s.answer.Phase), s.answer.Message
	case !s.asked && s.taken:
		return metav1.ConditionFalse, "NameTaken", "The twin of another namespace has that name there: use another mapping strategy, or unoffload the other one."
	case !s.asked && s.full:
		return metav1.ConditionFalse, "TooManyNamespaces", fmt.Sprintf("The cluster takes no more than %d namespaces: unoffload another one.", maxMappings)
	case s.former != "":
		return metav1.ConditionFalse, "Pending", fmt.Sprintf("The cluster has not answered yet: it has yet to remove %s, the last twin of the namespace.", s.former)
	}
	return metav1.ConditionFalse, "Pending", "The cluster has not answered yet."
}

// failed tells whether waiting alone will not help.
func (s standing) failed() bool {
	if s.answer == nil {
		return !s.asked && (s.full || s.taken)
	}
	switch s.answer.Phase {
	case v1alpha1.NamespaceMappingConflict, v1alpha1.NamespaceMappingRefused, v1alpha1.NamespaceMappingFailed:
		return true
	}
	return false
}

// tellFailures tells the owner of a namespace of each cluster that does not take
// it, once that is so.
func (c *Consumer) tellFailures(offloading *v1alpha1.NamespaceOffloading, standings []standing) {
	before := map[string]string{}
	for _, cluster := range offloading.Status.Clusters {
		if ready := meta.FindStatusCondition(cluster.Conditions, v1alpha1.ConditionReady); ready != nil {
			before[cluster.Name] = ready.Reason
		}
	}
	for _, s := range standings {
		_, reason, message := s.ready()
		if s.selected && s.answer != nil && s.failed() && before[s.cluster] != reason {
			c.events.Eventf(offloading, corev1.EventTypeWarning, "Namespace"+reason, "%s does not have the namespace: %s", s.cluster, message)
		}
	}
}

// summary is the phase of a namespace that stands like this.
func summary(standings []standing) v1alpha1.OffloadingPhase {
	var selected, ready, failed int
	for _, s := range standings {
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

// statusOf is the status of an offloading that stands like this. The
// conditions of the whole stay as they are.
func statusOf(offloading *v1alpha1.NamespaceOffloading, remoteName string, standings []standing, phase v1alpha1.OffloadingPhase, now time.Time) v1alpha1.NamespaceOffloadingStatus {
	known := map[string][]metav1.Condition{}
	for _, cluster := range offloading.Status.Clusters {
		known[cluster.Name] = cluster.Conditions
	}
	status := v1alpha1.NamespaceOffloadingStatus{
		ObservedGeneration:  offloading.Generation,
		Phase:               phase,
		RemoteNamespaceName: remoteName,
		Conditions:          slices.Clone(offloading.Status.Conditions),
	}
	for _, s := range standings {
		conditions := append([]metav1.Condition{}, known[s.cluster]...)
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
		if s.selected || s.answer != nil || s.former != "" {
			value, reason, message := s.ready()
			set(v1alpha1.ConditionReady, value, reason, message)
		} else {
			meta.RemoveStatusCondition(&conditions, v1alpha1.ConditionReady)
		}
		status.Clusters = append(status.Clusters, v1alpha1.OffloadedCluster{Name: s.cluster, Conditions: conditions})
	}
	return status
}
