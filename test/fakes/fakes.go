// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakes corrects the watches and the locking of client-go's fake clients, and has implementations of
// interfaces that do nothing.
package fakes

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/testing"
)

// Client is a fake client that calls its reactors while it is locked.
type Client interface {
	sync.Locker
	PrependReactor(verb, resource string, reaction testing.ReactionFunc)
}

// React makes client call reaction first for requests with the verb and resource; "*" stands for any. React locks
// client, because the method PrependReactor does not, and informers may be using client.
func React(client Client, verb, resource string, reaction testing.ReactionFunc) {
	client.Lock()
	defer client.Unlock()
	client.PrependReactor(verb, resource, reaction)
}

// Cluster is a fake client of client-go or of the generated clientset.
type Cluster interface {
	Client
	PrependWatchReactor(resource string, reaction testing.WatchReactionFunc)
	Tracker() testing.ObjectTracker
}

// Watched returns the resources that the actions of a fake client watch, as namespace/resource, sorted and each once.
func Watched(actions []testing.Action) []string {
	var watched []string
	for _, action := range actions {
		if action.GetVerb() == "watch" {
			watched = append(watched, action.GetNamespace()+"/"+action.GetResource().Resource)
		}
	}
	slices.Sort(watched)
	return slices.Compact(watched)
}

// place is a resource in a namespace, which an informer lists and then watches.
type place struct {
	schema.GroupVersionResource
	namespace string
}

// Followed makes a watch of an informer start at the informer's list, because the fake client would omit deletions
// between the list and the watch. For other watches, Followed copies the objects of events, because the fake client
// shares them among its watches, and informers modify them.
func Followed[C Cluster](cluster C) C {
	// begun needs no lock, because the fake client calls reactors while it holds its own.
	begun := map[place][]watch.Interface{}
	at := func(action testing.Action) place { return place{action.GetResource(), action.GetNamespace()} }
	React(cluster, "list", "*", func(action testing.Action) (bool, runtime.Object, error) {
		list, ok := action.(testing.ListActionImpl)
		if !ok || list.ListOptions.ResourceVersion != "0" {
			return false, nil, nil
		}
		// A watch without list options sends no initial events.
		watching, err := cluster.Tracker().Watch(action.GetResource(), action.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		begun[at(action)] = append(begun[at(action)], watching)
		return false, nil, nil
	})
	cluster.PrependWatchReactor("*", func(action testing.Action) (bool, watch.Interface, error) {
		if waiting := begun[at(action)]; len(waiting) > 0 {
			begun[at(action)] = waiting[1:]
			return true, waiting[0], nil
		}
		watching, err := cluster.Tracker().Watch(action.GetResource(), action.GetNamespace(),
			action.(testing.WatchActionImpl).ListOptions)
		if err != nil {
			return true, nil, err
		}
		return true, watch.Filter(watching, func(event watch.Event) (watch.Event, bool) {
			event.Object = event.Object.DeepCopyObject()
			return event, true
		}), nil
	})
	return cluster
}
