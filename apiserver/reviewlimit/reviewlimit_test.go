// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reviewlimit

import (
	"crypto/sha256"
	"fmt"
	"testing"
)

func key(token string) Key { return sha256.Sum256([]byte(token)) }

func TestUnknownTokensAreLimitedPerSourceAndInAll(t *testing.T) {
	limiter := New(0, 2*sourceReviewBurst, 10)
	allowed := func(source string) (count int) {
		for i := range 3 * sourceReviewBurst {
			if limiter.Allow(key(fmt.Sprint("guess-", source, i)), source) {
				count++
			}
		}
		return count
	}
	for _, test := range []struct {
		source string
		want   int
	}{{"10.0.0.1", sourceReviewBurst}, {"10.0.0.1", 0}, {"10.0.0.2", sourceReviewBurst}, {"10.0.0.3", 0}} {
		if got := allowed(test.source); got != test.want {
			t.Errorf("%d reviews for %s, want %d", got, test.source, test.want)
		}
	}
}

func TestTokensThatWereValidAreNotDelayedByOthers(t *testing.T) {
	limiter := New(0, 1, 10)
	limiter.Valid(key("valid"))
	for _, test := range []struct {
		token string
		want  bool
	}{{"guess", true}, {"guess", false}, {"valid", true}, {"valid", false}} {
		if got := limiter.Allow(key(test.token), "10.0.0.1"); got != test.want {
			t.Errorf("%s: allowed %t, want %t", test.token, got, test.want)
		}
	}
}

// A client can use every address of its IPv6 network.
func TestSourcesAreIPv4AddressesAndIPv6Networks(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.1:4711":          "10.0.0.1",
		"[::ffff:10.0.0.1]:4711": "10.0.0.1",
		"[fd00:1:2:3::4]:4711":   "fd00:1:2:3::/64",
		"[fe80::1%eth0]:4711":    "fe80::/64",
		"not-an-address":         "not-an-address",
	} {
		if got := SourceOf(address); got != want {
			t.Errorf("SourceOf(%s) = %s, want %s", address, got, want)
		}
	}
}
