// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/storage/move"
)

// maxNamed is the maximum number of objects of one kind that a message names, because a termination message has at most
// 2048 bytes.
const maxNamed = 8

// use lists the objects that use the federation.
type use struct {
	// complete is false if the federation API is not available; then use lists only namespaces.
	complete    bool
	clusters    []v1alpha1.ForeignCluster
	offloadings []v1alpha1.NamespaceOffloading
	// volumes are PersistentVolumes that are bound to a claim and whose data a provider stores, or that a move uses.
	volumes []corev1.PersistentVolume
	// namespaces are the names of the namespaces of peerings.
	namespaces []string
}

func (u *use) empty() bool {
	return len(u.clusters) == 0 && len(u.offloadings) == 0 && len(u.volumes) == 0 && len(u.namespaces) == 0
}

// peered reports whether a ForeignCluster has a peering or is being deleted.
func peered(fc *v1alpha1.ForeignCluster) bool {
	return fc.DeletionTimestamp != nil || isProvider(fc) || isConsumer(fc)
}

// isProvider reports whether the peer is a provider of the local cluster.
func isProvider(fc *v1alpha1.ForeignCluster) bool {
	return active(fc.Spec.Outgoing, fc.Status.OutgoingPeering)
}

// isConsumer reports whether the peer is a consumer of the local cluster.
func isConsumer(fc *v1alpha1.ForeignCluster) bool {
	return active(fc.Spec.Incoming, fc.Status.IncomingPeering)
}

func active(intent v1alpha1.PeeringIntent, phase v1alpha1.PeeringPhase) bool {
	return intent == v1alpha1.PeeringEnabled || (phase != v1alpha1.PeeringNone && phase != "")
}

// describe returns a line for each listed object, at most maxNamed of each kind.
func (u *use) describe() string {
	var clusters, offloaded, stored []string
	for i := range u.clusters {
		fc := &u.clusters[i]
		var how []string
		if isProvider(fc) {
			how = append(how, fmt.Sprintf("it is a provider of this cluster (%s)", phase(fc.Status.OutgoingPeering)))
		}
		if isConsumer(fc) {
			how = append(how, fmt.Sprintf("it is a consumer of this cluster (%s)", phase(fc.Status.IncomingPeering)))
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
		if claim, moved := move.ClaimOf(pv); moved {
			// The source and the target have the same claim.
			line := fmt.Sprintf("The data of claim %s is being moved: wait until the move has ended, or cancel it", claim)
			if !slices.Contains(stored, line) {
				stored = append(stored, line)
			}
			continue
		}
		stored = append(stored, fmt.Sprintf("Claim %s/%s has its data on a provider: move it, or delete the claim",
			pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name))
	}
	lines := slices.Concat(some(clusters), some(offloaded), some(stored))
	if len(clusters) == 0 {
		// Namespaces of peerings are described only if no ForeignCluster is listed, which would imply them.
		var left []string
		for _, namespace := range u.namespaces {
			left = append(left, fmt.Sprintf("Namespace %s of a peering exists", namespace))
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

// commands returns the kubectl commands that delete the listed objects, except volumes. They delete namespaces only
// if no ForeignCluster is listed, whose deletion would delete them.
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

// some returns the first maxNamed lines, and a line with the number of omitted ones.
func some(lines []string) []string {
	if len(lines) <= maxNamed {
		return lines
	}
	return append(lines[:maxNamed:maxNamed], fmt.Sprintf("and %d more", len(lines)-maxNamed))
}
