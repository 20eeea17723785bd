// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/podspec"
)

// accountLinger is the time for which a service account without pods on a node remains published, so that Jobs do not
// cause frequent writes of their namespace.
const accountLinger = time.Minute

// accountUse counts the pods of a service account on one node that need its tokens.
type accountUse struct {
	pods int
	// idle is the time at which the last one ended.
	idle time.Time
}

// accountUses counts the pods of service accounts on virtual nodes that need their tokens.
type accountUses struct {
	clock clock.PassiveClock
	// counted reports whether all pods of a node were counted.
	counted func(node string) bool
	// changed is called with a namespace when one of its accounts gets its first pod on a
	// node, or loses its last one.
	changed func(namespace string)

	mu sync.Mutex
	// nodes has the uses by node, namespace and name of the account.
	nodes map[string]map[string]map[string]accountUse
}

func newAccountUses(
	clock clock.PassiveClock, counted func(node string) bool, changed func(namespace string),
) *accountUses {
	return &accountUses{
		clock: clock, counted: counted, changed: changed, nodes: map[string]map[string]map[string]accountUse{},
	}
}

// Counts reports whether a pod needs tokens of its account. It implements watches.PodCounter.
func (*accountUses) Counts(pod *corev1.Pod) bool { return podspec.NeedsTokens(pod) }

// Count adds a pod to those of its account on a node, or subtracts it. It implements
// watches.PodCounter.
func (u *accountUses) Count(node string, pod *corev1.Pod, by int) {
	if u.add(node, pod.Namespace, pod.Spec.ServiceAccountName, by) {
		u.changed(pod.Namespace)
	}
}

func (u *accountUses) add(node, namespace, account string, by int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.nodes[node] == nil {
		u.nodes[node] = map[string]map[string]accountUse{}
	}
	if u.nodes[node][namespace] == nil {
		u.nodes[node][namespace] = map[string]accountUse{}
	}
	use := u.nodes[node][namespace][account]
	before := use.pods > 0
	use.pods += by
	after := use.pods > 0
	if before && !after {
		use.idle = u.clock.Now()
	}
	u.nodes[node][namespace][account] = use
	return before != after
}

// of returns the accounts of a namespace that have such pods on a node, or had some within accountLinger, the time
// after which one of the latter expires, and whether all pods are counted. It removes expired accounts.
func (u *accountUses) of(node, namespace string) (accounts []string, retryAfter time.Duration, complete bool) {
	if !u.counted(node) {
		return nil, 0, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	uses, now := u.nodes[node][namespace], u.clock.Now()
	for account, use := range uses {
		left := use.idle.Add(accountLinger).Sub(now)
		switch {
		case use.pods > 0:
		case left <= 0:
			delete(uses, account)
			continue
		case retryAfter == 0 || left < retryAfter:
			retryAfter = left
		}
		accounts = append(accounts, account)
	}
	if len(uses) == 0 {
		delete(u.nodes[node], namespace)
	}
	return accounts, retryAfter, true
}

// forget removes the uses of a deleted node.
func (u *accountUses) forget(node string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.nodes, node)
}

// noUses returns no accounts and that they are complete, for a cluster that sends no tokens to providers.
func noUses(string, string) ([]string, time.Duration, bool) { return nil, 0, true }
