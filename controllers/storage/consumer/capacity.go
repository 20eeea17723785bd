// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
)

// refusedFor is the time for which the refusal of a claim lowers the published capacity of the provider that refused
// it. Without this limit, the capacity would remain low if the provider counts volumes that this cluster does not have,
// for example retained ones.
const refusedFor = 5 * time.Minute

// Capacity publishes CSIStorageCapacity objects that state how much storage claims of virtual StorageClasses may
// request on local nodes and on each provider, and the CSIDriver that makes the scheduler read them.
type Capacity struct {
	*Config
	// Published is the cache from NewPublished: the CSIStorageCapacity objects with the label LabelManagedBy, and the
	// CSIDriver, which Capacity publishes.
	Published cache.Cache
	Clock     clock.PassiveClock

	mu      sync.Mutex
	refused map[string]refusedRequest
}

// refusedRequest is a claim that a provider refused for lack of quota, with the provider's quota and this cluster's
// usage at that time.
type refusedRequest struct {
	bytes, used int64
	quota       string
	until       time.Time
}

// Lower lowers the published capacity of a provider below refused, the size in bytes of a claim that the
// provider refused. It fails if an API server fails.
func (c *Capacity) Lower(ctx context.Context, cluster string, refused int64) error {
	nodes, used, err := c.inputs(ctx)
	if err != nil {
		return err
	}
	for _, grant := range grants(nodes, used, nil) {
		if !slices.ContainsFunc(nodes, func(node v1alpha1.VirtualNode) bool {
			return node.Spec.ClusterID == grant.clusterID && naming.ForeignClusterOf(node.Namespace) == cluster
		}) {
			continue
		}
		c.mu.Lock()
		if c.refused == nil {
			c.refused = map[string]refusedRequest{}
		}
		c.refused[grant.clusterID] = refusedRequest{
			bytes: refused, used: grant.used.storage, quota: quotaText(grant.quota), until: c.Clock.Now().Add(refusedFor),
		}
		c.mu.Unlock()
	}
	_, err = c.Reconcile(ctx, ctrl.Request{})
	return err
}

// Reconcile publishes the capacities of all classes and providers for every request. It creates the CSIDriver after the
// CSIStorageCapacity objects and deletes it before them, because with a CSIDriver alone the scheduler would consider
// every node full.
func (c *Capacity) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	nodes, used, err := c.inputs(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	var classes storagev1.StorageClassList
	if err := c.Client.List(ctx, &classes); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing storage classes: %w", err)
	}
	refused, again := c.refusals(grants(nodes, used, nil))
	wanted := capacities(classes.Items, grants(nodes, used, refused), c.Namespace)
	if len(wanted) == 0 {
		if err := c.deleteDriver(ctx); err != nil {
			return ctrl.Result{}, err
		}
		return unlessTerminating(ctrl.Result{}, c.publish(ctx, nil))
	}
	if err := c.publish(ctx, wanted); err != nil {
		return unlessTerminating(ctrl.Result{}, err)
	}
	return ctrl.Result{RequeueAfter: again}, c.createDriver(ctx)
}

// inputs returns the virtual nodes of all providers, and the storage that this cluster's volumes use, by cluster id.
func (c *Capacity) inputs(ctx context.Context) ([]v1alpha1.VirtualNode, map[string]usage, error) {
	var nodes v1alpha1.VirtualNodeList
	if err := c.Client.List(ctx, &nodes); err != nil {
		return nil, nil, fmt.Errorf("listing virtual nodes: %w", err)
	}
	nodes.Items = slices.DeleteFunc(nodes.Items, func(node v1alpha1.VirtualNode) bool {
		return !naming.IsPeerNamespace(node.Namespace)
	})
	var volumes corev1.PersistentVolumeList
	if err := c.Client.List(ctx, &volumes); err != nil {
		return nil, nil, fmt.Errorf("listing volumes: %w", err)
	}
	return nodes.Items, usageOf(volumes.Items), nil
}

// refusals returns the size in bytes of the last claim that each provider refused, by the cluster id of the provider,
// and the time until the next refusal expires, or zero if there is none. A refusal expires after refusedFor, or as soon
// as the provider's quota changes or this cluster uses less storage of the provider.
func (c *Capacity) refusals(all []grant) (refused map[string]int64, again time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	refused = map[string]int64{}
	for _, grant := range all {
		last, ok := c.refused[grant.clusterID]
		left := last.until.Sub(c.Clock.Now())
		if !ok || left <= 0 || grant.used.storage < last.used || quotaText(grant.quota) != last.quota {
			delete(c.refused, grant.clusterID)
			continue
		}
		refused[grant.clusterID] = last.bytes
		if again == 0 || left < again {
			again = left
		}
	}
	return refused, again
}

// quotaText returns a text that is the same for equal quotas.
func quotaText(quota corev1.ResourceList) string {
	amounts := map[corev1.ResourceName]int64{}
	for name, quantity := range quota {
		amounts[name] = quantity.Value()
	}
	return fmt.Sprint(amounts)
}

// publish creates, updates and deletes CSIStorageCapacity objects, so that they equal the desired ones.
func (c *Capacity) publish(ctx context.Context, wanted []*storagev1.CSIStorageCapacity) error {
	var published storagev1.CSIStorageCapacityList
	err := c.Published.List(ctx, &published, client.InNamespace(c.Namespace),
		client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
	if err != nil {
		return fmt.Errorf("listing storage capacities: %w", err)
	}
	current := map[string]*storagev1.CSIStorageCapacity{}
	for i := range published.Items {
		current[published.Items[i].Name] = &published.Items[i]
	}
	for _, object := range wanted {
		old := current[object.Name]
		delete(current, object.Name)
		if old == nil {
			if err := c.Client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("publishing the storage capacity of StorageClass %s: %w", object.StorageClassName, err)
			}
			continue
		}
		changed := old.DeepCopy()
		if changed.Capacity == nil || changed.Capacity.Cmp(*object.Capacity) != 0 {
			changed.Capacity = object.Capacity
		}
		if _, err := kit.Commit(ctx, c.Client, old, changed); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("publishing the storage capacity of StorageClass %s: %w", object.StorageClassName, err)
		}
	}
	for _, object := range current {
		if err := kit.Delete(ctx, c.Client, object); err != nil {
			return err
		}
	}
	return nil
}

// driver returns the CSIDriver of volumes whose data a provider stores. No node runs such a driver.
func driver() *storagev1.CSIDriver {
	return &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{
			Name: v1alpha1.StorageProvisioner, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		},
		Spec: storagev1.CSIDriverSpec{AttachRequired: ptr.To(false), StorageCapacity: ptr.To(true)},
	}
}

func (c *Capacity) createDriver(ctx context.Context) error {
	var current storagev1.CSIDriver
	err := c.Published.Get(ctx, types.NamespacedName{Name: v1alpha1.StorageProvisioner}, &current)
	if !apierrors.IsNotFound(err) {
		return err
	}
	if err := c.Client.Create(ctx, driver()); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the CSIDriver: %w", err)
	}
	return nil
}

func (c *Capacity) deleteDriver(ctx context.Context) error {
	var current storagev1.CSIDriver
	err := c.Published.Get(ctx, types.NamespacedName{Name: v1alpha1.StorageProvisioner}, &current)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return kit.Delete(ctx, c.Client, &current)
}
