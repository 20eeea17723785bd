// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
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

// EvaluatePolicyRule caps the level of requests that carry tokens at Metadata.
func (e withoutSecrets) EvaluatePolicyRule(attributes authorizer.Attributes) audit.RequestAuditConfig {
	config := e.PolicyRuleEvaluator.EvaluatePolicyRule(attributes)
	subresource := attributes.GetSubresource()
	secret := attributes.GetAPIGroup() == federation.GroupName && subresource != "" && secretSubresources[attributes.GetResource()] == subresource
	if secret && auditinternal.LevelMetadata.Less(config.Level) {
		config.Level = auditinternal.LevelMetadata
	}
	return config
}
