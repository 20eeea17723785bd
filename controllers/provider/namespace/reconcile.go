// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
)

// usageInterval is the time between two reconciles of a consumer whose quota usage exceeds its offers.
const usageInterval = 30 * time.Second

// reasonNamespaceConflict of an event on a NamespaceMap means that a namespace with the name of the remote namespace
// does not belong to the consumer. Delete that namespace, or use another mapping strategy.
const reasonNamespaceConflict = "NamespaceConflict"

// Reconcile creates, updates and deletes the remote namespaces of one consumer, which requests them in the
// entries of its NamespaceMaps.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	return kit.Result(r.reconcile(ctx, request.Name))
}

// reconcile returns the time after which to reconcile again; zero means that only an event causes it.
func (r *Reconciler) reconcile(ctx context.Context, foreignCluster string) (time.Duration, error) {
	t, err := r.tenantOf(ctx, foreignCluster)
	if err != nil {
		return 0, err
	}
	var existing corev1.NamespaceList
	if err := r.Client.List(ctx, &existing, client.MatchingLabels{
		v1alpha1.LabelRole: v1alpha1.RoleRemoteNamespace, v1alpha1.LabelForeignCluster: foreignCluster,
	}); err != nil {
		return 0, fmt.Errorf("listing the remote namespaces of %s: %w", foreignCluster, err)
	}
	requested := r.entriesOf(ctx, t, len(existing.Items))
	// kept maps remote namespaces that are no longer requested to the volumes because of which they are kept.
	kept := map[string][]string{}

	var again time.Duration
	var failed []error
	for i := range existing.Items {
		namespace := &existing.Items[i]
		if requested.keep(namespace) {
			continue
		}
		after, volumes, err := r.tearDown(ctx, t, namespace)
		kept[namespace.Name] = volumes
		failed = append(failed, err)
		if after > 0 && (again == 0 || after < again) {
			again = after
		}
	}
	for _, e := range requested {
		if e.status.Phase == "" {
			failed = append(failed, r.ensure(ctx, t, e))
		}
	}
	for _, namespaceMap := range t.maps {
		failed = append(failed, r.report(ctx, namespaceMap, requested, existing.Items, kept))
	}
	if exceeds(t.used, t.offered) && (again == 0 || usageInterval < again) {
		again = usageInterval
	}
	return again, errors.Join(failed...)
}

// tenant has the data about one consumer, as read by one reconcile.
type tenant struct {
	// foreignCluster is the name of the consumer's ForeignCluster, namespace its tenant namespace, and
	// clusterID its cluster ID.
	foreignCluster, namespace, clusterID string
	// cluster is the consumer's ForeignCluster; nil if the incoming direction is disabled, or the tenant namespace
	// does not exist. All following fields are empty then.
	cluster *v1alpha1.ForeignCluster
	// maps are the consumer's NamespaceMaps, the oldest first.
	maps []*v1alpha1.NamespaceMap
	// permitted reports whether an offer to the consumer exists that is not withdrawn. Otherwise, the consumer gets no
	// new remote namespaces.
	permitted bool
	// offered has the limits that the offers set for the ResourceQuota of each remote namespace. used is the usage of
	// the consumer's pods in all remote namespaces; nil if permitted is false.
	offered, used corev1.ResourceList
	// isolation is the NetworkPolicy of each remote namespace; nil if pods of the consumer are not isolated.
	isolation *networkingv1.NetworkPolicySpec
	// maxNamespaces is the maximum number of remote namespaces; 0 means no limit.
	maxNamespaces int32
	// objects has the maximum numbers of objects in each remote namespace, by the names of a ResourceQuota.
	objects corev1.ResourceList
	// classes is the result of classesOf.
	classes map[string]*string
}

