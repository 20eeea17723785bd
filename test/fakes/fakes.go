// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakes has the fake clients of client-go tell informers of everything,
// as an API server does, and stands in for what a test is not about.
package fakes

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/testing"
)

// Cluster is a fake client of some API.
type Cluster interface {
	PrependReactor(verb, resource string, reaction testing.ReactionFunc)
	PrependWatchReactor(resource string, reaction testing.WatchReactionFunc)
	Tracker() testing.ObjectTracker
}

// place is where informers list and watch.
type place struct {
	schema.GroupVersionResource
	namespace string
}

// Followed has a watch go on where the first list of an informer ended. By
// itself a fake tells nothing of what is deleted in between, and of what changes
// it hands out its own objects, which the informer trims while others read them.
func Followed[C Cluster](cluster C) C {
	// The lock of the fake is held by whoever reacts.
	begun := map[place][]watch.Interface{}
	at := func(action testing.Action) place { return place{action.GetResource(), action.GetNamespace()} }
	cluster.PrependReactor("list", "*", func(action testing.Action) (bool, runtime.Object, error) {
		list, ok := action.(testing.ListActionImpl)
		if !ok || list.ListOptions.ResourceVersion != "0" {
			return false, nil, nil
		}
		// Without options it begins with nothing.
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
		watching, err := cluster.Tracker().Watch(action.GetResource(), action.GetNamespace(), action.(testing.WatchActionImpl).ListOptions)
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
