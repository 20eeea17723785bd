// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"liqo.io/federation/apiserver/apis/federation"
)

type fixedLevel auditinternal.Level

func (l fixedLevel) EvaluatePolicyRule(authorizer.Attributes) audit.RequestAuditConfig {
	return audit.RequestAuditConfig{Level: auditinternal.Level(l)}
}

func TestTheAuditLogNeverHoldsBodiesThatCarryTokens(t *testing.T) {
	tests := map[string]struct {
		group, resource, subresource string
		policy, want                 auditinternal.Level
	}{
		"an invitation that is taken":         {federation.GroupName, "foreignclusters", "peer", auditinternal.LevelRequestResponse, auditinternal.LevelMetadata},
		"an invitation that is given out":     {federation.GroupName, "peeringtokens", "invitation", auditinternal.LevelRequest, auditinternal.LevelMetadata},
		"a policy that says less stays":       {federation.GroupName, "foreignclusters", "peer", auditinternal.LevelNone, auditinternal.LevelNone},
		"a foreign cluster itself":            {federation.GroupName, "foreignclusters", "", auditinternal.LevelRequestResponse, auditinternal.LevelRequestResponse},
		"the status of a foreign cluster":     {federation.GroupName, "foreignclusters", "status", auditinternal.LevelRequestResponse, auditinternal.LevelRequestResponse},
		"a resource that has no secrets":      {federation.GroupName, "shadowpods", "", auditinternal.LevelRequest, auditinternal.LevelRequest},
		"the same name in a group not ours":   {"example.com", "foreignclusters", "peer", auditinternal.LevelRequest, auditinternal.LevelRequest},
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
