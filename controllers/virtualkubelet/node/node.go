// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	vknode "github.com/virtual-kubelet/virtual-kubelet/node"
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
	// checkInterval is the time between two checks of the provider, and recheckInterval that after
	// a failed one.
	checkInterval   = 10 * time.Second
	recheckInterval = 2 * time.Second
	checkTimeout    = 5 * time.Second
	// checkFailures is how many checks in a row fail before the node is not ready.
	checkFailures = 3
)

// Reasons of the Ready condition of a virtual node.
const (
	ReasonProviderReady       = "ProviderReady"
	ReasonProviderUnreachable = "ProviderUnreachable"
	ReasonProviderDenies      = "ProviderDenies"
)

// Config is what a Node works with.
type Config struct {
	// Provider is the name of the ForeignCluster, Address the virtual kubelet's own, and Port the one that it
	// serves on.
	Provider, Address string
	Port              int32
	// Check reads something from the provider that a peer may read, and returns the version of its API
	// server.
	Check func(context.Context) (version string, err error)
	// VirtualNode returns the latest one; nil when it is gone.
	VirtualNode func() *v1alpha1.VirtualNode
	// Back is called when the provider answers again.
	Back    func()
	Clock   clock.Clock
	Metrics *Metrics
}

// Node maintains the Node of one VirtualNode: its resources and labels are those of the VirtualNode, its
// condition is the result of checks of the provider.
type Node struct {
	Config
	// changed has a value when the node is to be written.
	changed chan struct{}

	mu       sync.Mutex
	failures int
	version  string
	ready    corev1.NodeCondition
	last     *corev1.Node
}

var _ vknode.NodeProvider = (*Node)(nil)

// New returns a node. It is checked once Run is called.
func New(config Config) *Node { return &Node{Config: config, changed: make(chan struct{}, 1)} }

// Ping reports that this virtual kubelet runs; the state of the provider is a condition of the
// node.
func (n *Node) Ping(ctx context.Context) error { return ctx.Err() }

// NotifyNodeStatus calls a function with each changed node until the context ends.
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

// Reachable reports whether the provider answers.
func (n *Node) Reachable() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ready.Status == corev1.ConditionTrue
}

// Run checks the provider until the context ends. Start has made the first check.
func (n *Node) Run(ctx context.Context) {
	interval := checkInterval
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.Clock.After(interval):
		}
		if interval = checkInterval; !n.probe(ctx) {
			interval = recheckInterval
		}
	}
}

// Start checks the provider for the first time, and returns the node to register. The result
// counts at once: there is none before it.
func (n *Node) Start(ctx context.Context) *corev1.Node {
	n.mu.Lock()
	n.failures = checkFailures - 1
	n.mu.Unlock()
	n.probe(ctx)
	return n.Sync()
}

// probe checks the provider once, and reports whether it answered.
func (n *Node) probe(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	version, err := n.Check(ctx)
	if err != nil && context.Cause(ctx) == context.Canceled {
		return false
	}
	if n.observe(ctx, version, err) {
		n.Sync()
	}
	return err == nil
}

// observe records the result of a check, and reports whether it changed the node.
func (n *Node) observe(ctx context.Context, version string, err error) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.ready
	now := metav1.NewTime(n.Clock.Now())
	if err != nil {
		if n.failures++; n.failures < checkFailures {
			return false
		}
		reason := ReasonProviderUnreachable
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) {
			reason = ReasonProviderDenies
		}
		n.ready = corev1.NodeCondition{
			Type:   corev1.NodeReady,
			Status: corev1.ConditionFalse,
			Reason: reason,
			Message: fmt.Sprintf(
				"%s does not answer; its pods keep their last status: %s",
				n.Provider,
				remote.Describe(err),
			),
			LastHeartbeatTime: now,
		}
	} else {
		n.failures = 0
		n.ready = corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: ReasonProviderReady,
			Message:           n.Provider + " answers",
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
		n.Metrics.reachable.Set(float64(map[bool]int{true: 1}[err == nil]))
		if err == nil {
			go n.Back()
		}
	}
	return changed
}

// Sync computes the node, and returns it.
func (n *Node) Sync() *corev1.Node {
	vn := n.VirtualNode()
	n.mu.Lock()
	defer n.mu.Unlock()
	if vn == nil {
		return n.last
	}
	next := translate.Node(
		vn,
		translate.NodeFacts{Address: n.Address, Port: n.Port, KubeletVersion: n.version, Ready: n.ready},
	)
	if n.last != nil && translate.SameNode(n.last, next) {
		return n.last
	}
	n.last = next
	n.Rewrite()
	return next
}

// Rewrite requests a write of the node even if it has not changed.
func (n *Node) Rewrite() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}
