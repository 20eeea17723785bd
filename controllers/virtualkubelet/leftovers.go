// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	"liqo.io/federation/generated/clientset/versioned"
)

// leftoversRetry is how long after an attempt that failed the next one follows.
const leftoversRetry = 30 * time.Second

// leftovers removes shadow pods of virtual nodes that are there no more: one may
// end before the provider could be asked to end its pods, and nobody else follows
// them. Of several virtual nodes that stand for a provider one does it for all.
type leftovers struct {
	to     translate.Destination
	remote versioned.Interface
	// nodes are the names of the nodes that stand for the provider, as the API
	// has them now: what a cache has not seen yet is not gone.
	nodes func(ctx context.Context) ([]string, error)
	// decides tells whether it is for this virtual kubelet to do it.
	decides func() bool
	// twin is the twin of a local namespace, empty if there is none, and all are
	// the local namespaces that have one.
	twin  func(namespace string) string
	all   func() []string
	clock clock.WithTicker

	wake    chan struct{}
	mu      sync.Mutex
	pending sets.Set[string]
	known   sets.Set[string]
}

// look has the twins of local namespaces looked at.
func (l *leftovers) look(namespaces ...string) {
	l.mu.Lock()
	l.pending.Insert(namespaces...)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// nodesAre takes notice of the nodes that stand for the provider, and has all
// twins looked at when one of them is gone.
func (l *leftovers) nodesAre(names []string) {
	now := sets.New(names...)
	l.mu.Lock()
	gone := l.known.Difference(now)
	l.known = now
	l.mu.Unlock()
	if gone.Len() > 0 {
		l.look(l.all()...)
	}
}

// run works until the context ends.
func (l *leftovers) run(ctx context.Context) {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-l.wake:
		}
		again = nil
		l.mu.Lock()
		namespaces := sets.List(l.pending)
		l.pending = sets.New[string]()
		l.mu.Unlock()
		if !l.decides() {
			continue
		}
		for _, namespace := range namespaces {
			err := l.sweep(ctx, l.twin(namespace))
			if err == nil {
				continue
			}
			if ctx.Err() != nil {
				return
			}
			klog.FromContext(ctx).Error(err, "Shadow pods of virtual nodes that are gone may be left, trying again", "namespace", namespace, "after", leftoversRetry)
			l.mu.Lock()
			l.pending.Insert(namespace)
			l.mu.Unlock()
			if again == nil {
				again = l.clock.After(leftoversRetry)
			}
		}
	}
}

// sweep removes what is left in one twin.
func (l *leftovers) sweep(ctx context.Context, twin string) error {
	if twin == "" {
		return nil
	}
	nodes, err := l.nodes(ctx)
	if err != nil {
		return fmt.Errorf("listing the virtual nodes: %w", err)
	}
	if !slices.Contains(nodes, l.to.NodeName) {
		// This one is about to end, or what is said of it is wrong.
		return nil
	}
	labelled, err := labels.NewRequirement(v1alpha1.LabelVirtualNode, selection.Exists, nil)
	if err != nil {
		return err
	}
	slices.Sort(nodes)
	strange, err := labels.NewRequirement(v1alpha1.LabelVirtualNode, selection.NotIn, nodes)
	if err != nil {
		return err
	}
	selector := labels.SelectorFromSet(l.to.ReflectedLabels()).Add(*labelled, *strange)
	client := l.remote.FederationV1alpha1().ShadowPods(twin)
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return fmt.Errorf("listing the shadow pods in %s: %w", twin, err)
	}
	var failed []error
	for i := range list.Items {
		shadow := &list.Items[i]
		if shadow.DeletionTimestamp != nil {
			continue
		}
		err := client.Delete(ctx, shadow.Name, *metav1.NewPreconditionDeleteOptions(string(shadow.UID)))
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		case err != nil:
			failed = append(failed, fmt.Errorf("deleting shadow pod %s/%s: %w", twin, shadow.Name, err))
		default:
			klog.FromContext(ctx).Info("Deleted a shadow pod of a virtual node that is gone", "shadowPod", klog.KObj(shadow), "node", shadow.Labels[v1alpha1.LabelVirtualNode])
		}
	}
	return errors.Join(failed...)
}
