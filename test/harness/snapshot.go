// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
)

// Snapshot has the metadata of all objects in a cluster at one moment.
type Snapshot map[Key]metav1.ObjectMeta

// Key identifies an object.
type Key struct {
	schema.GroupResource
	Namespace, Name string
}

func (k Key) String() string {
	if k.Namespace == "" {
		return k.GroupResource.String() + " " + k.Name
	}
	return k.GroupResource.String() + " " + k.Namespace + "/" + k.Name
}

// passing has the resources whose objects Kubernetes creates and deletes continuously, such as
// events and Leases. Snapshots omit them.
var passing = sets.New(
	schema.GroupResource{Resource: "events"},
	schema.GroupResource{Group: "events.k8s.io", Resource: "events"},
	schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"},
	schema.GroupResource{Resource: "componentstatuses"},
)

// Listable returns all resources that support list, each in its preferred version. If discovery
// fails for some API groups, it returns the resources of the other groups and an error.
func (c *Cluster) Listable() ([]schema.GroupVersionResource, error) {
	lists, failed := c.Kube.Discovery().ServerPreferredResources()
	if failed != nil {
		failed = fmt.Errorf("discovering the API of cluster %s: %w", c.Name, failed)
	}
	resources, err := discovery.GroupVersionResources(
		discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists))
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Keys(resources), func(a, b schema.GroupVersionResource) int {
		return slices.Compare([]string{a.Group, a.Resource}, []string{b.Group, b.Resource})
	}), failed
}

// Snapshot lists all objects in the cluster, except those of passing resources.
func (c *Cluster) Snapshot(ctx context.Context) (Snapshot, error) {
	resources, err := c.Listable()
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	snapshot := Snapshot{}
	for _, resource := range resources {
		if passing.Has(resource.GroupResource()) {
			continue
		}
		list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing %s in cluster %s: %w", resource.GroupResource(), c.Name, err)
		}
		for _, item := range list.Items {
			snapshot[Key{resource.GroupResource(), item.Namespace, item.Name}] = item.ObjectMeta
		}
	}
	return snapshot, nil
}

// Added returns the objects of after that before does not have, sorted. It omits objects whose
// owner is in before, such as the pods of an existing Deployment.
func Added(before, after Snapshot) []string {
	owners := sets.New[types.UID]()
	for _, object := range before {
		owners.Insert(object.UID)
	}
	left := maps.Clone(after)
	maps.DeleteFunc(left, func(key Key, _ metav1.ObjectMeta) bool {
		_, known := before[key]
		return known
	})
	for found := true; found; {
		found = false
		for key, object := range left {
			if slices.ContainsFunc(object.OwnerReferences, func(o metav1.OwnerReference) bool { return owners.Has(o.UID) }) {
				owners.Insert(object.UID)
				delete(left, key)
				found = true
			}
		}
	}
	var added []string
	for key := range left {
		added = append(added, key.String())
	}
	slices.Sort(added)
	return added
}
