// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakes corrects the watches of the fake clients of client-go, and replaces what a test is not
// about.
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

// Followed makes watches continue from the first list of an informer. Otherwise fakes omit deletions
// in between, and send their own objects, which informers modify while others read them.
func Followed[C Cluster](cluster C) C {
	// The fake holds its lock while it calls reactors.
	begun := map[place][]watch.Interface{}
	at := func(action testing.Action) place { return place{action.GetResource(), action.GetNamespace()} }
	cluster.PrependReactor("list", "*", func(action testing.Action) (bool, runtime.Object, error) {
		list, ok := action.(testing.ListActionImpl)
		if !ok || list.ListOptions.ResourceVersion != "0" {
			return false, nil, nil
		}
		// Without options it sends no initial events.
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
