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

// providerDecides is the provider's side of a peering: milan takes back what
// it lends, and then has rome wait, says no, and yes, by its policy and by its
// administrator's word. Rome is told why, in words.
func providerDecides(t *testing.T) {
	first := deploysNextDoor(t, rome)
	before := first.traces(t)
	setsValues(t, milan, "policy.autoAccept=false", "policy.sharePercent=45")
	first.isUndisturbed(t, before, "asks to be asked from now on")

	milanSays(t, `{"incoming":"Disabled"}`)
	peeringsAre(t, milan, "None", "None", "None")
	peeringsAre(t, rome, "Denied", "None", "Denied")
	isTold(t, "it ended the peering", "request a new invitation")
	kubectl(t, rome, "delete", "foreigncluster", "milan", "--timeout=110s")
	kubectl(t, milan, "delete", "foreigncluster", "rome", "--timeout=110s")
	kubectl(t, rome, "delete", "namespace", first.namespace)
	deletesTokens(t)
	for _, cluster := range []*harness.Cluster{rome, milan} {
		isUnpeered(t, cluster)
	}

	accepts(t, rome, milan)
	isTold(t, "has to decide", "spec.incomingPolicy.decision")
	peeringsAre(t, rome, "Pending", "None", "Established")
	milanSays(t, `{"incomingPolicy":{"decision":"Refuse","reason":"no room before May"}}`)
	isTold(t, "refuses", "no room before May")
	peeringsAre(t, rome, "Denied", "None", "Established")
	peeringsAre(t, milan, "None", "Denied", "Established")
	if _, err := rome.Kube.CoreV1().Nodes().Get(t.Context(), virtualNode, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("there is a virtual node of what milan refuses: %v", err)
	}

	// Another policy is another answer, as soon as nobody stands by the old one.
	milanSays(t, `{"incomingPolicy":null}`)
	setsValues(t, milan, "policy.autoAccept=true")
	becomesReady(t)
	lendsPercent(t, 45)
	second := deploysNextDoor(t, rome)
	before = second.traces(t)
	setsValues(t, milan, "policy.sharePercent=90")
	lendsPercent(t, 90)
	second.isUndisturbed(t, before, "lends more")

	milanSays(t, `{"incomingPolicy":{"decision":"Refuse","reason":"sold out"}}`)
	isTold(t, "refuses", "sold out")
	eventually(t, soon, "the virtual node to be gone", func(ctx context.Context) (bool, string, error) {
		_, err := rome.Kube.CoreV1().Nodes().Get(ctx, virtualNode, metav1.GetOptions{})
		return gone(err)
	})
	milanSays(t, `{"incomingPolicy":{"decision":"Accept","reason":null}}`)
	becomesReady(t)
	podsReady(t, rome, second.namespace, "app=web", 2)
	podsReady(t, milan, second.twin, "app=web", 2)
}

// milanSays changes what milan's administrator wants of rome.
func milanSays(t *testing.T, spec string) {
	t.Helper()
	kubectl(t, milan, "patch", "foreigncluster", "rome", "--type=merge", "-p", `{"spec":`+spec+`}`)
}

// isTold waits until rome shows why it borrows nothing, in these words.
func isTold(t *testing.T, words ...string) {
	t.Helper()
	eventually(t, soon, "rome to be told: "+strings.Join(words, " … "), func(ctx context.Context) (bool, string, error) {
		result := rome.Kubectl(ctx, "get", "fc", "milan", "-o", `jsonpath={.status.conditions[?(@.type=="OutgoingPeering")].message}`)
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
