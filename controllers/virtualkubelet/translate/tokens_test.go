// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestTokensAreRequestedPerVolumeAndBoundToThePod(t *testing.T) {
	bound := &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "web", UID: "uid"}
	want := []Token{
		{Key: "token-1-0", Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}},
		{
			Key: "token-2-1",
			Spec: authenticationv1.TokenRequestSpec{
				Audiences:         []string{"vault"},
				ExpirationSeconds: ptr.To[int64](600),
				BoundObjectRef:    bound,
			},
		},
	}
	if diff := cmp.Diff(want, Tokens(client())); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}

func TestTokenSecretIsOwnedByItsShadowPod(t *testing.T) {
	pod := client()
	shadow := ShadowPod(pod, "demo-rome", withConsumerAPI("192.0.2.7"), nil)
	shadow.UID = "shadow"
	at := time.Date(2030, 1, 1, 12, 0, 0, 0, time.FixedZone("", 3600))
	got := TokenSecret(pod, shadow, map[string]string{"token-1-0": "a.b.c"}, at, destination)
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo-rome",
			Name:      "tokens-uid",
			Labels: map[string]string{
				"offloading.liqo.io/origin":       "rome-id",
				"offloading.liqo.io/destination":  "milan-id",
				"offloading.liqo.io/virtual-node": "liqo-milan",
			},
			Annotations: map[string]string{
				"offloading.liqo.io/origin-namespace": "demo",
				"offloading.liqo.io/renew-after":      "2030-01-01T11:00:00Z",
			},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "federation.liqo.io/v1alpha1", Kind: "ShadowPod", Name: "web", UID: "shadow"},
			},
		},
		Type: "federation.liqo.io/tokens",
		Data: map[string][]byte{"token-1-0": []byte("a.b.c")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
	if !RenewAfter(got).Equal(at) || TokenOwner(got).UID != "shadow" {
		t.Errorf("renewed at %s, owned by %v", RenewAfter(got), TokenOwner(got))
	}
	got.Namespace = "demo"
	if Secret(got, "demo-rome", destination) != nil {
		t.Error("reflection would change or delete the Secret")
	}
}

func TestMalformedRenewalTimeRenewsAtOnce(t *testing.T) {
	for _, value := range []string{"", "tomorrow", "2030-13-01T00:00:00Z"} {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationRenewAfter: value}},
		}
		if at := RenewAfter(secret); !at.IsZero() {
			t.Errorf("%q is %s", value, at)
		}
	}
	if owner := TokenOwner(&corev1.Secret{}); owner.Name != "" {
		t.Errorf("a Secret without owner belongs to %v", owner)
	}
}

func TestTokensAreRenewedAfterFourFifthsOfTheirLifetime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		issued := time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "issued"), 0)
		life := time.Duration(rapid.Int64Range(600, 1<<32).Draw(t, "life in seconds")) * time.Second
		age := Renewal(issued, issued.Add(life), rapid.Float64Range(0, 1).Draw(t, "chance")).Sub(issued)
		latest := min(time.Duration(float64(life)*0.8), 24*time.Hour)
		if age > latest || age < latest*9/10-time.Second {
			t.Fatalf("a token with lifetime %s is renewed after %s", life, age)
		}
	})
}
