// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

const (
	// checkInterval is the time between two checks of the provider, and
	// recheckInterval while the last one failed.
	checkInterval   = 10 * time.Second
	recheckInterval = 2 * time.Second
	checkTimeout    = 5 * time.Second
	// checkFailures is how many checks in a row fail before the node is not
	// ready.
	checkFailures = 3
)

// Reasons of the Ready condition of a virtual node.
const (
	ReasonProviderReady       = "ProviderReady"
	ReasonProviderUnreachable = "ProviderUnreachable"
	ReasonProviderDenies      = "ProviderDenies"
)

// Node keeps the Node of one VirtualNode: its resources and labels from the
// VirtualNode, its condition from checks of the provider.
type Node struct {
	provider, address string
	port              int32
	// check asks the provider for something that the peer may read, and returns
	// the version of its API server.
	check func(context.Context) (version string, err error)
	// virtualNode is the latest one; nil when it is gone.
	virtualNode func() *v1alpha1.VirtualNode
	// back is called when the provider answers again.
	back    func()
	clock   clock.Clock
	metrics *Metrics

	// changed tells that the node is another one.
	changed chan struct{}

	mu       sync.Mutex
	failures int
	version  string
	ready    corev1.NodeCondition
	last     *corev1.Node
}

var _ node.NodeProvider = (*Node)(nil)

// Ping says that this virtual kubelet lives; how the provider does is a
// condition of the node.
func (n *Node) Ping(ctx context.Context) error { return ctx.Err() }

// NotifyNodeStatus hands each changed node to a function, until the context
// ends.
func (n *Node) NotifyNodeStatus(ctx context.Context, notify func(*corev1.Node)) {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-n.changed:
				n.mu.Lock()
				next := n.last.DeepCopy()
				n.mu.Unlock()
				notify(next)
			}
		}
	}()
}

// reachable tells whether the provider answers.
func (n *Node) reachable() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ready.Status == corev1.ConditionTrue
}

// run checks the provider until the context ends. The first check is that of
// start.
func (n *Node) run(ctx context.Context) {
	interval := checkInterval
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.clock.After(interval):
		}
		if interval = checkInterval; !n.probe(ctx) {
			interval = recheckInterval
		}
	}
}

// start checks the provider for the first time, and returns the node to
// register. Its answer counts at once: there is none before it.
func (n *Node) start(ctx context.Context) *corev1.Node {
	n.mu.Lock()
	n.failures = checkFailures - 1
	n.mu.Unlock()
	n.probe(ctx)
	return n.sync()
}

// probe checks the provider once, and tells whether it answered.
func (n *Node) probe(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	version, err := n.check(ctx)
	if err != nil && context.Cause(ctx) == context.Canceled {
		return false
	}
	if n.observe(ctx, version, err) {
		n.sync()
	}
	return err == nil
}

// observe takes the answer of a check in, and tells whether the node has
// changed with it.
func (n *Node) observe(ctx context.Context, version string, err error) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.ready
	now := metav1.NewTime(n.clock.Now())
	if err != nil {
		if n.failures++; n.failures < checkFailures {
			return false
		}
		reason := ReasonProviderUnreachable
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) {
			reason = ReasonProviderDenies
		}
		n.ready = corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: reason,
			Message:           fmt.Sprintf("%s does not answer; its pods keep their last status: %s", n.provider, remote.Describe(err)),
			LastHeartbeatTime: now,
		}
	} else {
		n.failures = 0
		n.ready = corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: ReasonProviderReady,
			Message:           n.provider + " answers",
			LastHeartbeatTime: now,
		}
	}
	n.ready.LastTransitionTime = now
	if before.Status == n.ready.Status {
		n.ready.LastTransitionTime = before.LastTransitionTime
	}
	changed := before.Status != n.ready.Status || before.Reason != n.ready.Reason || err == nil && n.version != version
	if err == nil {
		n.version = version
	}
	if before.Status != n.ready.Status {
		klog.FromContext(ctx).Info("Provider was checked", "ready", n.ready.Status, "reason", n.ready.Reason)
		n.metrics.reachable.Set(float64(map[bool]int{true: 1}[err == nil]))
		if err == nil {
			go n.back()
		}
	}
	return changed
}

// sync makes the node anew, and returns it.
func (n *Node) sync() *corev1.Node {
	vn := n.virtualNode()
	n.mu.Lock()
	defer n.mu.Unlock()
	if vn == nil {
		return n.last
	}
	next := translate.Node(vn, translate.NodeFacts{Address: n.address, Port: n.port, KubeletVersion: n.version, Ready: n.ready})
	if n.last != nil && translate.SameNode(n.last, next) {
		return n.last
	}
	n.last = next
	n.again()
	return next
}

// again has the node written, also if it has not changed.
func (n *Node) again() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}
