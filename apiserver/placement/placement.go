// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement decides to which providers a namespace is offloaded, on which nodes its pods may
// run, and which pods wait for a move of their data. Its functions are pure. At the admission of pods
// with claims, the resource placementreviews calls Decide. For pods without claims, the admission
// policy federation-placement computes the same result in CEL; change both together.
package placement

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/apiserver/volume"
)

// Input are all facts that the placement of a new pod depends on.
type Input struct {
	// Offloading is the NamespaceOffloading of the pod's namespace, or nil if it does not exist.
	Offloading *v1alpha1.NamespaceOffloading
	// Namespace is the namespace of the pod. metadata.namespace of Pod may be empty.
	Namespace string
	// Pod is the pod that is being created.
	Pod *corev1.Pod
	// Claims are the claims that the pod mounts.
	Claims []Claim
	// CreatedByControllers is true if federation-controller-manager creates the pod. Only such a pod
	// can be a pod of a move, whose nodes Decide does not restrict.
	CreatedByControllers bool
	// Offering returns the IDs of the providers that offer a StorageClass, sorted.
	Offering func(storageClass string) []string
}

// Decision is the result of the placement of a new pod: a refusal, or changes of the pod.
type Decision struct {
	// Denied is the reason why the pod is denied, or empty if it is admitted.
	Denied string
	// Gated adds the scheduling gate of a move to the pod.
	Gated bool
	// Tolerate adds the toleration of virtual nodes to the pod.
	Tolerate bool
	// Terms replace the terms of the pod's required node affinity, and contain the requirements of the replaced terms.
	// Nil does not change the affinity.
	Terms []corev1.NodeSelectorTerm
	// Warnings are returned to the user who creates the pod, each a sentence.
	Warnings []string
}

// Decide returns the placement of a new pod. For pods without claims, the admission policy
// federation-placement computes the same result.
func Decide(in Input) Decision {
	gated, denied := hold(in)
	decision := Decision{Gated: gated, Denied: denied}
	if denied != "" || isMover(in) || podspec.BelongsToItsNode(in.Pod) {
		return decision
	}
	if in.Offloading == nil {
		decision.Denied = fmt.Sprintf("namespace %s has the label %s, but no NamespaceOffloading: "+
			"create it, or remove the label", in.Namespace, v1alpha1.LabelSchedulingEnabled)
		return decision
	}
	scope := narrow(in)
	decision.Denied, decision.Warnings = scope.denied, scope.warnings
	if decision.Denied != "" {
		return decision
	}
	decision.Tolerate = scope.strategy != v1alpha1.Local && !tolerated(in.Pod)
	allowed := allowedTerms(scope, in.Offloading.Spec.ClusterSelector.NodeSelectorTerms)
	if allowed != nil {
		decision.Terms = and(in.Pod, allowed)
	}
	return decision
}

// hold reports whether the pod must wait until a move has ended. denied is not empty if the pod is
// refused, because it has a node already and cannot wait, or because it mounts a claim that a move
// created for itself.
func hold(in Input) (gated bool, denied string) {
	for _, claim := range in.Claims {
		if id := claim.createdBy(); id != "" && !(isMover(in) && in.Pod.Labels[volume.LabelMove] == id) {
			return false, fmt.Sprintf("claim %q has the label %s of move %s, and only pods of the move may mount it: "+
				"mount the claim whose data is moved", claim.Name, volume.LabelMove, id)
		}
		id := claim.moving()
		if id == "" || isMover(in) && in.Pod.Labels[volume.LabelMove] == id {
			continue
		}
		if in.Pod.Spec.NodeName != "" {
			return false, fmt.Sprintf("move %s of claim %q is in progress, and a pod with spec.nodeName cannot wait for it: "+
				"create the pod without spec.nodeName, or after the move", id, claim.Name)
		}
		gated = true
	}
	return gated, ""
}

// isMover reports whether the pod is a mover, which copies the data of a move.
func isMover(in Input) bool { return in.CreatedByControllers && in.Pod.Labels[volume.LabelMove] != "" }

// scope is the set of clusters in which a pod may run.
type scope struct {
	strategy v1alpha1.PodOffloadingStrategy
	// clusters are the IDs of the providers that the pod may run on. Nil means all providers.
	clusters []string
	denied   string
	warnings []string
}

// narrow returns the clusters that both the strategy of the namespace and the claims of the pod permit.
func narrow(in Input) scope {
	s := scope{strategy: strategyOf(in.Offloading)}
	if s.strategy == v1alpha1.LocalAndRemote {
		for _, claim := range in.Claims {
			if claim.site(in.Namespace) != localSite {
				continue
			}
			s.strategy = v1alpha1.Local
			if claim.Object == nil {
				s.warn("Claim %q does not exist: the pod stays in the local cluster, because the claim's class is unknown.",
					claim.Name)
			}
		}
	}
	if s.strategy != v1alpha1.Local {
		s.requireClasses(in)
	}
	for _, claim := range in.Claims {
		switch site := claim.site(in.Namespace); {
		case site == remoteSite && s.strategy == v1alpha1.Local:
			s.warn("Claim %q has its data on a remote cluster, and the pod may run in the local cluster only: "+
				"it stays Pending until the data is moved.", claim.Name)
		case site == localSite && s.strategy == v1alpha1.Remote && claim.isVirtual():
			s.warn("Claim %q has its data in the local cluster, and the pod may run on remote clusters only: "+
				"it stays Pending until the data is moved.", claim.Name)
		}
	}
	return s
}

// requireClasses removes the providers that do not offer all StorageClasses that unbound claims of the pod name in the
// annotation liqo.io/remote-storage-class. If no provider remains, the pod is placed in the local cluster if the
// strategy permits that, and is refused otherwise. The pod could not wait for a provider to offer the class, because
// its affinity cannot change later.
func (s *scope) requireClasses(in Input) {
	for _, claim := range in.Claims {
		class := claim.remoteClass(in.Namespace)
		if class == "" {
			continue
		}
		offering := in.Offering(class)
		if s.clusters == nil {
			s.clusters = slices.Clone(offering)
		} else {
			s.clusters = slices.DeleteFunc(s.clusters, func(id string) bool { return !slices.Contains(offering, id) })
		}
		if len(s.clusters) > 0 {
			continue
		}
		if s.strategy == v1alpha1.Remote {
			s.denied = fmt.Sprintf("no remote cluster offers all storage classes that the claims of the pod require, "+
				"for example %q by claim %q in annotation %s: use a class of status.storageClasses of a VirtualNode",
				class, claim.Name, v1alpha1.AnnotationRemoteStorageClass)
			return
		}
		s.strategy = v1alpha1.Local
		s.warn("No remote cluster offers storage class %q, which claim %q requires: the pod stays in the local cluster.",
			class, claim.Name)
		return
	}
}

func (s *scope) warn(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf(format, args...))
}

// strategyOf returns the strategy for new pods of a namespace. It is Local while the namespace is being
// unoffloaded.
func strategyOf(offloading *v1alpha1.NamespaceOffloading) v1alpha1.PodOffloadingStrategy {
	switch {
	case !offloading.DeletionTimestamp.IsZero():
		return v1alpha1.Local
	case offloading.Spec.PodOffloadingStrategy == "":
		return v1alpha1.LocalAndRemote
	}
	return offloading.Spec.PodOffloadingStrategy
}
