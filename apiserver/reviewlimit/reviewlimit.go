// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reviewlimit limits the TokenReviews that clients with unknown tokens can cause. Every process that reaches a
// listener can send such tokens, and their reviews must not delay other requests of the listener to the API server.
package reviewlimit

import (
	"crypto/sha256"
	"net/netip"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// The reviews of new tokens from one source, the result of SourceOf, are also limited to sourceReviewsPerSecond,
	// with bursts of sourceReviewBurst, so that a client that tries many tokens does not use up the limit of other
	// clients. The limiters of the maxSources sources that were used last are cached.
	sourceReviewsPerSecond = 2
	sourceReviewBurst      = 50
	maxSources             = 1024
	// validTokenTTL is the time for which a token that was valid is exempt from the limits of new tokens, and for which
	// the limiter of an unused source is cached.
	validTokenTTL = time.Hour
)

// Key is a hash of a token, and of what else the result of its review depends on, for example a path.
type Key = [sha256.Size]byte

// Limiter limits reviews of tokens. Tokens that were valid within the last hour share a limit of their own; all other
// tokens are new tokens.
type Limiter struct {
	newTokens, validTokens *rate.Limiter
	// valid contains the Keys of tokens that were valid, and sources contains a rate.Limiter for each source.
	valid, sources *cache.LRUExpireCache
}

// New returns a limiter that permits perSecond reviews per second, with bursts of burst reviews, for all new tokens
// together, and separately as many for all valid tokens together. tokens is the maximum number of valid tokens whose
// Keys it stores.
func New(perSecond rate.Limit, burst, tokens int) *Limiter {
	return &Limiter{
		newTokens: rate.NewLimiter(perSecond, burst), validTokens: rate.NewLimiter(perSecond, burst),
		valid: cache.NewLRUExpireCache(tokens), sources: cache.NewLRUExpireCache(maxSources),
	}
}

// Allow reports whether a token from a source may be reviewed now. Source is the result of SourceOf.
func (l *Limiter) Allow(key Key, source string) bool {
	if _, ok := l.valid.Get(key); ok {
		return l.validTokens.Allow()
	}
	limiter, ok := l.sources.Get(source)
	if !ok {
		limiter = rate.NewLimiter(sourceReviewsPerSecond, sourceReviewBurst)
	}
	l.sources.Add(source, limiter, validTokenTTL)
	return limiter.(*rate.Limiter).Allow() && l.newTokens.Allow()
}

// Valid records that a token was valid.
func (l *Limiter) Valid(key Key) { l.valid.Add(key, true, validTokenTTL) }

// SourceOf returns the source of a client by its address and port: its IPv4 address, or the /64 network of its IPv6
// address, because a client can use any address of its network.
func SourceOf(address string) string {
	from, err := netip.ParseAddrPort(address)
	if err != nil {
		return address
	}
	a := from.Addr().Unmap()
	if a.Is4() {
		return a.String()
	}
	return netip.PrefixFrom(a.WithZone(""), 64).Masked().String()
}
