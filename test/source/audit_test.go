// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestAuditPolicyLogsRequestsOfPeersWithoutTokens(t *testing.T) {
	loaded, err := policy.LoadPolicyFromFile("../../artifacts/audit/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	evaluator := policy.NewPolicyRuleEvaluator(loaded)
	const group, bearers = v1alpha1.GroupName, "system:serviceaccounts:liqo-invitations"
	tests := map[string]struct {
		userGroup, verb, group, resource, subresource, name string
		want                                                auditinternal.Level
	}{
		"a command in a pod":                {v1alpha1.PeerGroup, "create", "", "pods", "exec", "web", auditinternal.LevelMetadata},
		"a command by a websocket":          {v1alpha1.PeerGroup, "get", "", "pods", "exec", "web", auditinternal.LevelMetadata},
		"an attached terminal":              {v1alpha1.PeerGroup, "create", "", "pods", "attach", "web", auditinternal.LevelMetadata},
		"a forwarded port":                  {v1alpha1.PeerGroup, "create", "", "pods", "portforward", "web", auditinternal.LevelMetadata},
		"a read Secret":                     {v1alpha1.PeerGroup, "get", "", "secrets", "", "password", auditinternal.LevelMetadata},
		"a list of Secrets":                 {v1alpha1.PeerGroup, "list", "", "secrets", "", "", auditinternal.LevelMetadata},
		"a written Secret":                  {v1alpha1.PeerGroup, "create", "", "secrets", "", "password", auditinternal.LevelMetadata},
		"a token of an account":             {v1alpha1.PeerGroup, "create", "", "serviceaccounts", "token", "federation-peer", auditinternal.LevelMetadata},
		"a written ConfigMap":               {v1alpha1.PeerGroup, "update", "", "configmaps", "", "settings", auditinternal.LevelMetadata},
		"a read ConfigMap":                  {v1alpha1.PeerGroup, "get", "", "configmaps", "", "settings", auditinternal.LevelNone},
		"an offloaded pod":                  {v1alpha1.PeerGroup, "create", group, "shadowpods", "", "web", auditinternal.LevelMetadata},
		"a resource request":                {v1alpha1.PeerGroup, "patch", group, "resourcerequests", "", "rome", auditinternal.LevelRequest},
		"an accepted offer":                 {v1alpha1.PeerGroup, "patch", group, "resourceoffers", "status", "rome", auditinternal.LevelRequest},
		"a renewed identity":                {v1alpha1.PeerGroup, "create", group, "resourcerequests", "identity", "rome", auditinternal.LevelRequest},
		"a watch of offers":                 {v1alpha1.PeerGroup, "watch", group, "resourceoffers", "", "", auditinternal.LevelNone},
		"an accepted invitation":            {v1alpha1.PeerGroup, "create", group, "foreignclusters", "peer", "rome", auditinternal.LevelMetadata},
		"an invitation":                     {v1alpha1.PeerGroup, "create", group, "peeringtokens", "invitation", "rome", auditinternal.LevelMetadata},
		"a heartbeat":                       {v1alpha1.PeerGroup, "patch", "coordination.k8s.io", "leases", "", "federation-heartbeat", auditinternal.LevelNone},
		"another Lease":                     {v1alpha1.PeerGroup, "patch", "coordination.k8s.io", "leases", "", "federation-gateway", auditinternal.LevelMetadata},
		"the identity request of a bearer":  {bearers, "create", group, "identityrequests", "", "invitation-1", auditinternal.LevelRequest},
		"the answer that a bearer reads":    {bearers, "get", group, "identityrequests", "", "invitation-1", auditinternal.LevelMetadata},
		"a Secret that another user reads":  {"system:masters", "get", "", "secrets", "", "password", auditinternal.LevelNone},
		"a command of another user in pods": {"system:masters", "create", "", "pods", "exec", "web", auditinternal.LevelNone},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := evaluator.EvaluatePolicyRule(authorizer.AttributesRecord{
				User: &user.DefaultInfo{Name: "someone", Groups: []string{test.userGroup}}, ResourceRequest: true,
				Verb: test.verb, APIGroup: test.group, Resource: test.resource, Subresource: test.subresource,
				Namespace: "web-rome", Name: test.name,
			})
			if got.Level != test.want {
				t.Errorf("got level %s, want %s", got.Level, test.want)
			}
		})
	}
}
