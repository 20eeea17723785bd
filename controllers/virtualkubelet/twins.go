// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	federationlisters "liqo.io/federation/generated/listers/federation/v1alpha1"
)

// extent is how far a namespace extends to the provider.
type extent struct {
	// wanted tells whether the consumer wants the namespace there.
	wanted bool
	// ready tells whether pods may be sent there.
	ready bool
	// message says what is missing when it is not ready.
	message string
	// twin is the namespace there; nil if there is none.
	twin *twin
	// former tells whether that is one from before, beside the wanted one, which
	// is not there yet.
	former bool
}

// goes tells whether the twin is not wanted any more.
func (e extent) goes() bool { return !e.wanted || e.former }

// twins follows the NamespaceMap: it watches exactly those twin namespaces
// that the provider says are there.
type twins struct {
	provider string
	maps     federationlisters.NamespaceMapNamespaceLister
	start    func(v1alpha1.NamespaceMapping) (*twin, error)
	// changed is told of each local namespace whose extent has changed.
	changed func(namespace string)

	mu      sync.RWMutex
	extents map[string]extent
}

// extent of a local namespace.
func (t *twins) extent(namespace string) extent {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e, ok := t.extents[namespace]
	if !ok {
		e.message = fmt.Sprintf("the namespace is not offloaded to %s", t.provider)
	}
	return e
}

// all are the extents of all local namespaces that have one.
func (t *twins) all() map[string]extent {
	t.mu.RLock()
	defer t.mu.RUnlock()
	result := make(map[string]extent, len(t.extents))
	for namespace, e := range t.extents {
		result[namespace] = e
	}
	return result
}

// sync brings the watched twins in line with the NamespaceMap. It is called by
// one goroutine at a time.
func (t *twins) sync(ctx context.Context) error {
	maps, err := t.maps.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing NamespaceMaps: %w", err)
	}
	wanted, err := t.wanted(ctx, maps)
	if err != nil {
		return err
	}

	t.mu.Lock()
	before := t.extents
	t.extents = wanted
	t.mu.Unlock()

	for namespace, old := range before {
		now := wanted[namespace]
		if old.twin != nil && old.twin != now.twin {
			old.twin.stop()
		}
		if _, ok := wanted[namespace]; !ok {
			t.changed(namespace)
		}
	}
	for namespace, now := range wanted {
		if old, ok := before[namespace]; !ok || old != now {
			t.changed(namespace)
		}
	}
	return nil
}

// wanted are the extents that the maps ask for. Twins that are watched
// already are kept, new ones are started.
func (t *twins) wanted(ctx context.Context, maps []*v1alpha1.NamespaceMap) (map[string]extent, error) {
	result := map[string]extent{}
	for _, m := range maps {
		asked := map[string]string{}
		for _, mapping := range m.Spec.Namespaces {
			asked[mapping.Name] = mapping.RemoteName
			result[mapping.Name] = extent{wanted: true, message: fmt.Sprintf("%s has not made the namespace %s yet", t.provider, mapping.RemoteName)}
		}
		for _, status := range m.Status.Namespaces {
			e := result[status.Name]
			// An answer about another twin is older than the question.
			e.former = e.wanted && status.RemoteName != asked[status.Name]
			if !e.former {
				e.ready = e.wanted && status.Phase == v1alpha1.NamespaceMappingReady
				e.message = describe(t.provider, e.wanted, status)
			}
			if status.Phase == v1alpha1.NamespaceMappingReady || status.Phase == v1alpha1.NamespaceMappingTerminating {
				watched, err := t.watched(v1alpha1.NamespaceMapping{Name: status.Name, RemoteName: status.RemoteName})
				if err != nil {
					return nil, err
				}
				e.twin = watched
				klog.FromContext(ctx).V(4).Info("Namespace is watched", "namespace", status.Name, "remoteNamespace", status.RemoteName)
			}
			result[status.Name] = e
		}
	}
	return result, nil
}

func (t *twins) watched(mapping v1alpha1.NamespaceMapping) (*twin, error) {
	if now := t.extent(mapping.Name).twin; now != nil && now.remote == mapping.RemoteName {
		return now, nil
	}
	started, err := t.start(mapping)
	if err != nil {
		return nil, fmt.Errorf("watching namespace %s of %s: %w", mapping.RemoteName, t.provider, err)
	}
	return started, nil
}

func describe(provider string, wanted bool, status v1alpha1.NamespaceMappingStatus) string {
	switch {
	case !wanted:
		return fmt.Sprintf("the namespace is not offloaded to %s any more", provider)
	case status.Phase == v1alpha1.NamespaceMappingReady:
		return ""
	case status.Message != "":
		return fmt.Sprintf("namespace %s of %s is %s: %s", status.RemoteName, provider, status.Phase, status.Message)
	default:
		return fmt.Sprintf("namespace %s of %s is %s", status.RemoteName, provider, status.Phase)
	}
}
