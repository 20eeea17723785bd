// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

func tokenOf(name string, mode v1alpha1.PeeringMode) *v1alpha1.PeeringToken {
	return &v1alpha1.PeeringToken{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PeeringTokenSpec{Mode: mode}}
}

func gatewayOf(w *world, token string) *v1alpha1.PeeringGateway {
	return kittest.Read(w.Cluster, "", token, &v1alpha1.PeeringToken{}).Status.Gateway
}

func TestAnInBandInvitationNamesTheGateway(t *testing.T) {
	w := newWorld(t, "milan", milanID, "rome", romeID, settingsOf("10.0.0.0/16"))
	r := &InvitationReconciler{Local: w.r.Local}
	w.publish()
	w.put(tokenOf("in", v1alpha1.PeeringInBand), tokenOf("out", v1alpha1.PeeringOutOfBand))
	for range 3 {
		for _, name := range []string{"in", "out"} {
			if _, err := r.Reconcile(t.Context(), kit.Request("", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, want := range map[string]*v1alpha1.PeeringGateway{
		"in": {PublicKey: publicKeyOf(w), Endpoints: []string{"gateway.example.org:51820"}}, "out": nil,
	} {
		if diff := cmp.Diff(want, gatewayOf(w, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The ranges of a cluster may be detected after the invitation was created.
func TestInBandInvitationsNameTheGatewayOnceRangesAreKnown(t *testing.T) {
	w := newWorld(t, "milan", milanID, "rome", romeID, settingsOf("10.0.0.0/16"))
	r := &InvitationReconciler{Local: w.r.Local}
	w.put(tokenOf("for-rome", v1alpha1.PeeringInBand))
	if _, err := r.Reconcile(t.Context(), kit.Request("", "for-rome")); err != nil {
		t.Fatal(err)
	}
	if got := gatewayOf(w, "for-rome"); got != nil {
		t.Fatalf("without ranges it names %v", got)
	}
	w.publish()
	if _, err := r.Reconcile(t.Context(), kit.Request("", "for-rome")); err != nil {
		t.Fatal(err)
	}
	if got := gatewayOf(w, "for-rome"); got == nil || got.PublicKey == "" {
		t.Errorf("the invitation does not name the gateway: %v", got)
	}
}
