// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"liqo.io/federation/apiserver/apis/federation"
)

func someGateway(letter string) *federation.PeeringGateway {
	return &federation.PeeringGateway{PublicKey: strings.Repeat(letter, 42) + "A=", Endpoints: []string{"192.0.2.1:51820"}}
}

// admission returns the Peering that an administrator of the provider POSTs to admit the consumer in-band.
func admission() *federation.Peering {
	return &federation.Peering{Spec: federation.PeeringSpec{
		Outgoing: federation.PeeringDisabled, Incoming: federation.PeeringEnabled, ClusterID: milanID,
		Mode: federation.PeeringInBand, Gateway: someGateway("a"),
	}}
}

func TestConsumerIsAdmittedThroughTheTunnelWithoutAnInvitation(t *testing.T) {
	w := newWorld()
	for range 2 {
		if _, err := w.post(t, admission()); err != nil {
			t.Fatal(err)
		}
	}
	cluster, _ := w.clusters.Stored("milan")
	spec := cluster.Spec
	if spec.Incoming != federation.PeeringEnabled || spec.Outgoing != federation.PeeringDisabled ||
		spec.Mode != federation.PeeringInBand ||
		spec.ClusterID != milanID || spec.Gateway == nil || spec.InvitationSecretName != "" || w.token(t) != "" {
		t.Errorf("%+v", spec)
	}
	another := admission()
	another.Spec.Gateway = someGateway("b")
	if _, err := w.post(t, another); !apierrors.IsConflict(err) {
		t.Errorf("another gateway: %v", err)
	}
}

func TestIncompleteInBandAdmissionIsInvalid(t *testing.T) {
	for name, change := range map[string]func(*federation.PeeringSpec){
		"out of band":                 func(s *federation.PeeringSpec) { s.Mode = federation.PeeringOutOfBand },
		"without a gateway":           func(s *federation.PeeringSpec) { s.Gateway = nil },
		"without an id":               func(s *federation.PeeringSpec) { s.ClusterID = "" },
		"without an incoming peering": func(s *federation.PeeringSpec) { s.Incoming = "" },
		"by an invitation": func(s *federation.PeeringSpec) {
			s.Outgoing, s.Server, s.Token = federation.PeeringEnabled, "https://kubernetes.default.svc", secretToken
		},
		"with a token":            func(s *federation.PeeringSpec) { s.Token = secretToken },
		"an invalid key":          func(s *federation.PeeringSpec) { s.Gateway.PublicKey = "key" },
		"an endpoint on loopback": func(s *federation.PeeringSpec) { s.Gateway.Endpoints = []string{"127.0.0.1:51820"} },
	} {
		t.Run(name, func(t *testing.T) {
			w, peering := newWorld(), admission()
			change(&peering.Spec)
			if _, err := w.post(t, peering); !apierrors.IsInvalid(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAdmittingAConsumerKeepsTheOutgoingPeering(t *testing.T) {
	w := newWorld()
	if _, err := w.post(t, &federation.Peering{Spec: federation.PeeringSpec{ClusterID: milanID,
		Server: "https://milan.example.org", Token: secretToken}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.post(t, admission()); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "spec.mode") {
		t.Errorf("got %v", err)
	}
	if cluster, _ := w.clusters.Stored("milan"); cluster.Spec.Mode == federation.PeeringInBand ||
		cluster.Spec.Incoming == federation.PeeringEnabled {
		t.Errorf("%+v", cluster.Spec)
	}
}

func TestResponseHasTheCommandThatAdmitsThisCluster(t *testing.T) {
	w := newWorld()
	peering := &federation.Peering{Spec: federation.PeeringSpec{
		ClusterID: milanID, Server: "https://kubernetes.default.svc", Token: secretToken, Mode: federation.PeeringInBand,
		Gateway: someGateway("a"),
	}}
	answer, err := w.post(t, peering)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Status.Command != "" {
		t.Errorf("before status has the local gateway: %s", answer.Status.Command)
	}
	cluster, _ := w.clusters.Stored("milan")
	cluster.Status.Gateway = someGateway("b")
	command := w.show(cluster).Status.Command
	for _, part := range []string{"'/apis/federation.liqo.io/v1alpha1/foreignclusters/rome/peer'",
		`"clusterID":"` + romeID + `"`, `"incoming":"Enabled"`, `"outgoing":"Disabled"`, strings.Repeat("b", 42)} {
		if !strings.Contains(command, part) {
			t.Errorf("%s is not in %s", part, command)
		}
	}
	if strings.Contains(command, secretToken) {
		t.Error("the command contains the token")
	}
	cluster.Spec.Mode = federation.PeeringOutOfBand
	if command := w.show(cluster).Status.Command; command != "" {
		t.Errorf("out of band: %s", command)
	}
}

func TestOlderClientsDoNotEndTheTunnel(t *testing.T) {
	w := newWorld()
	if _, err := w.post(t, admission()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.patch(t, func(p *federation.Peering) {
		p.Spec.Incoming, p.Spec.Mode, p.Spec.Gateway = "", "",
			nil
	}); err != nil {
		t.Fatal(err)
	}
	if cluster, _ := w.clusters.Stored("milan"); cluster.Spec.Incoming != federation.PeeringEnabled ||
		cluster.Spec.Gateway == nil {
		t.Errorf("%+v", cluster.Spec)
	}
	if _, err := w.patch(t,
		func(p *federation.Peering) { p.Spec.Incoming = federation.PeeringDisabled }); !apierrors.IsInvalid(err) {
		t.Errorf("the subresource disables the incoming peering: %v", err)
	}
}
