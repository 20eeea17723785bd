// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/validation"
)

// kindsInterval is how often this cluster is asked whether it serves the kinds
// that were configured: that a definition comes or goes is no event here.
const kindsInterval = time.Minute

// parseKinds reads kinds as flags and kubectl name them: the resource, the
// version and the group, as in certificates.v1.cert-manager.io.
func parseKinds(flag string, names []string) ([]metav1.GroupVersionResource, []error) {
	var kinds []metav1.GroupVersionResource
	var errs []error
	for _, name := range names {
		kind, _ := schema.ParseResourceArg(name)
		if kind == nil {
			errs = append(errs, fmt.Errorf("--%s %q: must be the resource, the version and the group of a kind, as in certificates.v1.cert-manager.io", flag, name))
			continue
		}
		kinds = append(kinds, metav1.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: kind.Resource})
	}
	if len(errs) > 0 {
		return nil, errs
	}
	for _, err := range validation.ReflectedKinds(kinds, field.NewPath("--"+flag)) {
		errs = append(errs, err)
	}
	return kinds, errs
}

// kindName is a kind as kubectl names it.
func kindName(kind metav1.GroupVersionResource) string {
	return strings.Join([]string{kind.Resource, kind.Version, kind.Group}, ".")
}

// servedKinds knows which kinds this cluster serves, as it said within the last
// half of kindsInterval.
type servedKinds struct {
	// ask lists the resources of a group in a version.
	ask   func(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
	clock clock.PassiveClock

	mu   sync.Mutex
	said map[string]answer
}

type answer struct {
	at        time.Time
	resources []metav1.APIResource
}

// find is how a kind is served; nil if it is not.
func (s *servedKinds) find(ctx context.Context, kind metav1.GroupVersionResource) (*metav1.APIResource, error) {
	groupVersion := schema.GroupVersion{Group: kind.Group, Version: kind.Version}.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	said, ok := s.said[groupVersion]
	if now := s.clock.Now(); !ok || now.Sub(said.at) > kindsInterval/2 {
		list, err := s.ask(ctx, groupVersion)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("ask whether this cluster serves %s: %w", groupVersion, err)
		}
		said = answer{at: now}
		if err == nil {
			said.resources = list.APIResources
		}
		if s.said == nil {
			s.said = map[string]answer{}
		}
		s.said[groupVersion] = said
	}
	index := slices.IndexFunc(said.resources, func(resource metav1.APIResource) bool { return resource.Name == kind.Resource })
	if index < 0 {
		return nil, nil
	}
	return &said.resources[index], nil
}
