// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/controllers/kit"
)

// Reconcile writes the entries of the NamespaceMap of one provider according to all NamespaceOffloadings.
func (r *MapReconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	return kit.Result(0, r.reconcile(ctx, request.Name))
}

func (r *MapReconciler) reconcile(ctx context.Context, name string) error {
	cluster := &v1alpha1.ForeignCluster{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
		// Unpeering deletes the peer namespace with the map.
		return client.IgnoreNotFound(err)
	}
	current := &v1alpha1.NamespaceMap{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: naming.PeerNamespace(name), Name: r.ClusterName}, current)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the namespace map of %s: %w", name, err)
	}
	exists := err == nil
	provider, err := r.provider(ctx, cluster)
	if err != nil {
		return fmt.Errorf("listing the virtual nodes of %s: %w", name, err)
	}
	offloadings, err := r.offloadings(ctx)
	if err != nil {
		return fmt.Errorf("listing namespace offloadings: %w", err)
	}
	entries := r.entries(ctx, provider, offloadings, current.Spec.Namespaces)
	switch {
	case !exists && len(entries) == 0:
		return nil
	case !exists:
		return r.create(ctx, naming.PeerNamespace(name), entries)
	case slices.Equal(current.Spec.Namespaces, entries):
		return nil
	}
	desired := current.DeepCopy()
	desired.Spec.Namespaces = entries
	_, err = kit.Commit(ctx, r.Client, current, desired)
	return err
}

func (r *MapReconciler) create(ctx context.Context, namespace string, entries []v1alpha1.NamespaceMapping) error {
	err := r.Client.Create(ctx, &v1alpha1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Name: r.ClusterName, Namespace: namespace},
		Spec:       v1alpha1.NamespaceMapSpec{Namespaces: entries},
	})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating the namespace map in %s: %w", namespace, err)
	}
	return nil
}

// entries returns the desired entries of a NamespaceMap: entries of selected namespaces, and existing entries that are
// still needed. If there are more than maxEntries, or two entries request the same remote namespace, existing entries
// take precedence, and then the oldest NamespaceOffloadings.
func (r *MapReconciler) entries(ctx context.Context, provider placement.Provider,
	offloadings []*v1alpha1.NamespaceOffloading, current []v1alpha1.NamespaceMapping,
) []v1alpha1.NamespaceMapping {
	present := make(map[string]v1alpha1.NamespaceMapping, len(current))
	for _, entry := range current {
		present[entry.Name] = entry
	}
	var existing, others []*v1alpha1.NamespaceOffloading
	for _, offloading := range offloadings {
		if _, ok := present[offloading.Namespace]; ok {
			existing = append(existing, offloading)
		} else {
			others = append(others, offloading)
		}
	}
	slices.SortFunc(others, func(a, b *v1alpha1.NamespaceOffloading) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace))
	})
	var entries []v1alpha1.NamespaceMapping
	taken := map[string]bool{}
	for _, offloading := range slices.Concat(existing, others) {
		entry := r.entry(ctx, provider, offloading, present[offloading.Namespace])
		if entry.Name != "" && !taken[entry.RemoteName] {
			taken[entry.RemoteName] = true
			entries = append(entries, entry)
		}
	}
	entries = entries[:min(len(entries), maxEntries)]
	slices.SortFunc(entries, func(a, b v1alpha1.NamespaceMapping) int { return strings.Compare(a.Name, b.Name) })
	return entries
}

// entry returns the desired entry of one namespace, or the zero value if it has none. present is the existing entry or
// the zero value.
func (r *MapReconciler) entry(ctx context.Context, provider placement.Provider,
	offloading *v1alpha1.NamespaceOffloading, present v1alpha1.NamespaceMapping,
) v1alpha1.NamespaceMapping {
	switch {
	case len(provider.VirtualNodes) == 0:
		return v1alpha1.NamespaceMapping{}
	case r.unoffloading(ctx, offloading), provider.Refuses() != "":
		return present
	}
	selector, err := placement.NewClusterSelector(offloading.Spec.ClusterSelector)
	if err != nil {
		// The status of the NamespaceOffloading reports the error.
		klog.FromContext(ctx).V(2).Info("Skipping a namespace with an invalid selector",
			"namespace", offloading.Namespace, "reason", err.Error())
		return present
	}
	if provider.Choose(selector, r.nodes(ctx)) != "" {
		if present.Name == "" {
			return present
		}
		if claims, err := r.held(ctx, offloading.Namespace, provider.Cluster.Name); err != nil || len(claims) > 0 ||
			r.kept(offloading, provider) {
			// If the volumes cannot be listed, the entry is kept, because their data would be deleted with the remote
			// namespace.
			return present
		}
		return v1alpha1.NamespaceMapping{}
	}
	return v1alpha1.NamespaceMapping{Name: offloading.Namespace, RemoteName: r.remoteName(offloading)}
}

// kept reports whether the remote namespace is kept because pods that run in it would be deleted with it. It returns
// true while not all pods are cached.
func (r *MapReconciler) kept(offloading *v1alpha1.NamespaceOffloading, provider placement.Provider) bool {
	pods, complete := r.Pods.Seen(offloading.Namespace)
	return !complete || keeping(offloading, provider, pods) > 0
}