func (r *Reconciler) tenantOf(ctx context.Context, foreignCluster string) (tenant, error) {
	t := tenant{foreignCluster: foreignCluster, namespace: naming.TenantNamespace(foreignCluster)}
	cluster := &v1alpha1.ForeignCluster{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: foreignCluster}, cluster); err != nil {
		return t, client.IgnoreNotFound(err)
	}
	namespace := &corev1.Namespace{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: t.namespace}, namespace); err != nil {
		return t, client.IgnoreNotFound(err)
	}
	peered := cluster.DeletionTimestamp.IsZero() && cluster.Spec.Incoming == v1alpha1.PeeringEnabled &&
		cluster.Spec.ClusterID != "" &&
		namespace.DeletionTimestamp.IsZero() &&
		namespace.Labels[v1alpha1.LabelRole] == v1alpha1.RoleTenant &&
		namespace.Labels[v1alpha1.LabelForeignCluster] == foreignCluster
	if !peered {
		return t, nil
	}
	t.cluster, t.clusterID = cluster, cluster.Spec.ClusterID
	var offers v1alpha1.ResourceOfferList
	if err := r.Client.List(ctx, &offers, client.InNamespace(t.namespace)); err != nil {
		return t, fmt.Errorf("listing the resource offers of %s: %w", foreignCluster, err)
	}
	t.offered, t.classes = quotaOf(offers.Items), r.classesOf(cluster)
	t.permitted = slices.ContainsFunc(offers.Items, stands)
	t.objects = trust.Objects(cluster, r.Objects, r.Reflected)
	t.maxNamespaces = trust.MaxRemoteNamespaces(cluster, r.MaxNamespaces)
	if trust.Network(cluster, r.Network.Access) == v1alpha1.NetworkIsolated {
		var err error
		if t.isolation, err = r.isolation(ctx, cluster); err != nil {
			return t, err
		}
	}
	if t.permitted {
		var err error
		if t.used, err = r.usedBy(ctx, foreignCluster); err != nil {
			return t, err
		}
	}
	var namespaceMaps v1alpha1.NamespaceMapList
	if err := r.Client.List(ctx, &namespaceMaps, client.InNamespace(t.namespace)); err != nil {
		return t, fmt.Errorf("listing the namespace maps of %s: %w", foreignCluster, err)
	}
	t.maps = kit.Pointers(namespaceMaps.Items)
	slices.SortFunc(t.maps, func(a, b *v1alpha1.NamespaceMap) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return t, nil
}

// has reports whether a namespace is a remote namespace of the consumer.
func (t tenant) has(namespace *corev1.Namespace) bool {
	return namespace.Labels[v1alpha1.LabelRole] == v1alpha1.RoleRemoteNamespace &&
		namespace.Labels[v1alpha1.LabelForeignCluster] == t.foreignCluster &&
		namespace.Labels[v1alpha1.LabelOrigin] == t.clusterID
}

// report writes the status of a NamespaceMap: the phase of each entry, and of each remaining remote
// namespace that it no longer requests, with the volumes because of which it is kept.
func (r *Reconciler) report(ctx context.Context, namespaceMap *v1alpha1.NamespaceMap, requested entries,
	existing []corev1.Namespace, kept map[string][]string,
) error {
	status := v1alpha1.NamespaceMapStatus{ObservedGeneration: namespaceMap.Generation}
	reported := map[string]bool{}
	for _, e := range requested {
		if e.namespaceMap != namespaceMap {
			continue
		}
		reported[e.Name] = true
		if e.status.Phase != "" {
			status.Namespaces = append(status.Namespaces, e.status)
		}
	}
	before := map[string]v1alpha1.NamespaceMappingStatus{}
	for _, entry := range namespaceMap.Status.Namespaces {
		before[entry.Name] = entry
	}
	for i := range existing {
		name, origin := existing[i].Name, existing[i].Annotations[v1alpha1.AnnotationOriginNamespace]
		if old, ok := before[origin]; ok && old.RemoteName == name && !reported[origin] &&
			len(status.Namespaces) < maxEntries {
			status.Namespaces = append(status.Namespaces, v1alpha1.NamespaceMappingStatus{
				Name: origin, RemoteName: name, Phase: v1alpha1.NamespaceMappingTerminating, Message: volumesMessage(kept[name]),
			})
			reported[origin] = true
		}
	}
	slices.SortFunc(status.Namespaces, func(a, b v1alpha1.NamespaceMappingStatus) int {
		return strings.Compare(a.Name, b.Name)
	})

	changed := namespaceMap.DeepCopy()
	changed.Status = status
	if _, err := kit.Commit(ctx, r.Client, namespaceMap, changed); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	for _, e := range requested {
		old := before[e.Name]
		if e.namespaceMap == namespaceMap && e.refused != "" &&
			(old.Phase != e.status.Phase || old.RemoteName != e.RemoteName) {
			trust.CountRefusal(naming.ForeignClusterOf(namespaceMap.Namespace), "namespaces", e.refused)
		}
	}
	for _, entry := range status.Namespaces {
		if entry.Phase == v1alpha1.NamespaceMappingConflict && before[entry.Name].Phase != entry.Phase {
			r.Events.Eventf(namespaceMap, corev1.EventTypeWarning, reasonNamespaceConflict,
				"Namespace %s is not offloaded: %s", entry.Name, entry.Message)
		}
	}
	return nil
}
