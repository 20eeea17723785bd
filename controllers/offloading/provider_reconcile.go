// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/commit"
)

// recount is how often it is looked whether a consumer that runs more than it is
// offered still does.
const recount = 30 * time.Second

// reconcile makes the twins of one consumer what its NamespaceMaps want.
func (p *Provider) reconcile(ctx context.Context, foreignCluster string) (time.Duration, error) {
	t, err := p.tenant(foreignCluster)
	if err != nil {
		return 0, err
	}
	twins, err := p.namespaces.List(labels.SelectorFromSet(labels.Set{
		v1alpha1.LabelRole: v1alpha1.RoleTwin, v1alpha1.LabelForeignCluster: foreignCluster,
	}))
	if err != nil {
		return 0, err
	}
	wishes := p.wishes(t, twins)
	// kept are the volumes of remote namespaces that are no longer wanted.
	kept := map[string][]string{}

	var again time.Duration
	var firstErr error
	for _, twin := range twins {
		if wishes.wants(twin) {
			continue
		}
		after, volumes, err := p.tearDown(ctx, foreignCluster, twin)
		kept[twin.Name] = volumes
		if err != nil && firstErr == nil {
			firstErr = err
		}
		if after > 0 && (again == 0 || after < again) {
			again = after
		}
	}
	for _, wish := range wishes {
		if wish.answer.Phase != "" {
			continue
		}
		if err := p.ensureTwin(ctx, t, wish); err != nil && firstErr == nil {
			firstErr = err
		}
	}
	for _, namespaceMap := range t.maps {
		if err := p.answer(ctx, namespaceMap, wishes, twins, kept); err != nil && firstErr == nil {
			firstErr = err
		}
	}
	if overdrawn(t.offered, t.runs) && (again == 0 || recount < again) {
		again = recount
	}
	return again, firstErr
}

// tenant is a consumer as this cluster knows it.
type tenant struct {
	// foreignCluster is its name, namespace its tenant namespace, clusterID
	// its id.
	foreignCluster, namespace, clusterID string
	// maps are its NamespaceMaps while this cluster lends to it, oldest first.
	maps []*v1alpha1.NamespaceMap
	// offered bounds each of its twins, and runs is what it runs there in all; nil
	// where it is offered nothing any more.
	offered, runs corev1.ResourceList
	// classes are the annotations of each of its twins that say which classes its
	// objects may name, nil for those that are not its own.
	classes map[string]*string
}

func (p *Provider) tenant(foreignCluster string) (tenant, error) {
	t := tenant{foreignCluster: foreignCluster, namespace: naming.TenantNamespace(foreignCluster)}
	cluster, err := p.clusters.Get(foreignCluster)
	if apierrors.IsNotFound(err) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	namespace, err := p.namespaces.Get(t.namespace)
	if apierrors.IsNotFound(err) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	lent := cluster.DeletionTimestamp.IsZero() && cluster.Spec.Incoming == v1alpha1.PeeringEnabled && cluster.Spec.ClusterID != "" &&
		namespace.DeletionTimestamp.IsZero() &&
		namespace.Labels[v1alpha1.LabelRole] == v1alpha1.RoleTenant && namespace.Labels[v1alpha1.LabelForeignCluster] == foreignCluster
	if !lent {
		return t, nil
	}
	t.clusterID = cluster.Spec.ClusterID
	offers, err := p.offers.ResourceOffers(t.namespace).List(everything)
	if err != nil {
		return t, err
	}
	t.offered, t.classes = quotaOf(offers), classesOf(&cluster.Spec.Lending)
	if slices.ContainsFunc(offers, stands) {
		if t.runs, err = p.runsOf(foreignCluster); err != nil {
			return t, err
		}
	}
	t.maps, err = p.maps.NamespaceMaps(t.namespace).List(everything)
	slices.SortFunc(t.maps, func(a, b *v1alpha1.NamespaceMap) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), compare(a.Name, b.Name))
	})
	return t, err
}

// wish is one entry of a NamespaceMap, with the answer to it.
type wish struct {
	namespaceMap *v1alpha1.NamespaceMap
	v1alpha1.NamespaceMapping
	answer v1alpha1.NamespaceMappingStatus
}

type wishes []*wish

// wishes are the entries of all maps of a consumer. Those that cannot come
// true have an answer already.
func (p *Provider) wishes(t tenant, twins []*corev1.Namespace) wishes {
	var all wishes
	taken := map[string]bool{}
	count := 0
	for _, namespaceMap := range t.maps {
		if !namespaceMap.DeletionTimestamp.IsZero() {
			continue
		}
		for _, entry := range namespaceMap.Spec.Namespaces {
			w := &wish{namespaceMap: namespaceMap, NamespaceMapping: entry}
			w.answer = v1alpha1.NamespaceMappingStatus{Name: entry.Name, RemoteName: entry.RemoteName}
			if count++; count > maxMappings {
				w.refuse(v1alpha1.NamespaceMappingRefused, "the provider lends no more than %d namespaces to one cluster", maxMappings)
			} else if err := naming.RefuseTwinNamespace(entry.RemoteName, p.own.Namespaces...); err != nil && !p.lent(t, entry.RemoteName) {
				w.refuse(v1alpha1.NamespaceMappingRefused, "%v", err)
			} else if taken[entry.RemoteName] {
				w.refuse(v1alpha1.NamespaceMappingConflict, "the name %s is asked for twice", entry.RemoteName)
			}
			taken[entry.RemoteName] = true
			p.answerFromCache(t, w, twins)
			all = append(all, w)
		}
	}
	return all
}

