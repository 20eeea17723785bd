// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// obstacle is the reason why the data of a claim cannot be moved away from a provider.
type obstacle struct{ provider, why string }

// obstacles holds in memory, for each claim, the last error of the verb move, for conditions that report it. After a
// restart, the next request of the move fails again and sets the error again.
type obstacles struct {
	lock    sync.Mutex
	byClaim map[types.NamespacedName]obstacle
}

// set records the reason why the data of a claim cannot be moved; empty removes the reason.
func (o *obstacles) set(claim types.NamespacedName, provider, why string) {
	o.lock.Lock()
	defer o.lock.Unlock()
	if why == "" {
		delete(o.byClaim, claim)
		return
	}
	if o.byClaim == nil {
		o.byClaim = map[types.NamespacedName]obstacle{}
	}
	o.byClaim[claim] = obstacle{provider, why}
}

// reset removes the obstacles of a provider in one namespace; an empty namespace means all namespaces.
func (o *obstacles) reset(namespace, provider string) {
	o.lock.Lock()
	defer o.lock.Unlock()
	maps.DeleteFunc(o.byClaim, func(claim types.NamespacedName, one obstacle) bool {
		return one.provider == provider && (namespace == "" || claim.Namespace == namespace)
	})
}

// Obstacles returns sentences about why data in a namespace cannot be moved away from a provider: in alphabetical
// order, and at most maxObstacles. An empty namespace means all namespaces.
func (u *Unoffloader) Obstacles(namespace, provider string) []string {
	u.obstacles.lock.Lock()
	defer u.obstacles.lock.Unlock()
	var texts []string
	for claim, one := range u.obstacles.byClaim {
		if one.provider == provider && (namespace == "" || claim.Namespace == namespace) {
			texts = append(texts, "The data of "+claim.String()+" is not moved: "+one.why)
		}
	}
	slices.Sort(texts)
	return texts[:min(len(texts), maxObstacles)]
}

// maxObstacles is the maximum number of obstacles in the message of a condition.
const maxObstacles = 4
