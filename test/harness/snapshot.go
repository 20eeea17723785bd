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

// Snapshot has all objects in a cluster at one moment.
type Snapshot map[Key]metav1.ObjectMeta

// Key names an object of any kind.
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

// passing are the kinds whose objects Kubernetes creates and deletes by itself: reports, heartbeats
// and caches of other objects.
var passing = sets.New(
	schema.GroupResource{Resource: "events"},
	schema.GroupResource{Group: "events.k8s.io", Resource: "events"},
	schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"},
	schema.GroupResource{Resource: "componentstatuses"},
)

// Listable returns every resource of the cluster that can be listed, in its preferred version. If
// discovery fails for a part of the API, it returns the rest and an error.
func (c *Cluster) Listable() ([]schema.GroupVersionResource, error) {
	lists, failed := c.Kube.Discovery().ServerPreferredResources()
	if failed != nil {
		failed = fmt.Errorf("discovering the API of cluster %s: %w", c.Name, failed)
	}
	resources, err := discovery.GroupVersionResources(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists))
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Keys(resources), func(a, b schema.GroupVersionResource) int {
		return slices.Compare([]string{a.Group, a.Resource}, []string{b.Group, b.Resource})
	}), failed
}

// Snapshot lists all objects in the cluster except those of passing kinds.
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

// Added returns the objects that are in after and not in before, sorted. Objects with an owner in
// before are excluded, such as the ReplicaSets of a Deployment and their pods.
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
