// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"liqo.io/federation/apiserver/apis/federation"
)

type fixedLevel auditinternal.Level

func (l fixedLevel) EvaluatePolicyRule(authorizer.Attributes) audit.RequestAuditConfig {
	return audit.RequestAuditConfig{Level: auditinternal.Level(l)}
}

func TestAuditLogHasNoBodiesWithTokens(t *testing.T) {
	tests := map[string]struct {
		group, resource, subresource string
		policy, want                 auditinternal.Level
	}{
		"an accepted invitation":              {federation.GroupName, "foreignclusters", "peer", auditinternal.LevelRequestResponse, auditinternal.LevelMetadata},
		"an issued invitation":                {federation.GroupName, "peeringtokens", "invitation", auditinternal.LevelRequest, auditinternal.LevelMetadata},
		"a policy with a lower level":         {federation.GroupName, "foreignclusters", "peer", auditinternal.LevelNone, auditinternal.LevelNone},
		"a foreign cluster itself":            {federation.GroupName, "foreignclusters", "", auditinternal.LevelRequestResponse, auditinternal.LevelRequestResponse},
		"the status of a foreign cluster":     {federation.GroupName, "foreignclusters", "status", auditinternal.LevelRequestResponse, auditinternal.LevelRequestResponse},
		"a resource that has no secrets":      {federation.GroupName, "shadowpods", "", auditinternal.LevelRequest, auditinternal.LevelRequest},
		"the same name in another group":      {"example.com", "foreignclusters", "peer", auditinternal.LevelRequest, auditinternal.LevelRequest},
		"a subresource of the other resource": {federation.GroupName, "foreignclusters", "invitation", auditinternal.LevelRequest, auditinternal.LevelRequest},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			evaluator := withoutSecrets{fixedLevel(test.policy)}
			got := evaluator.EvaluatePolicyRule(authorizer.AttributesRecord{
				ResourceRequest: true, APIGroup: test.group, Resource: test.resource, Subresource: test.subresource,
			})
			if got.Level != test.want {
				t.Errorf("got level %s, want %s", got.Level, test.want)
			}
		})
	}
}

// written is an audit backend that records the events that it receives.
type written struct {
	audit.Backend
	events []*auditinternal.Event
}

func (w *written) ProcessEvents(events ...*auditinternal.Event) bool {
	w.events = append(w.events, events...)
	return true
}

func TestAuditLogHasNoErrorsOfRequestsWithTokens(t *testing.T) {
	refused := func(resource, subresource string) *auditinternal.Event {
		return &auditinternal.Event{
			ObjectRef: &auditinternal.ObjectReference{APIGroup: federation.GroupName, Resource: resource,
				Subresource: subresource},
			ResponseStatus: &metav1.Status{Code: 422, Reason: metav1.StatusReasonInvalid, Message: "it is a secret",
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: "it is a secret"}}}},
		}
	}
	log := &written{}
	secret, other, bare := refused("foreignclusters", "peer"), refused("foreignclusters", ""), &auditinternal.Event{}
	withoutRefusals{log}.ProcessEvents(secret, other, bare)
	if got := log.events[0].ResponseStatus; got.Message != "" || got.Details != nil || got.Code != 422 ||
		got.Reason != metav1.StatusReasonInvalid {
		t.Errorf("the log has %+v", got)
	}
	if secret.ResponseStatus.Message == "" {
		t.Error("the event of the caller was changed")
	}
	if log.events[1] != other || log.events[2] != bare {
		t.Error("an event without a token was changed")
	}
}
