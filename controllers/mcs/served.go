// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mcs observes whether the local cluster serves the Multi-Cluster Services API, KEP-1645, and determines which
// ServiceExports are effective.
package mcs

import (
	"context"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/reflection"
)

const (
	// servedInterval is the time between two successful reads of discovery. CustomResourceDefinitions are not watched.
	servedInterval = time.Minute
	// servedRetry is the time from a failed read of discovery to the next one.
	servedRetry = 5 * time.Second
)

// Exported reports whether a ServiceExport is effective: it is not being deleted, and not excluded
// from reflection.
func Exported(export metav1.Object) bool {
	return export.GetDeletionTimestamp().IsZero() && !reflection.SkipsReflection(export)
}

// Discovery is the method of a discovery client that Served needs.
type Discovery interface {
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// Served observes whether the local cluster serves resources of the Multi-Cluster Services API. Their
// CustomResourceDefinitions may be created and deleted at any time. It is safe for concurrent use.
type Served struct {
	discovery Discovery
	resources []string
	clock     clock.Clock

	mu sync.Mutex
	// read is true once a read of discovery succeeded, and served is whether the last successful read found all
	// resources.
	read, served bool
	// changed is closed, and replaced by a new channel, when read or served changes.
	changed chan struct{}
}

// NewServed returns a Served that reports true only while the local cluster serves all these resources, for example
// serviceexports.
func NewServed(discovery Discovery, clock clock.Clock, resources ...string) *Served {
	return &Served{discovery: discovery, resources: resources, clock: clock, changed: make(chan struct{})}
}

// Run reads discovery regularly until ctx is done.
func (s *Served) Run(ctx context.Context) {
	for {
		wait := servedInterval
		if err := s.update(ctx); err != nil {
			klog.FromContext(ctx).V(2).Info("Reading the served resources failed, retrying", "reason", err.Error())
			wait = servedRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-s.clock.After(wait):
		}
	}
}

func (s *Served) update(ctx context.Context) error {
	list, err := s.discovery.ServerResourcesForGroupVersionWithContext(ctx, mcsv1alpha1.GroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	served := err == nil && !slices.ContainsFunc(s.resources, func(resource string) bool {
		return !slices.ContainsFunc(
			list.APIResources,
			func(served metav1.APIResource) bool { return served.Name == resource },
		)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read && s.served == served {
		return nil
	}
	s.read, s.served = true, served
	close(s.changed)
	s.changed = make(chan struct{})
	logger := klog.FromContext(ctx).WithValues("groupVersion", mcsv1alpha1.GroupVersion.String(), "resources", s.resources)
	if served {
		logger.Info("This cluster serves the Multi-Cluster Services API: exported Services are imported")
	} else {
		logger.Info("This cluster does not serve the Multi-Cluster Services API: no Service is exported or imported " +
			"until its CustomResourceDefinitions are installed, see docs/install.md")
	}
	return nil
}

// Follow calls do in a new goroutine once discovery was read, and again after each change of the result. Before each
// further call, it cancels the context of the previous call and waits until that call returns. It returns when ctx is
// done.
func (s *Served) Follow(ctx context.Context, do func(ctx context.Context, served bool)) {
	for ctx.Err() == nil {
		s.mu.Lock()
		read, served, changed := s.read, s.served, s.changed
		s.mu.Unlock()
		during, end := context.WithCancel(ctx)
		var call sync.WaitGroup
		if read {
			call.Go(func() { do(during, served) })
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
		end()
		call.Wait()
	}
}
