// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	kubeinformers "k8s.io/client-go/informers"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/informers/externalversions"
	"liqo.io/federation/test/fakes"
)

// The ranges of a cluster may be detected after the invitation was created.
func TestInBandInvitationsNameTheGatewayOnceRangesAreKnown(t *testing.T) {
	w := newWorld(t, "milan", milanID, "rome", romeID, settingsOf("10.0.0.0/16"))
	fakes.Followed(w.kube)
	fakes.Followed(w.federation)
	config := *w.Config
	config.FederationInformers = externalversions.NewSharedInformerFactory(w.federation, 0)
	config.SecretInformers = kubeinformers.NewSharedInformerFactory(w.kube, 0)
	controller, err := NewInvitations(&config)
	if err != nil {
		t.Fatal(err)
	}
	config.FederationInformers.StartWithContext(t.Context())
	config.SecretInformers.StartWithContext(t.Context())
	config.FederationInformers.WaitForCacheSync(t.Context().Done())
	config.SecretInformers.WaitForCacheSync(t.Context().Done())
	go controller.Run(t.Context())

	tokens := w.federation.FederationV1alpha1().PeeringTokens()
	w.do(tokens.Create(t.Context(), &v1alpha1.PeeringToken{
		ObjectMeta: metav1.ObjectMeta{Name: "for-rome"}, Spec: v1alpha1.PeeringTokenSpec{Mode: v1alpha1.PeeringInBand},
	}, createOptions))
	info := w.info()
	w.do(w.federation.FederationV1alpha1().ClusterInfos().Create(t.Context(), &info, createOptions))

	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		token, err := tokens.Get(ctx, "for-rome", metav1.GetOptions{})
		return err == nil && token.Status.Gateway != nil && token.Status.Gateway.PublicKey != "", err
	})
	if err != nil {
		t.Errorf("the invitation does not name the gateway: %v", err)
	}
}
