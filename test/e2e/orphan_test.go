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

// orphansAreRemovedByTheProvider cuts rome off for longer than milan keeps what
// it runs there. Milan gets clean by itself; when rome is back it is told, and
// leaves as well.
func orphansAreRemovedByTheProvider(t *testing.T) {
	o := offloaded(t, remote)
	runDeployment(t, o.namespace, "web", 2, podSpec("serve"))
	kubectl(t, milan, "wait", "--for=condition=ConsumerAlive", "foreigncluster/rome", "--timeout=110s")
	kubectl(t, milan, "patch", "foreigncluster", "rome", "--type=merge", "-p", `{"spec":{"disconnectTimeoutSeconds":5,"incomingPolicy":{"orphanTTL":"1m"}}}`)
	cut(t)
	// A minute of silence, twenty seconds until somebody looks, and the end of
	// the pods.
	eventually(t, 2*soon, "rome to be forgotten on milan", func(ctx context.Context) (bool, string, error) {
		fc, err := milan.Federation.FederationV1alpha1().ForeignClusters().Get(ctx, "rome", metav1.GetOptions{})
		if err == nil {
			return false, show(fc.Status), nil
		}
		return gone(err)
	})
	deletesTokens(t)
	isUnpeered(t, milan)
	events := kubectl(t, milan, "get", "events", "--field-selector", "involvedObject.kind=ForeignCluster", "-o", "custom-columns=R:.reason")
	if !strings.Contains(events, "OrphanTTLExpired") {
		t.Errorf("the events on milan do not say why:\n%s", events)
	}

	if err := playground.Heal(t.Context(), "rome", "milan"); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "rome to be told", func(ctx context.Context) (bool, string, error) {
		fc, err := rome.Federation.FederationV1alpha1().ForeignClusters().Get(ctx, "milan", metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		outgoing := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionOutgoingPeering)
		return outgoing.Reason == "IdentityRevoked" && strings.Contains(outgoing.Message, "ended the peering"), show(fc.Status), nil
	})
	// Its virtual kubelet cannot see what became of the pods: that ends by the
	// deadline.
	kubectl(t, rome, "delete", "--raw", group+"foreignclusters/milan/peer?gracePeriodSeconds=15")
	eventually(t, soon, "milan to be forgotten on rome", func(ctx context.Context) (bool, string, error) {
		fc, err := rome.Federation.FederationV1alpha1().ForeignClusters().Get(ctx, "milan", metav1.GetOptions{})
		if err == nil {
			return false, show(fc.Status), nil
		}
		return gone(err)
	})
	kubectl(t, rome, "delete", "namespace", o.namespace)
	isUnpeered(t, rome)
}
