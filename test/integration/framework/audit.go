// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/apis/audit/v1"
)

// auditPolicy logs only requests of peers.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["liqo:peers"]
- level: None
`

// credentialKey is the key in the extra fields of a user for the ID of its certificate or token,
// which kube-apiserver sets.
const credentialKey = "authentication.kubernetes.io/credential-id"

// Audited returns the audit events of a peer with this user name, in the order of the responses.
func (e *Environment) Audited(t testing.TB, user string) []v1.Event {
	t.Helper()
	file, err := os.Open(e.path("audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var events []v1.Event
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			// The last line may still be incomplete.
			return events
		}
		var event v1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		if event.User.Username == user {
			events = append(events, event)
		}
	}
}

// Credential returns the ID of the certificate or token with which a user authenticated.
func Credential(user authenticationv1.UserInfo) string {
	if ids := user.Extra[credentialKey]; len(ids) > 0 {
		return ids[0]
	}
	return ""
}
