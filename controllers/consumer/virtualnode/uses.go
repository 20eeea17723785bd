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

// accountLinger is the time for which a ServiceAccount stays in the annotation of its namespace after its last pod on
// a node ended, so that Jobs do not cause frequent writes to their namespace.
const accountLinger = time.Minute

// accountUse counts the pods on one node that need tokens of one ServiceAccount.
type accountUse struct {
	pods int
	// idle is the time at which the last of these pods ended.
	idle time.Time
}

// accountUses counts, for each virtual node and ServiceAccount, the pods that need tokens of the ServiceAccount.
type accountUses struct {
	clock clock.PassiveClock
	// counted reports whether all pods of a node were counted.
	counted func(node string) bool
	// changed is called with a namespace when one of its ServiceAccounts gets its first pod on a node or loses its last
	// one.
	changed func(namespace string)

	mu sync.Mutex
	// nodes has the numbers of pods that need tokens of a ServiceAccount, by node, namespace and name of the
	// ServiceAccount.
	nodes map[string]map[string]map[string]accountUse
}

func newAccountUses(
	clock clock.PassiveClock, counted func(node string) bool, changed func(namespace string),
) *accountUses {
	return &accountUses{
		clock: clock, counted: counted, changed: changed, nodes: map[string]map[string]map[string]accountUse{},
	}
}

// Counts implements watches.PodCounter. It reports whether a pod needs tokens of its ServiceAccount.
func (*accountUses) Counts(pod *corev1.Pod) bool { return podspec.NeedsTokens(pod) }

// Count implements watches.PodCounter. It adds by, which is 1 or -1, to the count of the pod's ServiceAccount on a
// node.
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

// of returns the ServiceAccounts of a namespace whose tokens pods on a node need or needed within accountLinger. It
// also returns the time after which the first ServiceAccount without pods expires; 0 if all have pods. If not all pods
// of the node are counted yet, it returns no ServiceAccounts, and false. It removes expired ServiceAccounts.
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

// forget removes the counts of a deleted node.
func (u *accountUses) forget(node string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.nodes, node)
}

// noUses replaces accountUses.of in a cluster that sends no tokens to providers.
func noUses(string, string) ([]string, time.Duration, bool) { return nil, 0, true }