func (w *wish) refuse(phase v1alpha1.NamespaceMappingPhase, format string, args ...any) {
	w.answer.Phase, w.answer.Message = phase, fmt.Sprintf(format, args...)
}

// lent tells whether a namespace is a twin already. A name that is refused since
// then is no reason to take it away.
func (p *Provider) lent(t tenant, name string) bool {
	namespace, err := p.namespaces.Get(name)
	return err == nil && twinOf(t, namespace)
}

// answerFromCache settles a wish whose name is taken, by something else or by
// a twin on its way out.
func (p *Provider) answerFromCache(t tenant, w *wish, twins []*corev1.Namespace) {
	if w.answer.Phase != "" {
		return
	}
	namespace, err := p.namespaces.Get(w.RemoteName)
	if err != nil {
		return
	}
	p.judge(t, w, namespace)
}

// judge tells a wish what the namespace of its name means for it.
func (p *Provider) judge(t tenant, w *wish, namespace *corev1.Namespace) {
	switch {
	case !twinOf(t, namespace):
		w.refuse(v1alpha1.NamespaceMappingConflict,
			"the provider has a namespace %s that is not a twin of yours: offload with another name, or ask the provider to remove it", w.RemoteName)
	case !namespace.DeletionTimestamp.IsZero(), namespace.Annotations[v1alpha1.AnnotationOriginNamespace] != w.Name:
		w.refuse(v1alpha1.NamespaceMappingTerminating, "the last namespace of this name is being removed")
	}
}

// twinOf tells whether a namespace is a twin of this consumer's.
func twinOf(t tenant, namespace *corev1.Namespace) bool {
	return namespace.Labels[v1alpha1.LabelRole] == v1alpha1.RoleTwin &&
		namespace.Labels[v1alpha1.LabelForeignCluster] == t.foreignCluster &&
		namespace.Labels[v1alpha1.LabelOrigin] == t.clusterID
}

// wants tells whether a twin is there for one of the wishes.
func (all wishes) wants(twin *corev1.Namespace) bool {
	return slices.ContainsFunc(all, func(w *wish) bool {
		return w.RemoteName == twin.Name && w.Name == twin.Annotations[v1alpha1.AnnotationOriginNamespace] &&
			w.answer.Phase != v1alpha1.NamespaceMappingRefused && w.answer.Phase != v1alpha1.NamespaceMappingConflict
	})
}

// answer writes the status of a map: how each entry stands, and what is left
// of entries that are gone, with the volumes that keep it.
func (p *Provider) answer(ctx context.Context, namespaceMap *v1alpha1.NamespaceMap, all wishes, twins []*corev1.Namespace,
	kept map[string][]string,
) error {
	status := v1alpha1.NamespaceMapStatus{ObservedGeneration: namespaceMap.Generation}
	answered := map[string]bool{}
	for _, w := range all {
		if w.namespaceMap != namespaceMap {
			continue
		}
		answered[w.Name] = true
		if w.answer.Phase != "" {
			status.Namespaces = append(status.Namespaces, w.answer)
		}
	}
	before := map[string]v1alpha1.NamespaceMappingStatus{}
	for _, answer := range namespaceMap.Status.Namespaces {
		before[answer.Name] = answer
	}
	for _, twin := range twins {
		origin := twin.Annotations[v1alpha1.AnnotationOriginNamespace]
		if old, ok := before[origin]; ok && old.RemoteName == twin.Name && !answered[origin] && len(status.Namespaces) < maxMappings {
			status.Namespaces = append(status.Namespaces, v1alpha1.NamespaceMappingStatus{
				Name: origin, RemoteName: twin.Name, Phase: v1alpha1.NamespaceMappingTerminating, Message: volumesMessage(kept[twin.Name]),
			})
			answered[origin] = true
		}
	}
	slices.SortFunc(status.Namespaces, func(a, b v1alpha1.NamespaceMappingStatus) int { return compare(a.Name, b.Name) })

	changed := namespaceMap.DeepCopy()
	changed.Status = status
	if _, err := commit.Commit(ctx, p.federation.FederationV1alpha1().NamespaceMaps(namespaceMap.Namespace), namespaceMap, changed); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	for _, answer := range status.Namespaces {
		if answer.Phase == v1alpha1.NamespaceMappingConflict && before[answer.Name].Phase != answer.Phase {
			p.events.Eventf(namespaceMap, corev1.EventTypeWarning, "NamespaceConflict", "Namespace %s is not offloaded: %s", answer.Name, answer.Message)
		}
	}
	return nil
}
