// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remotens

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	federationlisters "liqo.io/federation/generated/listers/federation/v1alpha1"
)

// State is the state of a local namespace at the provider. The zero value is a namespace that is not offloaded.
type State struct {
	// Offloaded is true if the spec of the NamespaceMap has the namespace, so that it is offloaded to the provider.
	Offloaded bool
	// Ready is true if pods can be created in the remote namespace.
	Ready bool
	// Message is the reason why the namespace is not ready, for statuses of pods.
	Message string
	// Namespace has the caches of the remote namespace; nil if it does not exist.
	Namespace *Namespace
	// Former is true if Namespace is a remote namespace that the spec no longer requests, and the requested one does not
	// exist yet.
	Former bool
}

// Leaving reports whether the spec of the NamespaceMap no longer requests the remote namespace.
func (s State) Leaving() bool { return !s.Offloaded || s.Former }

// Set watches the remote namespaces that the status of the NamespaceMap lists.
type Set struct {
	// Provider is the name of the provider's ForeignCluster, for messages.
	Provider string
	// Maps lists the NamespaceMap of the consumer.
	Maps federationlisters.NamespaceMapNamespaceLister
	// Start starts to watch a remote namespace. It fails if an event handler cannot be added.
	Start func(v1alpha1.NamespaceMapping) (*Namespace, error)
	// Changed is called with each local namespace whose state changed.
	Changed func(namespace string)

	mu     sync.RWMutex
	states map[string]State
}

// State returns the state of a local namespace. If the NamespaceMap does not have the namespace, only Message is set.
func (s *Set) State(namespace string) State {
	s.mu.RLock()
	defer s.mu.RUnlock()
	state, ok := s.states[namespace]
	if !ok {
		state.Message = fmt.Sprintf("The namespace is not offloaded to %s.", s.Provider)
	}
	return state
}

// All returns the states of all local namespaces in the NamespaceMap, by name.
func (s *Set) All() map[string]State {
	s.mu.RLock()
	defer s.mu.RUnlock()
	result := make(map[string]State, len(s.states))
	for namespace, state := range s.states {
		result[namespace] = state
	}
	return result
}

// Sync starts and stops watches, so that they match the NamespaceMap, and calls Changed for each namespace whose state
// changed. It must not be called concurrently. It fails if a watch cannot be started.
func (s *Set) Sync(ctx context.Context) error {
	maps, err := s.Maps.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing NamespaceMaps: %w", err)
	}
	states, err := s.statesOf(ctx, maps)
	if err != nil {
		return err
	}

	s.mu.Lock()
	before := s.states
	s.states = states
	s.mu.Unlock()

	for namespace, old := range before {
		now := states[namespace]
		if old.Namespace != nil && old.Namespace != now.Namespace {
			old.Namespace.stop()
		}
		if _, ok := states[namespace]; !ok {
			s.Changed(namespace)
		}
	}
	for namespace, now := range states {
		if old, ok := before[namespace]; !ok || old != now {
			s.Changed(namespace)
		}
	}
	return nil
}

// statesOf returns the states of the namespaces in the NamespaceMaps. It starts watches of new remote namespaces, and
// fails if one cannot be started.
func (s *Set) statesOf(ctx context.Context, maps []*v1alpha1.NamespaceMap) (map[string]State, error) {
	result := map[string]State{}
	for _, m := range maps {
		requested := map[string]string{}
		for _, mapping := range m.Spec.Namespaces {
			requested[mapping.Name] = mapping.RemoteName
			result[mapping.Name] = State{
				Offloaded: true,
				Message:   fmt.Sprintf("%s has not created namespace %s yet.", s.Provider, mapping.RemoteName),
			}
		}
		for _, status := range m.Status.Namespaces {
			state := result[status.Name]
			// If the status has another remote name than the spec, the provider has not processed the spec yet.
			state.Former = state.Offloaded && status.RemoteName != requested[status.Name]
			if !state.Former {
				state.Ready = state.Offloaded && status.Phase == v1alpha1.NamespaceMappingReady
				state.Message = describe(s.Provider, state.Offloaded, status)
			}
			if status.Phase == v1alpha1.NamespaceMappingReady || status.Phase == v1alpha1.NamespaceMappingTerminating {
				watched, err := s.watched(v1alpha1.NamespaceMapping{Name: status.Name, RemoteName: status.RemoteName})
				if err != nil {
					return nil, err
				}
				state.Namespace = watched
				klog.FromContext(ctx).
					V(4).
					Info("Namespace is watched", "namespace", status.Name, "remoteNamespace", status.RemoteName)
			}
			result[status.Name] = state
		}
	}
	return result, nil
}

func (s *Set) watched(mapping v1alpha1.NamespaceMapping) (*Namespace, error) {
	if now := s.State(mapping.Name).Namespace; now != nil && now.Remote == mapping.RemoteName {
		return now, nil
	}
	started, err := s.Start(mapping)
	if err != nil {
		return nil, fmt.Errorf("watching namespace %s of %s: %w", mapping.RemoteName, s.Provider, err)
	}
	return started, nil
}

func describe(provider string, offloaded bool, status v1alpha1.NamespaceMappingStatus) string {
	switch {
	case !offloaded:
		return fmt.Sprintf("The namespace is no longer offloaded to %s.", provider)
	case status.Phase == v1alpha1.NamespaceMappingReady:
		return ""
	case status.Message != "":
		return fmt.Sprintf("Namespace %s of %s is %s: %s", status.RemoteName, provider, status.Phase, status.Message)
	default:
		return fmt.Sprintf("Namespace %s of %s is %s.", status.RemoteName, provider, status.Phase)
	}
}
