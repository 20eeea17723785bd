// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peeringtoken

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
)

func TestInBandInvitationHasTheGatewayAndNoServer(t *testing.T) {
	gateway := &federation.PeeringGateway{PublicKey: strings.Repeat("a", 42) + "A=",
		Endpoints: []string{"192.0.2.1:51820"}}
	unreachable := Provider{ClusterName: "milan", ClusterID: provider.ClusterID}
	for name, test := range map[string]struct {
		change func(*federation.PeeringToken)
		wrong  func(error) bool
	}{
		"gateway is published":     {func(token *federation.PeeringToken) { token.Status.Gateway = gateway }, nil},
		"gateway is not published": {func(*federation.PeeringToken) {}, apierrors.IsTooManyRequests},
		"invitation was used": {func(token *federation.PeeringToken) { token.Status.Used = true },
			apierrors.IsConflict},
		"out of band": {func(token *federation.PeeringToken) { token.Spec.Mode = "" }, apierrors.IsConflict},
	} {
		t.Run(name, func(t *testing.T) {
			token := peeringToken(func(token *federation.PeeringToken) { token.Spec.Mode = federation.PeeringInBand },
				test.change)
			r, _, _ := newVerb(t, token, created.Add(time.Minute), unreachable)
			obj, err := r.Create(t.Context(), "for-rome", &federation.Invitation{}, rest.ValidateAllObjectFunc,
				&metav1.CreateOptions{})
			if test.wrong != nil {
				if !test.wrong(err) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			status := obj.(*federation.Invitation).Status
			if errs := validation.ValidateNewPeering(status.Peering, "milan"); len(errs) > 0 {
				t.Errorf("its peering cannot be POSTed: %v", errs)
			}
			if errs := validation.ValidateForeignCluster(status.ForeignCluster); len(errs) > 0 {
				t.Errorf("its foreign cluster cannot be applied: %v", errs)
			}
			for _, part := range []string{`"mode":"InBand"`, gateway.PublicKey, "https://kubernetes.default.svc"} {
				if !strings.Contains(status.Command, part) {
					t.Errorf("%s is not in the command", part)
				}
			}
		})
	}
}
