// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// ServedKindsInterval is the interval at which a controller that depends on served kinds reads them again, because
// CustomResourceDefinitions and APIServices are not watched.
const ServedKindsInterval = time.Minute

// Discovery is the method of a discovery client that ServedKinds needs.
type Discovery interface {
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// ServedKinds reports which kinds the local cluster serves. It caches discovery responses for half of
// ServedKindsInterval. The controllers of a process share one; it is safe for concurrent use.
type ServedKinds struct {
	discovery Discovery
	clock     clock.PassiveClock

	mu       sync.Mutex
	versions map[string]servedVersion
}

// servedVersion is a cached discovery response for one group version. Without resources, the version is not served.
type servedVersion struct {
	at        time.Time
	resources []metav1.APIResource
}

// NewServedKinds returns ServedKinds with an empty cache.
func NewServedKinds(discovery Discovery, clock clock.PassiveClock) *ServedKinds {
	return &ServedKinds{discovery: discovery, clock: clock, versions: map[string]servedVersion{}}
}

// Find returns the resource of a kind, or nil if it is not served. It fails if discovery fails.
func (s *ServedKinds) Find(ctx context.Context, kind metav1.GroupVersionResource) (*metav1.APIResource, error) {
	groupVersion := schema.GroupVersion{Group: kind.Group, Version: kind.Version}.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	version, ok := s.versions[groupVersion]
	if now := s.clock.Now(); !ok || now.Sub(version.at) > ServedKindsInterval/2 {
		list, err := s.discovery.ServerResourcesForGroupVersionWithContext(ctx, groupVersion)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading the resources of %s: %w", groupVersion, err)
		}
		version = servedVersion{at: now}
		if err == nil {
			version.resources = list.APIResources
		}
		s.versions[groupVersion] = version
	}
	index := slices.IndexFunc(version.resources, func(resource metav1.APIResource) bool {
		return resource.Name == kind.Resource
	})
	if index < 0 {
		return nil, nil
	}
	return &version.resources[index], nil
}
