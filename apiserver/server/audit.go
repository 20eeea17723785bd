// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"liqo.io/federation/apiserver/apis/federation"
)

// secretSubresources are those whose bodies carry tokens.
var secretSubresources = map[string]string{
	"foreignclusters": "peer",
	"peeringtokens":   "invitation",
}

// withoutSecrets keeps the bodies that carry tokens out of the audit log,
// whatever the audit policy says.
type withoutSecrets struct {
	audit.PolicyRuleEvaluator
}

// carriesToken tells whether the bodies of a subresource carry tokens.
func carriesToken(group, resource, subresource string) bool {
	return group == federation.GroupName && subresource != "" && secretSubresources[resource] == subresource
}

// EvaluatePolicyRule caps the level of requests that carry tokens at Metadata.
func (e withoutSecrets) EvaluatePolicyRule(attributes authorizer.Attributes) audit.RequestAuditConfig {
	config := e.PolicyRuleEvaluator.EvaluatePolicyRule(attributes)
	if carriesToken(attributes.GetAPIGroup(), attributes.GetResource(), attributes.GetSubresource()) && auditinternal.LevelMetadata.Less(config.Level) {
		config.Level = auditinternal.LevelMetadata
	}
	return config
}

// withoutRefusals keeps out of the audit log what requests that carry tokens
// were refused with, because some errors repeat the request. The code and the
// reason stay.
type withoutRefusals struct {
	audit.Backend
}

// ProcessEvents hands the events on.
func (b withoutRefusals) ProcessEvents(events ...*auditinternal.Event) bool {
	cleaned := make([]*auditinternal.Event, len(events))
	for i, event := range events {
		cleaned[i] = event
		if ref := event.ObjectRef; event.ResponseStatus != nil && ref != nil && carriesToken(ref.APIGroup, ref.Resource, ref.Subresource) {
			kept := *event
			kept.ResponseStatus = &metav1.Status{Status: event.ResponseStatus.Status, Code: event.ResponseStatus.Code, Reason: event.ResponseStatus.Reason}
			cleaned[i] = &kept
		}
	}
	return b.Backend.ProcessEvents(cleaned...)
}
