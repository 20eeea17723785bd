// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// orphansAreRemovedByTheProvider partitions the clusters for longer than milan's orphanTTL. Milan
// must delete rome's objects. When rome is connected again, it must report the revoked identity and
// be able to unpeer.
func orphansAreRemovedByTheProvider(t *testing.T) {
	o := offloaded(t, remoteOnly)
	runDeployment(t, o.namespace, "web", 2, podSpec("serve"))
	runsThePage(t, milan, "peerings.md#heartbeats")
	kubectl(t, milan, "patch", "foreigncluster", "rome", "--type=merge", "-p",
		`{"spec":{"disconnectTimeoutSeconds":5,"incomingPolicy":{"orphanTTL":"1m"}}}`)
	cut(t)
	// This takes the TTL, up to 20 seconds until the next check, and the time in which the pods
	// terminate.
	eventually(t, 2*soon, "ForeignCluster rome to be deleted", func(ctx context.Context) (bool, string, error) {
		fc, err := milan.Federation.FederationV1alpha1().ForeignClusters().Get(ctx, "rome", metav1.GetOptions{})
		if err == nil {
			return false, show(fc.Status), nil
		}
		return gone(err)
	})
	deletesTokens(t)
	isUnpeered(t, milan)
	events := kubectl(t, milan, "get", "events", "--field-selector", "involvedObject.kind=ForeignCluster", "-o",
		"custom-columns=R:.reason")
	if !strings.Contains(events, "OrphanTTLExpired") {
		t.Errorf("the events on milan lack the reason:\n%s", events)
	}

	if err := playground.Heal(t.Context(), "rome", "milan"); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "rome to report the revoked identity", func(ctx context.Context) (bool, string, error) {
		fc, err := rome.Federation.FederationV1alpha1().ForeignClusters().Get(ctx, "milan", metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		outgoing := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionOutgoingPeering)
		return outgoing.Reason == "IdentityRevoked" && strings.Contains(outgoing.Message, "ended the peering"),
			show(fc.Status), nil
	})
	// The virtual kubelet cannot observe the end of the pods any more, so unpeering waits for its
	// timeout.
	kubectl(t, rome, "delete", "--raw", group+"foreignclusters/milan/peer?gracePeriodSeconds=15")
	eventually(t, soon, "ForeignCluster milan to be deleted", func(ctx context.Context) (bool, string, error) {
		fc, err := rome.Federation.FederationV1alpha1().ForeignClusters().Get(ctx, "milan", metav1.GetOptions{})
		if err == nil {
			return false, show(fc.Status), nil
		}
		return gone(err)
	})
	kubectl(t, rome, "delete", "namespace", o.namespace)
	isUnpeered(t, rome)
}
