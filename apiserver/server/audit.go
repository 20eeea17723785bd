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

// secretSubresources are the subresources whose requests or responses contain tokens, by resource.
var secretSubresources = map[string]string{
	"foreignclusters": "peer",
	"peeringtokens":   "invitation",
}

// withoutSecrets prevents the audit log from containing the bodies of requests and responses with tokens, with every
// audit policy.
type withoutSecrets struct {
	audit.PolicyRuleEvaluator
}

// carriesToken reports whether requests or responses of a subresource contain tokens.
func carriesToken(group, resource, subresource string) bool {
	return group == federation.GroupName && subresource != "" && secretSubresources[resource] == subresource
}

// EvaluatePolicyRule returns the audit level of the policy, but at most Metadata for requests for which
// carriesToken returns true.
func (e withoutSecrets) EvaluatePolicyRule(attributes authorizer.Attributes) audit.RequestAuditConfig {
	config := e.PolicyRuleEvaluator.EvaluatePolicyRule(attributes)
	if carriesToken(attributes.GetAPIGroup(), attributes.GetResource(), attributes.GetSubresource()) &&
		auditinternal.LevelMetadata.Less(config.Level) {
		config.Level = auditinternal.LevelMetadata
	}
	return config
}

// withoutRefusals removes error messages from audit events of requests for which carriesToken returns
// true, because some errors quote the request. It keeps the status code and the reason.
type withoutRefusals struct {
	audit.Backend
}

// ProcessEvents passes the events to the backend. It copies an event before it removes the message.
func (b withoutRefusals) ProcessEvents(events ...*auditinternal.Event) bool {
	cleaned := make([]*auditinternal.Event, len(events))
	for i, event := range events {
		cleaned[i] = event
		if ref := event.ObjectRef; event.ResponseStatus != nil && ref != nil &&
			carriesToken(ref.APIGroup, ref.Resource, ref.Subresource) {
			kept := *event
			kept.ResponseStatus = &metav1.Status{
				Status: event.ResponseStatus.Status, Code: event.ResponseStatus.Code, Reason: event.ResponseStatus.Reason,
			}
			cleaned[i] = &kept
		}
	}
	return b.Backend.ProcessEvents(cleaned...)
}
