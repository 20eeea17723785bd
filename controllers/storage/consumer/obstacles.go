// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// obstacle is the reason why the data of a claim cannot be moved from a provider.
type obstacle struct{ provider, why string }

// obstacles are the last responses of the verb move, for the conditions that report them. After a
// restart the next request has the same response.
type obstacles struct {
	lock    sync.Mutex
	byClaim map[types.NamespacedName]obstacle
}

// set records the reason why the data of a claim cannot be moved; empty removes it.
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

// reset removes the obstacles of a provider in a namespace; an empty namespace selects all.
func (o *obstacles) reset(namespace, provider string) {
	o.lock.Lock()
	defer o.lock.Unlock()
	maps.DeleteFunc(o.byClaim, func(claim types.NamespacedName, one obstacle) bool {
		return one.provider == provider && (namespace == "" || claim.Namespace == namespace)
	})
}

// Obstacles returns, as sentences, the reasons why data of a namespace on a provider cannot be
// moved; an empty namespace selects all.
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

// maxObstacles bounds the obstacles that a condition reports.
const maxObstacles = 4
