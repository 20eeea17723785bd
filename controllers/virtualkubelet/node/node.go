// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
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
	// checkInterval is the time between two checks whether the provider is reachable, recheckInterval the time from a
	// failed check to the next one, and checkTimeout the timeout of one check.
	checkInterval   = 10 * time.Second
	recheckInterval = 2 * time.Second
	checkTimeout    = 5 * time.Second
	// checkFailures is the number of consecutive failed checks after which the Node is not ready.
	checkFailures = 3
)

// Reasons of the condition Ready of a virtual node.
const (
	// ReasonProviderReady means that the provider responds to checks.
	ReasonProviderReady = "ProviderReady"
	// ReasonProviderUnreachable means that the provider did not respond to three checks in a row. See the conditions of
	// the ForeignCluster.
	ReasonProviderUnreachable = "ProviderUnreachable"
	// ReasonProviderDenies means that the provider responds to checks with Unauthorized, Forbidden or NotFound. See the
	// condition Authenticated of the ForeignCluster.
	ReasonProviderDenies = "ProviderDenies"
)

// Config has the parameters of New.
type Config struct {
	// Provider is the name of the provider's ForeignCluster. Address and Port are the endpoint of the virtual kubelet's
	// API.
	Provider, Address string
	Port              int32
	// Check sends a request to the provider that every consumer may send. It returns the version of the provider's API
	// server.
	Check func(context.Context) (version string, err error)
	// VirtualNode returns the cached VirtualNode; nil if it does not exist.
	VirtualNode func() *v1alpha1.VirtualNode
	// Back is called in a goroutine of its own when the provider becomes reachable.
	Back    func()
	Clock   clock.Clock
	Metrics *Metrics
}

// Node computes the Node object of one VirtualNode, with the VirtualNode's resources and labels. The condition Ready
// has the result of the checks whether the provider is reachable.
type Node struct {
	Config
	// changed receives a value when the Node object must be written.
	changed chan struct{}

	mu       sync.Mutex
	failures int
	version  string
	ready    corev1.NodeCondition
	last     *corev1.Node
}

var _ vknode.NodeProvider = (*Node)(nil)

// New returns a Node. The caller calls Start and then Run, which check whether the provider is reachable.
func New(config Config) *Node { return &Node{Config: config, changed: make(chan struct{}, 1)} }

// Ping implements vknode.NodeProvider. It fails only when the context ended, because the condition Ready reports an
// unreachable provider.
func (n *Node) Ping(ctx context.Context) error { return ctx.Err() }

// NotifyNodeStatus implements vknode.NodeProvider. In a goroutine, it calls notify with every changed Node object until
// the context ends.
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

// Reachable reports whether the provider is reachable, by the condition Ready.
func (n *Node) Reachable() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ready.Status == corev1.ConditionTrue
}

// Run checks the provider periodically until the context ends. Start must have returned before.
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

// Start checks the provider once, and returns the Node object to register. If this check fails, the Node is not ready,
// whereas in Run only the third failed check in a row has that effect.
func (n *Node) Start(ctx context.Context) *corev1.Node {
	n.mu.Lock()
	n.failures = checkFailures - 1
	n.mu.Unlock()
	n.probe(ctx)
	return n.Sync()
}

// probe checks the provider once, updates the Node object and reports whether the check succeeded.
func (n *Node) probe(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	version, err := n.Check(ctx)
	if err != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return false
	}
	if n.observe(ctx, version, err) {
		n.Sync()
	}
	return err == nil
}

// observe updates the condition Ready from the result of a check. It reports whether the Node object must be written.
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
				"%s cannot be used; the pods on this node keep their last status: %s",
				n.Provider,
				remote.Describe(err),
			),
			LastHeartbeatTime: now,
		}
	} else {
		n.failures = 0
		n.ready = corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: ReasonProviderReady,
			Message:           n.Provider + " is reachable",
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
		klog.FromContext(ctx).Info("Provider changed", "ready", n.ready.Status, "reason", n.ready.Reason)
		n.Metrics.reachable.Set(float64(map[bool]int{true: 1}[err == nil]))
		if err == nil {
			go n.Back()
		}
	}
	return changed
}

// Sync returns the Node object of the current VirtualNode, and requests a write if it changed. Without a VirtualNode,
// it returns the last object.
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

// Rewrite requests a write of the Node object even if it has not changed, for example after it was deleted.
func (n *Node) Rewrite() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}
