// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// obstacle is why the data of a claim cannot be moved from a provider.
type obstacle struct{ provider, why string }

// obstacles are what the verb move last answered, for the conditions that report it. After
// a restart the next request answers the same.
type obstacles struct {
	lock    sync.Mutex
	byClaim map[types.NamespacedName]obstacle
}

// set records why the data of a claim cannot be moved, or with an empty text that it can.
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

// reset forgets the obstacles of a provider, of one namespace or without one of all.
func (o *obstacles) reset(namespace, provider string) {
	o.lock.Lock()
	defer o.lock.Unlock()
	maps.DeleteFunc(o.byClaim, func(claim types.NamespacedName, one obstacle) bool {
		return one.provider == provider && (namespace == "" || claim.Namespace == namespace)
	})
}

// Obstacles returns, as sentences, why data on a provider cannot be moved, by claim.
// Without a namespace it returns those of all.
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

// maxObstacles bounds how many obstacles a condition reports.
const maxObstacles = 4
