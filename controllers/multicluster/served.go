// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"context"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
)

const (
	// servedInterval is how often the cluster is asked what it serves: that a
	// definition comes or goes is no event here.
	servedInterval = time.Minute
	// servedRetry is when it is asked again that gave no answer.
	servedRetry = 5 * time.Second
)

// Served knows whether this cluster serves kinds of the Multi-Cluster Services
// API, whose definitions come and go as their administrators like.
type Served struct {
	resources []string
	// ask lists the resources of a group in a version.
	ask   func(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
	clock clock.Clock

	mu        sync.Mutex
	known, is bool
	// changed is closed when what is known changes.
	changed chan struct{}
}

// NewServed makes one that asks for the resources given, which count together.
func NewServed(kube kubernetes.Interface, clock clock.Clock, resources ...string) *Served {
	return &Served{resources: resources, ask: kube.Discovery().ServerResourcesForGroupVersionWithContext, clock: clock, changed: make(chan struct{})}
}

// Run keeps asking until the context ends.
func (s *Served) Run(ctx context.Context) {
	for {
		wait := servedInterval
		if err := s.look(ctx); err != nil {
			klog.FromContext(ctx).V(2).Info("Asking what this cluster serves failed, trying again", "reason", err.Error())
			wait = servedRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-s.clock.After(wait):
		}
	}
}

func (s *Served) look(ctx context.Context) error {
	list, err := s.ask(ctx, mcsv1alpha1.GroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	is := err == nil && !slices.ContainsFunc(s.resources, func(resource string) bool {
		return !slices.ContainsFunc(list.APIResources, func(served metav1.APIResource) bool { return served.Name == resource })
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known && s.is == is {
		return nil
	}
	s.known, s.is = true, is
	close(s.changed)
	s.changed = make(chan struct{})
	logger := klog.FromContext(ctx).WithValues("groupVersion", mcsv1alpha1.GroupVersion.String(), "resources", s.resources)
	if is {
		logger.Info("This cluster serves the Multi-Cluster Services API: exported Services are imported")
	} else {
		logger.Info("This cluster does not serve the Multi-Cluster Services API: no Service is exported or imported until its definitions are there, see docs/install.md")
	}
	return nil
}

// Follow calls a function with what is known, as soon as anything is, and anew
// each time that it changes; the context of the call before has ended then, and
// it has returned. It works until its own context ends.
func (s *Served) Follow(ctx context.Context, do func(ctx context.Context, served bool)) {
	for ctx.Err() == nil {
		s.mu.Lock()
		known, is, changed := s.known, s.is, s.changed
		s.mu.Unlock()
		during, end := context.WithCancel(ctx)
		var call sync.WaitGroup
		if known {
			call.Go(func() { do(during, is) })
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
		end()
		call.Wait()
	}
}
