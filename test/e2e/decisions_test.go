// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/test/harness"
)

// providerPolicyDecides disables the incoming peering on milan. Then it makes milan leave rome's
// resource request pending, refuse it and accept it, by the value policy.autoAccept and by
// spec.incomingPolicy. Conditions on rome must report the reasons.
func providerPolicyDecides(t *testing.T) {
	first := deploysOnProvider(t, rome)
	before := first.traces(t)
	setsValues(t, milan, "policy.autoAccept=false", "policy.sharePercent=45")
	first.isUndisturbed(t, before, "disabling policy.autoAccept")

	patchesPeerOnMilan(t, `{"incoming":"Disabled"}`)
	peeringsAre(t, milan, "None", "None", "None")
	peeringsAre(t, rome, "Denied", "None", "Denied")
	outgoingPeeringReports(t, "it ended the peering", "request a new invitation")
	kubectl(t, rome, "delete", "foreigncluster", "milan", "--timeout=110s")
	kubectl(t, milan, "delete", "foreigncluster", "rome", "--timeout=110s")
	kubectl(t, rome, "delete", "namespace", first.namespace)
	deletesTokens(t)
	for _, cluster := range []*harness.Cluster{rome, milan} {
		isUnpeered(t, cluster)
	}

	accepts(t, rome, milan)
	outgoingPeeringReports(t, "waits for a decision", "spec.incomingPolicy.decision")
	peeringsAre(t, rome, "Pending", "None", "Established")
	patchesPeerOnMilan(t, `{"incomingPolicy":{"decision":"Refuse","reason":"no room before May"}}`)
	outgoingPeeringReports(t, "refuses", "no room before May")
	peeringsAre(t, rome, "Denied", "None", "Established")
	peeringsAre(t, milan, "None", "Denied", "Established")
	if _, err := rome.Kube.CoreV1().Nodes().Get(t.Context(), virtualNode,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a refused resource request has a virtual node: %v", err)
	}

	// Without spec.incomingPolicy, the value policy.autoAccept decides.
	patchesPeerOnMilan(t, `{"incomingPolicy":null}`)
	setsValues(t, milan, "policy.autoAccept=true")
	becomesReady(t)
	offersPercent(t, 45)
	second := deploysOnProvider(t, rome)
	before = second.traces(t)
	setsValues(t, milan, "policy.sharePercent=90")
	offersPercent(t, 90)
	second.isUndisturbed(t, before, "offering more")

	// The last command refuses.
	runsThePage(t, milan, "peerings.md#decide-who-is-a-peer", "no room before May", "sold out")
	outgoingPeeringReports(t, "refuses", "sold out")
	eventually(t, soon, "the virtual node to be gone", func(ctx context.Context) (bool, string, error) {
		_, err := rome.Kube.CoreV1().Nodes().Get(ctx, virtualNode, metav1.GetOptions{})
		return gone(err)
	})
	patchesPeerOnMilan(t, `{"incomingPolicy":{"decision":"Accept","reason":null}}`)
	becomesReady(t)
	podsReady(t, rome, second.namespace, "app=web", 2)
	podsReady(t, milan, second.remote, "app=web", 2)
}

// patchesPeerOnMilan patches the spec of rome's ForeignCluster on milan.
func patchesPeerOnMilan(t *testing.T, spec string) {
	t.Helper()
	kubectl(t, milan, "patch", "foreigncluster", "rome", "--type=merge", "-p", `{"spec":`+spec+`}`)
}

// outgoingPeeringReports waits until the condition OutgoingPeering on rome contains these words in
// this order.
func outgoingPeeringReports(t *testing.T, words ...string) {
	t.Helper()
	eventually(t, soon, "the condition OutgoingPeering to report: "+strings.Join(words, " … "),
		func(ctx context.Context) (bool, string, error) {
			result := rome.Kubectl(ctx, "get", "fc", "milan", "-o",
				`jsonpath={.status.conditions[?(@.type=="OutgoingPeering")].message}`)
			rest := result.Stdout
			for _, word := range words {
				var found bool
				if _, rest, found = strings.Cut(rest, word); !found {
					return false, result.Stdout, result.Err
				}
			}
			return true, "", nil
		})
}

func becomesReady(t *testing.T) {
	t.Helper()
	kubectl(t, rome, "wait", "foreigncluster/milan", "--for=condition=Ready", "--timeout=110s")
}
