// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// idlePeriod is longer than everything that we do periodically but for the
// check of a virtual node's lease.
const idlePeriod = 30 * time.Second

// heartbeats are the writes of a system in which nothing happens, and reviews
// change nothing.
var heartbeats = sets.New("leases", "nodes/status", "subjectaccessreviews", "tokenreviews", "selfsubjectaccessreviews")

// idlesQuietly waits until nothing of ours has written anything beside
// heartbeats for a while: peered clusters, with a pod offloaded, that nobody
// asks anything.
func idlesQuietly(t *testing.T) {
	o := offloaded(t, remote)
	runReadyPod(t, o.namespace, "web", podSpec("serve"))
	since := time.Now()
	eventually(t, soon+idlePeriod, "nobody of ours to write for "+idlePeriod.String(), func(ctx context.Context) (bool, string, error) {
		last, by := since, "nothing"
		for _, cluster := range []*harness.Cluster{rome, milan} {
			requests, err := cluster.Requests(ctx)
			if err != nil {
				return false, "", err
			}
			for _, r := range requests {
				if r.Received.After(last) && isOurs(r) && isWrite(r) {
					last, by = r.Received, r.User+" on "+r.Cluster+": "+r.Verb+" "+r.Resource
				}
			}
		}
		return time.Since(last) >= idlePeriod, by + " at " + last.String(), nil
	})
	givesSignsOfLife(t, idlePeriod)
}

// givesSignsOfLife makes sure that rome, as a peer, renews its Lease on milan
// now and then, and not more often.
func givesSignsOfLife(t *testing.T, period time.Duration) {
	t.Helper()
	// The log goes on while it is read.
	now, signs := time.Now(), 0
	since := now.Add(-period)
	for _, r := range must(milan.Requests(t.Context()))(t) {
		if r.Received.After(since) && r.Received.Before(now) && r.Resource == "leases" && r.Verb == "patch" && slices.Contains(r.Groups, v1alpha1.PeerGroup) {
			signs++
		}
	}
	if signs < 1 || signs > 2 {
		t.Errorf("rome gave milan %d signs of life in %s", signs, period)
	}
}

func isOurs(r harness.Request) bool {
	return strings.HasPrefix(r.User, "system:serviceaccount:"+harness.Namespace) || slices.Contains(r.Groups, v1alpha1.PeerGroup)
}

func isWrite(r harness.Request) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb) && !heartbeats.Has(r.Resource)
}
