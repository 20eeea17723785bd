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
	// reportInterval is the minimum time between two messages in the log about the number of a provider's offers.
	reportInterval = time.Minute
)

// errTooOften is returned for a local write that would exceed the rate for its provider.
var errTooOften = errors.New("the provider changes objects more often than they are written")

// pace limits the rate of the local writes that a provider causes, for each peer namespace and kind, and what too many
// offers cause. Its zero value has no writes yet.
type pace struct {
	mu       sync.Mutex
	limiters map[string]*rate.Limiter
	// crowded has, by peer namespace, the time until which its provider is known to have too many offers.
	crowded map[string]time.Time
}

// permit returns errTooOften if an object must not be written yet.
func (p *pace) permit(namespace string, like client.Object) error {
	if !p.allows(fmt.Sprintf("%s/%T", namespace, like), writeInterval, writesAtOnce) {
		return errTooOften
	}
	return nil
}

// mayReport reports whether a message about the number of a provider's offers may be logged.
func (p *pace) mayReport(namespace string) bool { return p.allows(namespace, reportInterval, 1) }

// crowd records that a provider has too many offers.
func (p *pace) crowd(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.crowded == nil {
		p.crowded = map[string]time.Time{}
	}
	p.crowded[namespace] = time.Now().Add(time.Second)
}

// isCrowded reports whether crowd was called within the last second.
func (p *pace) isCrowded(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.crowded[namespace])
}

func (p *pace) allows(key string, interval time.Duration, atOnce int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	limiter := p.limiters[key]
	if limiter == nil {
		limiter = rate.NewLimiter(rate.Every(interval), atOnce)
		if p.limiters == nil {
			p.limiters = map[string]*rate.Limiter{}
		}
		p.limiters[key] = limiter
	}
	return limiter.Allow()
}
