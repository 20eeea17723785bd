// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/kit/watches"
	"liqo.io/federation/controllers/remote"
)

const (
	// nameRetry is how often a name is tried again that is taken: that it is free
	// again is no event here.
	nameRetry = 30 * time.Second
	// reasonTaken is the reason of events on copies of Services whose ServiceImport
	// has the name of somebody else's.
	reasonTaken = "ServiceImportConflict"
)

// errTaken says that the name is somebody else's.
var errTaken = errors.New("there is a ServiceImport of that name that was not made here")

// reconcile brings an exported Service and its import in line, whatever has
// happened to either of them.
func (c *Controller) reconcile(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	s := c.session.Load()
	if s == nil {
		return 0, nil
	}
	namespace, err := c.namespaces.Get(key.Namespace)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	existing, err := s.imports.ServiceImports(key.Namespace).Get(key.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	if namespace == nil || !namespace.DeletionTimestamp.IsZero() {
		// It goes with everything that is in it.
		s.forget(key.Namespace)
		return 0, nil
	}
	place, offloading := c.where(namespace)
	var again time.Duration
	switch place {
	case atHome:
		again, err = c.atHome(ctx, s, key, existing, offloading)
	case inTwin:
		again, err = c.inTwin(ctx, s, key, existing, namespace)
	default:
		err = c.leave(ctx, s, key, existing)
	}
	if err == nil && again == 0 {
		err = c.tidy(ctx, s, key.Namespace, place)
	}
	return again, err
}

// atHome exports a Service that has a ServiceExport beside it.
func (c *Controller) atHome(ctx context.Context, s *session, key cache.ObjectName, existing *mcsv1alpha1.ServiceImport, offloading *v1alpha1.NamespaceOffloading) (time.Duration, error) {
	export, err := s.exports.ServiceExports(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && !Wanted(export) {
		return 0, c.remove(ctx, key, existing)
	}
	if err != nil {
		return 0, err
	}
	watch, err := s.watch(s.during, key.Namespace)
	if watch == nil || err != nil {
		return 0, err
	}
	if wait, err := c.bind(ctx, key.Namespace); wait > 0 || err != nil {
		return wait, err
	}
	service, err := watch.Services.Get(key.Name)
	if apierrors.IsNotFound(err) {
		service, err = nil, nil
	}
	if err != nil {
		return 0, err
	}
	standing := exportable(service)
	if standing.valid != metav1.ConditionTrue {
		if err := c.remove(ctx, key, existing); err != nil {
			return 0, err
		}
		return 0, c.say(ctx, export, standing)
	}
	clusters, lives, err := c.reachOfHome(offloading)
	if err != nil {
		return 0, err
	}
	owner := metav1.OwnerReference{
		APIVersion: apiVersion, Kind: mcsv1alpha1.ServiceExportKindName, Name: export.Name, UID: export.UID,
	}
	err = c.bring(ctx, watch, existing, importFor(service, owner), clusters, lives)
	switch {
	case err == nil:
		return 0, c.say(ctx, export, standing)
	case errors.Is(err, errTaken):
		return nameRetry, c.say(ctx, export, nameTaken)
	case remote.Refused(err):
		return nameRetry, c.say(ctx, export, failed(remote.Describe(err)))
	}
	return 0, err
}

// inTwin imports the copy of a Service that is exported from its home.
func (c *Controller) inTwin(ctx context.Context, s *session, key cache.ObjectName, existing *mcsv1alpha1.ServiceImport, namespace *corev1.Namespace) (time.Duration, error) {
	marked, err := s.copies.Services(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && exportable(marked).valid != metav1.ConditionTrue {
		c.told.Delete(key)
		return 0, c.remove(ctx, key, existing)
	}
	if err != nil {
		return 0, err
	}
	watch, err := s.watch(s.during, key.Namespace)
	if watch == nil || err != nil {
		return 0, err
	}
	clusters, lives, err := c.reachOfTwin(namespace.Labels[v1alpha1.LabelForeignCluster])
	if err != nil {
		return 0, err
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: marked.Name, UID: marked.UID}
	err = c.bring(ctx, watch, existing, importFor(marked, owner), clusters, lives)
	switch {
	case err == nil:
		c.told.Delete(key)
	case errors.Is(err, errTaken):
		c.tell(key, marked, "the consumer exports it, but "+err.Error()+"; it is left alone: remove it, and within half a minute this is tried again")
		return nameRetry, nil
	}
	return 0, err
}

// leave takes back what was made in a namespace that extends nowhere any more.
// ServiceExports that never counted are somebody else's.
func (c *Controller) leave(ctx context.Context, s *session, key cache.ObjectName, existing *mcsv1alpha1.ServiceImport) error {
	if existing == nil {
		return nil
	}
	export, err := s.exports.ServiceExports(key.Namespace).Get(key.Name)
	if err == nil {
		err = c.say(ctx, export, gone)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return c.remove(ctx, key, existing)
}

// tidy ends what a namespace needs in which nothing is exported or imported any
// more.
func (c *Controller) tidy(ctx context.Context, s *session, namespace string, place place) error {
	for _, object := range s.in(namespace) {
		export, ok := object.(*mcsv1alpha1.ServiceExport)
		if !ok || place == atHome && Wanted(export) {
			return nil
		}
	}
	s.forget(namespace)
	return c.unbind(ctx, namespace)
}

// reachOfHome tells of an offloaded namespace which clusters are in reach of
// here, and where endpoints live: on a virtual node that is in the cluster
// behind it.
func (c *Controller) reachOfHome(offloading *v1alpha1.NamespaceOffloading) ([]string, source, error) {
	clusters, networked := []string{c.own.ClusterName}, map[string]bool{}
	for _, cluster := range offloading.Status.Clusters {
		is, err := c.networked(cluster.Name)
		if err != nil {
			return nil, nil, err
		}
		networked[cluster.Name] = is
		if is && meta.IsStatusConditionTrue(cluster.Conditions, v1alpha1.ConditionReady) {
			clusters = append(clusters, cluster.Name)
		}
	}
	virtualNodes, err := c.virtualNodes.List(labels.Everything())
	if err != nil {
		return nil, nil, err
	}
	behind := map[string]string{}
	for _, virtualNode := range virtualNodes {
		if naming.IsPeerNamespace(virtualNode.Namespace) {
			behind[virtualNode.Spec.NodeName] = naming.ForeignClusterOf(virtualNode.Namespace)
		}
	}
	return clusters, func(_ *discoveryv1.EndpointSlice, endpoint *discoveryv1.Endpoint) string {
		if endpoint.NodeName == nil || behind[*endpoint.NodeName] == "" {
			return c.own.ClusterName
		}
		if cluster := behind[*endpoint.NodeName]; networked[cluster] {
			return cluster
		}
		return ""
	}, nil
}

// reachOfTwin is the same for a twin of a consumer's namespace. What the
// consumer has sent is there only while it is in reach.
func (c *Controller) reachOfTwin(consumer string) ([]string, source, error) {
	clusters := []string{c.own.ClusterName}
	networked, err := c.networked(consumer)
	if err != nil {
		return nil, nil, err
	}
	if networked {
		clusters = append(clusters, consumer)
	}
	return clusters, func(slice *discoveryv1.EndpointSlice, _ *discoveryv1.Endpoint) string {
		switch {
		case slice.Labels[discoveryv1.LabelManagedBy] != v1alpha1.ManagedBy:
			return c.own.ClusterName
		case networked:
			return consumer
		}
		return ""
	}, nil
}

// networked tells whether the pods of another cluster are reached.
func (c *Controller) networked(cluster string) (bool, error) {
	found, err := c.clusters.Get(cluster)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && found.Status.Networking == v1alpha1.PeeringEstablished, err
}

// tell says once that an import is in the way.
func (c *Controller) tell(key cache.ObjectName, service *corev1.Service, message string) {
	if last, ok := c.told.Swap(key, message); !ok || last != message {
		c.events.Event(service, corev1.EventTypeWarning, reasonTaken, message)
	}
}

// say tells the owner of an export how it stands.
func (c *Controller) say(ctx context.Context, export *mcsv1alpha1.ServiceExport, standing standing) error {
	changed := export.DeepCopy()
	standing.tell(&changed.Status, export.Generation)
	_, err := commit.Commit(ctx, c.mcs.MulticlusterV1alpha1().ServiceExports(export.Namespace), export, changed)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// bring makes an import, its EndpointSlices and its status the wanted ones.
func (c *Controller) bring(ctx context.Context, watch *watches.NamespaceServices, existing, wanted *mcsv1alpha1.ServiceImport, clusters []string, lives source) error {
	current, err := c.bringImport(ctx, existing, wanted)
	if err != nil {
		return err
	}
	present, err := c.bringSlices(ctx, watch, current, lives)
	if err != nil {
		return err
	}
	changed := current.DeepCopy()
	bringStatus(changed, clusters, present)
	_, err = commit.Commit(ctx, c.mcs.MulticlusterV1alpha1().ServiceImports(current.Namespace), current, changed)
	return err
}

func (c *Controller) bringImport(ctx context.Context, existing, wanted *mcsv1alpha1.ServiceImport) (*mcsv1alpha1.ServiceImport, error) {
	client := c.mcs.MulticlusterV1alpha1().ServiceImports(wanted.Namespace)
	if existing == nil {
		made, err := client.Create(ctx, wanted, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return made, wrap(err, "create", wanted)
		}
		// It was not seen yet, or is somebody else's.
		if existing, err = client.Get(ctx, wanted.Name, metav1.GetOptions{}); err != nil {
			return nil, wrap(err, "get", wanted)
		}
		if !isOurs(existing) {
			return nil, errTaken
		}
	}
	changed := existing.DeepCopy()
	if !bringImport(changed, wanted) {
		return existing, nil
	}
	updated, err := client.Update(ctx, changed, metav1.UpdateOptions{})
	return updated, wrap(err, "update", wanted)
}

// bringSlices makes the EndpointSlices of an import the wanted ones, and tells
// whether there are any.
func (c *Controller) bringSlices(ctx context.Context, watch *watches.NamespaceServices, imported *mcsv1alpha1.ServiceImport, lives source) (bool, error) {
	of, err := watch.Slices.List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: imported.Name}))
	if err != nil {
		return false, err
	}
	found, err := watch.Slices.List(labels.SelectorFromSet(labels.Set{mcsv1alpha1.LabelServiceName: imported.Name}))
	if err != nil {
		return false, err
	}
	existing := map[string]*discoveryv1.EndpointSlice{}
	for _, slice := range found {
		if isImported(slice, imported.Name) {
			existing[slice.Name] = slice
		}
	}
	client := c.kube.DiscoveryV1().EndpointSlices(imported.Namespace)
	wanted := slicesFor(imported, of, lives)
	for _, slice := range wanted {
		current := existing[slice.Name]
		delete(existing, slice.Name)
		switch {
		case current == nil:
			_, err := client.Create(ctx, slice, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return false, wrap(err, "create", slice)
			}
			// If it was there already, the cache will have it in a moment.
		case current.AddressType != slice.AddressType:
			// It is made anew when it is gone.
			if err := c.removeSlice(ctx, current); err != nil {
				return false, err
			}
		default:
			changed := current.DeepCopy()
			if bringSlice(changed, slice) {
				if _, err := client.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
					return false, wrap(err, "update", slice)
				}
			}
		}
	}
	for _, slice := range existing {
		if err := c.removeSlice(ctx, slice); err != nil {
			return false, err
		}
	}
	return len(wanted) > 0, nil
}

// remove takes an import back: first its EndpointSlices, so that none is left
// of which nobody knows.
func (c *Controller) remove(ctx context.Context, key cache.ObjectName, imported *mcsv1alpha1.ServiceImport) error {
	if imported == nil {
		return nil
	}
	list, err := c.kube.DiscoveryV1().EndpointSlices(key.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{mcsv1alpha1.LabelServiceName: key.Name, discoveryv1.LabelManagedBy: v1alpha1.ManagedBy}.String(),
	})
	if err != nil {
		return fmt.Errorf("list the EndpointSlices of the ServiceImport %s: %w", key, err)
	}
	for i := range list.Items {
		if isImported(&list.Items[i], key.Name) {
			if err := c.removeSlice(ctx, &list.Items[i]); err != nil {
				return err
			}
		}
	}
	client := c.mcs.MulticlusterV1alpha1().ServiceImports(key.Namespace)
	err = client.Delete(ctx, key.Name, *metav1.NewPreconditionDeleteOptions(string(imported.UID)))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return wrap(err, "delete", imported)
}

func (c *Controller) removeSlice(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	if !slice.DeletionTimestamp.IsZero() {
		return nil
	}
	err := c.kube.DiscoveryV1().EndpointSlices(slice.Namespace).Delete(ctx, slice.Name, *metav1.NewPreconditionDeleteOptions(string(slice.UID)))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return wrap(err, "delete", slice)
}

func wrap(err error, doing string, of metav1.Object) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %T %s/%s: %w", doing, of, of.GetNamespace(), of.GetName(), err)
}
