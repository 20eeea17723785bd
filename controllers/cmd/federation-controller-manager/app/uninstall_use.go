// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// maxNamed is how many of a kind are named: a pod's termination message ends
// after 2048 bytes.
const maxNamed = 8

// use is what the federation is used for.
type use struct {
	// answered tells that the federation API was there to be asked.
	answered    bool
	clusters    []v1alpha1.ForeignCluster
	offloadings []v1alpha1.NamespaceOffloading
	// volumes are those whose data a provider stores and that a claim is bound to.
	volumes []corev1.PersistentVolume
	// namespaces are those of peerings.
	namespaces []string
}

func (u *use) empty() bool {
	return len(u.clusters) == 0 && len(u.offloadings) == 0 && len(u.volumes) == 0 && len(u.namespaces) == 0
}

// peered tells whether a ForeignCluster is more than an acquaintance.
func peered(fc *v1alpha1.ForeignCluster) bool {
	return fc.DeletionTimestamp != nil || borrows(fc) || lends(fc)
}

func borrows(fc *v1alpha1.ForeignCluster) bool {
	return wanted(fc.Spec.Outgoing, fc.Status.OutgoingPeering)
}

func lends(fc *v1alpha1.ForeignCluster) bool {
	return wanted(fc.Spec.Incoming, fc.Status.IncomingPeering)
}

func wanted(intent v1alpha1.PeeringIntent, phase v1alpha1.PeeringPhase) bool {
	return intent == v1alpha1.PeeringEnabled || (phase != v1alpha1.PeeringNone && phase != "")
}

// describe says with whom this cluster is peered, and what is offloaded.
func (u *use) describe() string {
	var clusters, offloaded, stored []string
	for i := range u.clusters {
		fc := &u.clusters[i]
		var how []string
		if borrows(fc) {
			how = append(how, fmt.Sprintf("this cluster borrows from it (%s)", phase(fc.Status.OutgoingPeering)))
		}
		if lends(fc) {
			how = append(how, fmt.Sprintf("this cluster lends to it (%s)", phase(fc.Status.IncomingPeering)))
		}
		if len(how) == 0 {
			how = append(how, "it is being deleted")
		}
		clusters = append(clusters, fmt.Sprintf("ForeignCluster %s: %s", fc.Name, strings.Join(how, ", ")))
	}
	for _, offloading := range u.offloadings {
		offloaded = append(offloaded, fmt.Sprintf("Namespace %s is offloaded", offloading.Namespace))
	}
	for i := range u.volumes {
		pv := &u.volumes[i]
		stored = append(stored, fmt.Sprintf("Claim %s/%s has its data on a provider: move it, or delete the claim", pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name))
	}
	lines := slices.Concat(some(clusters), some(offloaded), some(stored))
	if len(clusters) == 0 {
		// Otherwise they only show what was said already.
		var left []string
		for _, namespace := range u.namespaces {
			left = append(left, fmt.Sprintf("Namespace %s of a peering is there", namespace))
		}
		lines = append(lines, some(left)...)
	}
	return "  " + strings.Join(lines, "\n  ") + "\n"
}

func phase(p v1alpha1.PeeringPhase) v1alpha1.PeeringPhase {
	if p == "" {
		return v1alpha1.PeeringPending
	}
	return p
}

// commands end what is in use.
func (u *use) commands() string {
	var lines []string
	if len(u.offloadings) > 0 {
		lines = append(lines, "kubectl delete namespaceoffloadings --all --all-namespaces")
	}
	switch {
	case len(u.clusters) > maxNamed:
		lines = append(lines, "kubectl delete foreignclusters --all")
	case len(u.clusters) > 0:
		names := make([]string, len(u.clusters))
		for i := range u.clusters {
			names[i] = u.clusters[i].Name
		}
		lines = append(lines, "kubectl delete foreignclusters "+strings.Join(names, " "))
	case len(u.namespaces) > 0:
		lines = append(lines, "kubectl delete namespaces --selector "+v1alpha1.LabelRole)
	}
	return "  " + strings.Join(lines, "\n  ") + "\n"
}

// some are the first few lines.
func some(lines []string) []string {
	if len(lines) <= maxNamed {
		return lines
	}
	return append(lines[:maxNamed:maxNamed], fmt.Sprintf("and %d more", len(lines)-maxNamed))
}
