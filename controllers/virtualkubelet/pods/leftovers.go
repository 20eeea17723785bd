// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	"liqo.io/federation/generated/clientset/versioned"
)

// leftoversRetry is the time after which a failed deletion of leftover shadow pods in a namespace is retried.
const leftoversRetry = 30 * time.Second

// Leftovers deletes shadow pods that belong to deleted virtual nodes, because a virtual kubelet may end while the
// provider is unreachable. Of the virtual kubelets of a provider, one does this for all.
type Leftovers struct {
	// to has the labels that select the consumer's shadow pods, and the name of this virtual node. remote is the client of
	// the provider.
	to     translate.Destination
	remote versioned.Interface
	// nodes returns the names of the provider's virtual nodes. It reads them from the API server, since the shadow pods of
	// a virtual node that is not cached yet must not be deleted.
	nodes func(ctx context.Context) ([]string, error)
	// decides reports whether this virtual kubelet is the one that deletes the shadow pods of deleted virtual nodes.
	decides    func() bool
	namespaces Namespaces
	clock      clock.WithTicker

	wake    chan struct{}
	mu      sync.Mutex
	pending sets.Set[string]
	known   sets.Set[string]
}

// NewLeftovers returns a Leftovers, which starts with Run.
func NewLeftovers(
	to translate.Destination,
	remote versioned.Interface,
	nodes func(context.Context) ([]string, error),
	decides func() bool,
	namespaces Namespaces,
	clock clock.WithTicker,
) *Leftovers {
	return &Leftovers{
		to: to, remote: remote, nodes: nodes, decides: decides, namespaces: namespaces, clock: clock,
		wake: make(chan struct{}, 1), pending: sets.New[string](),
	}
}

// Check makes Run delete the shadow pods of deleted virtual nodes in the remote namespaces of these local namespaces.
func (l *Leftovers) Check(namespaces ...string) {
	l.mu.Lock()
	l.pending.Insert(namespaces...)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// SetNodes sets the names of the provider's virtual nodes. If one of the previous names is missing, it calls Check for
// all namespaces in the NamespaceMap.
func (l *Leftovers) SetNodes(names []string) {
	now := sets.New(names...)
	l.mu.Lock()
	removed := l.known.Difference(now)
	l.known = now
	l.mu.Unlock()
	if removed.Len() > 0 {
		l.Check(slices.Collect(maps.Keys(l.namespaces.All()))...)
	}
}

// Run deletes shadow pods in the namespaces that Check requests until the context ends, and retries after errors.
func (l *Leftovers) Run(ctx context.Context) {
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
			err := l.sweep(ctx, l.namespaces.State(namespace).Namespace)
			if err == nil {
				continue
			}
			if ctx.Err() != nil {
				return
			}
			klog.FromContext(ctx).
				Error(err, "Deleting shadow pods of removed virtual nodes failed, retrying",
					"namespace", namespace, "after", leftoversRetry)
			l.mu.Lock()
			l.pending.Insert(namespace)
			l.mu.Unlock()
			if again == nil {
				again = l.clock.After(leftoversRetry)
			}
		}
	}
}

// sweep deletes the shadow pods of deleted virtual nodes in one remote namespace. It does nothing if remote is nil, or
// if nodes does not return this virtual node.
func (l *Leftovers) sweep(ctx context.Context, remote *remotens.Namespace) error {
	if remote == nil {
		return nil
	}
	nodes, err := l.nodes(ctx)
	if err != nil {
		return fmt.Errorf("listing the virtual nodes: %w", err)
	}
	if !slices.Contains(nodes, l.to.NodeName) {
		// The VirtualNode of this virtual kubelet was deleted, or the list is wrong.
		return nil
	}
	labelled, err := labels.NewRequirement(v1alpha1.LabelVirtualNode, selection.Exists, nil)
	if err != nil {
		return err
	}
	slices.Sort(nodes)
	otherNodes, err := labels.NewRequirement(v1alpha1.LabelVirtualNode, selection.NotIn, nodes)
	if err != nil {
		return err
	}
	selector := labels.SelectorFromSet(l.to.ReflectedLabels()).Add(*labelled, *otherNodes)
	client := l.remote.FederationV1alpha1().ShadowPods(remote.Remote)
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return fmt.Errorf("listing the shadow pods in %s: %w", remote.Remote, err)
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
			failed = append(failed, fmt.Errorf("deleting shadow pod %s/%s: %w", remote.Remote, shadow.Name, err))
		default:
			klog.FromContext(ctx).
				Info("Deleted a shadow pod of a removed virtual node",
					"shadowPod", klog.KObj(shadow), "node", shadow.Labels[v1alpha1.LabelVirtualNode])
		}
	}
	return errors.Join(failed...)
}
