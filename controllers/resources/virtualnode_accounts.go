// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
)

const (
	// accountLinger is how long a service account stays written down that has no
	// pod on a node any more, so that Jobs do not have their namespace written
	// again and again.
	accountLinger = time.Minute
	// accountsRetry is how soon a namespace is looked at again while the pods of
	// a node are not known yet.
	accountsRetry = time.Second
)

// accountUse counts the pods of a service account on one node that need its
// tokens.
type accountUse struct {
	pods int
	// idle is since when there are none.
	idle time.Time
}

// accountUses counts the pods of service accounts on virtual nodes that need
// their tokens.
type accountUses struct {
	clock clock.PassiveClock
	// known tells whether all pods of a node were counted.
	known func(node string) bool
	// turned is told of a namespace when one of its accounts has its first pod on
	// a node, or none any more.
	turned func(namespace string)

	mu sync.Mutex
	// nodes has them by node, namespace and name.
	nodes map[string]map[string]map[string]accountUse
}

func newAccountUses(clock clock.PassiveClock, known func(node string) bool, turned func(namespace string)) *accountUses {
	return &accountUses{clock: clock, known: known, turned: turned, nodes: map[string]map[string]map[string]accountUse{}}
}

// count adds a pod to those of its account on a node, or takes it away.
func (u *accountUses) count(node string, pod *corev1.Pod, by int) {
	if u.add(node, pod.Namespace, pod.Spec.ServiceAccountName, by) {
		u.turned(pod.Namespace)
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

// of are the accounts of a namespace that have such pods on a node, or had some
// a moment ago; again is when the first of these moments is over. It tells
// whether all are known. What is older is forgotten.
func (u *accountUses) of(node, namespace string) (accounts []string, again time.Duration, complete bool) {
	if !u.known(node) {
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
		case again == 0 || left < again:
			again = left
		}
		accounts = append(accounts, account)
	}
	if len(uses) == 0 {
		delete(u.nodes[node], namespace)
	}
	return accounts, again, true
}

// forget a node that is gone.
func (u *accountUses) forget(node string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.nodes, node)
}

// nodeAccounts writes down, on offloaded namespaces, the service accounts whose
// tokens pods of each virtual kubelet need. It may have tokens of these and of
// no others, as the policy federation-virtual-kubelets-tokens says.
type nodeAccounts struct {
	namespace    func(name string) (*corev1.Namespace, error)
	virtualNodes func() ([]*v1alpha1.VirtualNode, error)
	accounts     func(node, namespace string) (accounts []string, again time.Duration, complete bool)
	patch        func(ctx context.Context, namespace string, patch []byte) error
	// own are the namespaces that the product is installed in.
	own []string
}

func (c *Config) accounts(uses *accountUses) *nodeAccounts {
	accounts := uses.of
	if c.VirtualKubelet.HomeServer == "" {
		// No token leaves, so no pod is counted, and none has to be known.
		accounts = func(string, string) ([]string, time.Duration, bool) { return nil, 0, true }
	}
	return &nodeAccounts{
		namespace: c.KubeInformers.Core().V1().Namespaces().Lister().Get,
		virtualNodes: func() ([]*v1alpha1.VirtualNode, error) {
			return c.FederationInformers.Federation().V1alpha1().VirtualNodes().Lister().List(labels.Everything())
		},
		accounts: accounts,
		own:      c.Namespaces,
		patch: func(ctx context.Context, namespace string, patch []byte) error {
			_, err := c.Kube.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		},
	}
}

func (a *nodeAccounts) reconcile(ctx context.Context, name string) (time.Duration, error) {
	namespace, err := a.namespace(name)
	gone := apierrors.IsNotFound(err)
	if gone {
		namespace = &corev1.Namespace{}
	} else if err != nil {
		return 0, err
	}
	before := strings.Fields(namespace.Annotations[v1alpha1.AnnotationAccounts])
	// What is used is asked for also where nothing is written down, since what
	// is not used any more is forgotten by that.
	offloaded := placement.Offloaded(namespace, a.own...)
	after, again, err := a.used(name, before, offloaded)
	if err != nil || gone {
		return again, err
	}
	if !offloaded {
		after = nil
	}
	if slices.Equal(before, after) || !namespace.DeletionTimestamp.IsZero() {
		return again, nil
	}
	patch, err := patchAccounts(namespace, after)
	if err != nil {
		return 0, err
	}
	if err := a.patch(ctx, name, patch); err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("write down whose pods of namespace %s are on virtual nodes: %w", name, err)
	}
	return again, nil
}

// used are the accounts on all virtual nodes that let pods talk to their home.
// What was known of a node whose pods are not known now stays, and it is looked
// at again: that they are known by then is no event.
func (a *nodeAccounts) used(namespace string, before []string, offloaded bool) (after []string, again time.Duration, err error) {
	nodes, err := a.virtualNodes()
	if err != nil {
		return nil, 0, err
	}
	for _, node := range nodes {
		if !naming.IsPeerNamespace(node.Namespace) {
			continue
		}
		accounts, soon, complete := a.accounts(node.Spec.NodeName, namespace)
		if node.Spec.APIAccess != v1alpha1.APIAccessDisabled {
			prefix := naming.AccountOnNode(node.Namespace, node.Name, "")
			for _, account := range accounts {
				after = append(after, prefix+account)
			}
			for _, entry := range before {
				if !complete && strings.HasPrefix(entry, prefix) {
					after = append(after, entry)
				}
			}
			if !complete && offloaded {
				soon = accountsRetry
			}
		}
		if soon > 0 && (again == 0 || soon < again) {
			again = soon
		}
	}
	slices.Sort(after)
	return after, again, nil
}

// patchAccounts writes them down on exactly this namespace.
func patchAccounts(namespace *corev1.Namespace, accounts []string) ([]byte, error) {
	var value any
	if len(accounts) > 0 {
		value = strings.Join(accounts, " ")
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": namespace.UID, "annotations": map[string]any{v1alpha1.AnnotationAccounts: value},
	}})
}
