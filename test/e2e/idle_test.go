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

// idlePeriod is longer than the intervals of all periodic writes of the product.
const idlePeriod = 30 * time.Second

// heartbeats are the resources that idle components may write: Leases and Node statuses, which are
// renewed periodically, and reviews, which store nothing.
var heartbeats = sets.New("leases", "nodes/status", "subjectaccessreviews", "tokenreviews", "selfsubjectaccessreviews")

// writesOnlyHeartbeatsWhenIdle waits until the components of two peered clusters with an offloaded
// pod have written only heartbeats for idlePeriod.
func writesOnlyHeartbeatsWhenIdle(t *testing.T) {
	o := offloaded(t, remoteOnly)
	runReadyPod(t, o.namespace, "web", podSpec("serve"))
	since := time.Now()
	eventually(t, soon+idlePeriod, "no component to write for "+idlePeriod.String(),
		func(ctx context.Context) (bool, string, error) {
			last, by := since, "nothing"
			for _, cluster := range []*harness.Cluster{rome, milan} {
				requests, err := cluster.Requests(ctx)
				if err != nil {
					return false, "", err
				}
				for _, r := range requests {
					if r.Received.After(last) && isOfComponent(r) && isWrite(r) {
						last, by = r.Received, r.User+" on "+r.Cluster+": "+r.Verb+" "+r.Resource
					}
				}
			}
			return time.Since(last) >= idlePeriod, by + " at " + last.String(), nil
		})
	renewsHeartbeat(t, idlePeriod)
}

// renewsHeartbeat fails the test unless rome renewed its Lease on milan once or twice in the last
// period.
func renewsHeartbeat(t *testing.T, period time.Duration) {
	t.Helper()
	// Requests that are logged after this moment are not counted.
	now, renewals := time.Now(), 0
	since := now.Add(-period)
	for _, r := range must(milan.Requests(t.Context()))(t) {
		if r.Received.After(since) && r.Received.Before(now) && r.Resource == "leases" && r.Verb == "patch" &&
			slices.Contains(r.Groups, v1alpha1.PeerGroup) {
			renewals++
		}
	}
	if renewals < 1 || renewals > 2 {
		t.Errorf("rome renewed its heartbeat %d times in %s, want 1 or 2", renewals, period)
	}
}

func isOfComponent(r harness.Request) bool {
	return strings.HasPrefix(r.User, "system:serviceaccount:"+harness.Namespace) ||
		slices.Contains(r.Groups, v1alpha1.PeerGroup)
}

func isWrite(r harness.Request) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb) &&
		!heartbeats.Has(r.Resource)
}
