// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAuditEventsBecomeRequests(t *testing.T) {
	received := time.Date(2026, 5, 4, 3, 2, 1, 500_000_000, time.UTC)
	for _, test := range []struct {
		name, line string
		want       Request
		counts     bool
	}{
		{
			"a subresource",
			`{"stage":"ResponseComplete","verb":"create","user":{"username":"system:kube-scheduler"},` +
				`"objectRef":{"resource":"pods","subresource":"binding"},"requestReceivedTimestamp":"2026-05-04T03:02:01.500000Z"}`,
			Request{Received: received, User: "system:kube-scheduler", Verb: "create", Resource: "pods/binding"}, true,
		},
		{"a watch", `{"stage":"ResponseComplete","verb":"watch","objectRef":{"resource":"pods"}}`, Request{}, false},
		{"the start of a long answer", `{"stage":"ResponseStarted","verb":"get","objectRef":{"resource":"pods"}}`, Request{}, false},
		{"no resource", `{"stage":"ResponseComplete","verb":"get","requestURI":"/healthz"}`, Request{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, counts, err := parseAudit([]byte(test.line))
			if err != nil || counts != test.counts {
				t.Fatalf("counts: %v, error: %v, want %v", counts, err, test.counts)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
	if _, _, err := parseAudit([]byte("{")); err == nil {
		t.Error("a damaged line gave no error")
	}
}
