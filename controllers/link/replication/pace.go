// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// writesAtOnce is the number of local writes that objects of one kind of a provider cause without a delay. Later ones
	// are at least writeInterval apart. Each write of an offer may also cause one of the VirtualNode and of the Node.
	writesAtOnce  = 20
	writeInterval = time.Second
)

// errTooOften is returned for a local write that would exceed the rate for its provider.
var errTooOften = errors.New("the provider changes objects more often than they are written")

// pace limits the rate of the local writes that a provider causes, for each peer namespace and kind. Its zero value has
// no writes yet.
type pace struct {
	mu       sync.Mutex
	limiters map[string]*rate.Limiter
}

// permit returns errTooOften if an object must not be written yet.
func (p *pace) permit(namespace string, like client.Object) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := fmt.Sprintf("%s/%T", namespace, like)
	limiter := p.limiters[key]
	if limiter == nil {
		limiter = rate.NewLimiter(rate.Every(writeInterval), writesAtOnce)
		if p.limiters == nil {
			p.limiters = map[string]*rate.Limiter{}
		}
		p.limiters[key] = limiter
	}
	if !limiter.Allow() {
		return errTooOften
	}
	return nil
}
