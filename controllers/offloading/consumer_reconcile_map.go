// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/controllers/commit"
)

var compare = strings.Compare

// reconcileMap writes the NamespaceMap of one foreign cluster: what every
// NamespaceOffloading of this cluster wants there.
func (c *Consumer) reconcileMap(ctx context.Context, name string) (time.Duration, error) {
	namespace := naming.PeerNamespace(name)
	current, err := c.maps.NamespaceMaps(namespace).Get(c.clusterName)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	cluster, err := c.clusters.Get(name)
	if apierrors.IsNotFound(err) {
		// Unpeering removes the peer namespace, and the map with it.
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	l, err := c.lender(cluster)
	if err != nil {
		return 0, err
	}
	offloadings, err := c.offloadings.List(everything)
	if err != nil {
		return 0, err
	}
	var entries []v1alpha1.NamespaceMapping
	if current != nil {
		entries = current.Spec.Namespaces
	}
	wanted := c.wantedEntries(ctx, l, offloadings, entries)
	switch {
	case current == nil && len(wanted) == 0:
		return 0, nil
	case current == nil:
		return 0, c.createMap(ctx, namespace, wanted)
	case slices.Equal(entries, wanted):
		return 0, nil
	}
	changed := current.DeepCopy()
	changed.Spec.Namespaces = wanted
	_, err = commit.Commit(ctx, c.federation.FederationV1alpha1().NamespaceMaps(namespace), current, changed)
	return 0, err
}

func (c *Consumer) createMap(ctx context.Context, namespace string, entries []v1alpha1.NamespaceMapping) error {
	_, err := c.federation.FederationV1alpha1().NamespaceMaps(namespace).Create(ctx, &v1alpha1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Name: c.clusterName, Namespace: namespace},
		Spec:       v1alpha1.NamespaceMapSpec{Namespaces: entries},
	}, metav1.CreateOptions{})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create the namespace map in %s: %w", namespace, err)
	}
	return nil
}

// wantedEntries are the entries that a map should have: those of selected
// namespaces, and those that are there and whose pods are not gone yet. When
// there are too many, or two want one name, those count that are there, and
// then the oldest offloadings.
func (c *Consumer) wantedEntries(ctx context.Context, l placement.Provider, offloadings []*v1alpha1.NamespaceOffloading, current []v1alpha1.NamespaceMapping) []v1alpha1.NamespaceMapping {
	present := make(map[string]v1alpha1.NamespaceMapping, len(current))
	for _, entry := range current {
		present[entry.Name] = entry
	}
	var there, others []*v1alpha1.NamespaceOffloading
	for _, offloading := range offloadings {
		if _, ok := present[offloading.Namespace]; ok {
			there = append(there, offloading)
		} else {
			others = append(others, offloading)
		}
	}
	slices.SortFunc(others, func(a, b *v1alpha1.NamespaceOffloading) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), compare(a.Namespace, b.Namespace))
	})
	var wanted []v1alpha1.NamespaceMapping
	taken := map[string]bool{}
	for _, offloading := range slices.Concat(there, others) {
		entry := c.wantedEntry(ctx, l, offloading, present[offloading.Namespace])
		if entry.Name != "" && !taken[entry.RemoteName] {
			taken[entry.RemoteName] = true
			wanted = append(wanted, entry)
		}
	}
	wanted = wanted[:min(len(wanted), maxMappings)]
	slices.SortFunc(wanted, func(a, b v1alpha1.NamespaceMapping) int { return compare(a.Name, b.Name) })
	return wanted
}

// wantedEntry is the entry that one namespace should have, or an empty one;
// present is the one that it has.
func (c *Consumer) wantedEntry(ctx context.Context, l placement.Provider, offloading *v1alpha1.NamespaceOffloading, present v1alpha1.NamespaceMapping) v1alpha1.NamespaceMapping {
	switch {
	case len(l.VirtualNodes) == 0:
		return v1alpha1.NamespaceMapping{}
	case c.leaving(offloading), l.Refuses() != "":
		return present
	}
	selector, err := placement.NewClusterSelector(offloading.Spec.ClusterSelector)
	if err != nil {
		// The namespace's own status tells it to its owner.
		klog.FromContext(ctx).V(2).Info("Skipping a namespace", "namespace", offloading.Namespace, "reason", err.Error())
		return present
	}
	if l.Choose(selector, c.node) != "" {
		if present.Name == "" {
			return present
		}
		if claims, err := c.held(ctx, offloading.Namespace, l.Cluster.Name); err != nil || len(claims) > 0 || c.inhabited(offloading, l) {
			// What is unknown counts as data: without the namespace it would be given up.
			return present
		}
		return v1alpha1.NamespaceMapping{}
	}
	return v1alpha1.NamespaceMapping{Name: offloading.Namespace, RemoteName: c.remoteName(offloading)}
}

// inhabited tells whether pods of a namespace keep it at a cluster. As long as
// that is unknown they do: with the twin, they would be gone.
func (c *Consumer) inhabited(offloading *v1alpha1.NamespaceOffloading, l placement.Provider) bool {
	pods, complete := c.seenPods(offloading.Namespace)
	return !complete || staying(offloading, l, pods) > 0
}

// staying counts the pods that keep a namespace at a cluster. Where pods are
// evicted, those of DaemonSets do not, which would be made again for ever.
func staying(offloading *v1alpha1.NamespaceOffloading, l placement.Provider, pods []*corev1.Pod) int {
	if offloading.Spec.Enforcement == v1alpha1.Evict {
		pods = slices.DeleteFunc(slices.Clone(pods), podspec.BelongsToItsNode)
	}
	return l.PodsAt(pods)
}

func (c *Consumer) remoteName(offloading *v1alpha1.NamespaceOffloading) string {
	return naming.TwinNamespace(offloading.Namespace, &offloading.Spec, c.clusterName, c.clusterID)
}
