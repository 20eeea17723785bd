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

// auditPolicy has kube-apiserver write down what peers ask, and nothing else.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["liqo:peers"]
- level: None
`

// credentialKey is what kube-apiserver tells of the certificate or the token
// that somebody is known by.
const credentialKey = "authentication.kubernetes.io/credential-id"

// Audited is what the kube-apiserver wrote down of the requests of a peer that
// has a certificate, in the order of its answers.
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
			// The last line may not be whole yet.
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

// Credential is what somebody was known by.
func Credential(user authenticationv1.UserInfo) string {
	if ids := user.Extra[credentialKey]; len(ids) > 0 {
		return ids[0]
	}
	return ""
}
