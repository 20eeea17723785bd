// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/trust"
)

// maxEntries is the maximum number of remote namespaces that one consumer may request.
const maxEntries = 1000

// noOfferMessage is the message of an entry whose consumer has no offer, with the name of the ForeignCluster.
const noOfferMessage = "the provider creates no namespace before it has made an offer: see the answer to the " +
	"ResourceRequest. To permit the namespace, the provider's administrator sets spec.incomingPolicy.decision of " +
	"ForeignCluster %s to Accept, or creates a ResourceOffer"

// entry is one entry of a NamespaceMap with its new status. The status is not written while its phase is
// empty.
type entry struct {
	namespaceMap *v1alpha1.NamespaceMap
	v1alpha1.NamespaceMapping
	status v1alpha1.NamespaceMappingStatus
	// refused is the reason for the phase Refused.
	refused trust.RefusalReason
}

type entries []*entry

// entriesOf returns the entries of all NamespaceMaps of a consumer. existing is the number of the consumer's remote
// namespaces, including those that are being deleted. Entries that are refused have their phase and message set. If
// the consumer requests more new remote namespaces than it may have, entries of older NamespaceMaps, and earlier
// entries of one NamespaceMap, take precedence.
func (r *Reconciler) entriesOf(ctx context.Context, t tenant, existing int) entries {
	var all entries
	requested := map[string]bool{}
	for _, namespaceMap := range t.maps {
		if !namespaceMap.DeletionTimestamp.IsZero() {
			continue
		}
		for _, mapping := range namespaceMap.Spec.Namespaces {
			e := &entry{namespaceMap: namespaceMap, NamespaceMapping: mapping}
			e.status = v1alpha1.NamespaceMappingStatus{Name: mapping.Name, RemoteName: mapping.RemoteName}
			found := r.namespace(ctx, mapping.RemoteName)
			// An existing remote namespace of this consumer is kept, even if its name would be refused by now.
			own := found != nil && t.has(found)
			unwanted := r.refuseName(t, mapping.RemoteName)
			switch {
			case len(all) >= maxEntries:
				e.refuse(v1alpha1.NamespaceMappingRefused, "the provider accepts no more than %d namespaces of one cluster",
					maxEntries)
				e.refused = trust.RefusedByNumber
			case !t.permitted && !own:
				e.refuse(v1alpha1.NamespaceMappingRefused, noOfferMessage, t.foreignCluster)
				e.refused = trust.RefusedByOffer
			case unwanted != nil && !own:
				e.refuse(v1alpha1.NamespaceMappingRefused, "%v", unwanted)
				e.refused = trust.RefusedByName
			case requested[mapping.RemoteName]:
				e.refuse(v1alpha1.NamespaceMappingConflict, "the name %s is requested twice", mapping.RemoteName)
			case found != nil:
				e.check(t, found)
			case t.maxNamespaces > 0 && existing >= int(t.maxNamespaces):
				e.refuse(v1alpha1.NamespaceMappingRefused, "the provider permits at most %d remote namespaces: unoffload "+
					"another namespace, or have the provider's administrator raise "+
					"spec.incomingPolicy.maxRemoteNamespaces of ForeignCluster %s", t.maxNamespaces, t.foreignCluster)
				e.refused = trust.RefusedByNumber
			default:
				existing++
			}
			requested[mapping.RemoteName] = true
			all = append(all, e)
		}
	}
	return all
}

// refuseName returns the reason why a new remote namespace of the consumer must not have a name; nil if it may.
func (r *Reconciler) refuseName(t tenant, name string) error {
	if err := naming.RefuseRemoteNamespace(name, r.Reserved...); err != nil {
		return err
	}
	return trust.RefuseName(t.cluster, r.Names, name)
}

// namespace returns a cached namespace; nil if it does not exist.
func (r *Reconciler) namespace(ctx context.Context, name string) *corev1.Namespace {
	namespace := &corev1.Namespace{}
	if r.Client.Get(ctx, client.ObjectKey{Name: name}, namespace) != nil {
		// A cache fails only with NotFound.
		return nil
	}
	return namespace
}

func (e *entry) refuse(phase v1alpha1.NamespaceMappingPhase, format string, args ...any) {
	e.status.Phase, e.status.Message = phase, fmt.Sprintf(format, args...)
}

// check refuses an entry if found, the namespace with the name of its remote namespace, does not belong to the
// consumer, was created for another local namespace, or is being deleted.
func (e *entry) check(t tenant, found *corev1.Namespace) {
	switch {
	case !t.has(found):
		e.refuse(v1alpha1.NamespaceMappingConflict,
			"the provider has a namespace %s that does not belong to this consumer: use another namespace mapping "+
				"strategy, or ask the provider's administrator to delete that namespace", e.RemoteName)
	case !found.DeletionTimestamp.IsZero(), found.Annotations[v1alpha1.AnnotationOriginNamespace] != e.Name:
		e.refuse(v1alpha1.NamespaceMappingTerminating, "the previous namespace with this name is still being deleted")
	}
}

// wasReady reports whether the remote namespace was reported as ready already.
func (e *entry) wasReady() bool {
	return slices.ContainsFunc(e.namespaceMap.Status.Namespaces, func(status v1alpha1.NamespaceMappingStatus) bool {
		return status.Name == e.Name && status.RemoteName == e.RemoteName && status.Phase == v1alpha1.NamespaceMappingReady
	})
}

// keep reports whether an entry that is neither refused nor in conflict requests a remote namespace.
func (all entries) keep(namespace *corev1.Namespace) bool {
	return slices.ContainsFunc(all, func(e *entry) bool {
		return e.RemoteName == namespace.Name && e.Name == namespace.Annotations[v1alpha1.AnnotationOriginNamespace] &&
			e.status.Phase != v1alpha1.NamespaceMappingRefused && e.status.Phase != v1alpha1.NamespaceMappingConflict
	})
}
