// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestOneAudienceIsRequestedWhereAllMustNotBe(t *testing.T) {
	long := strings.Repeat("x", maxAudience+1)
	token := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	list := func(audiences ...string) string { return token(`{"aud":["` + strings.Join(audiences, `","`) + `"]}`) }
	for _, test := range []struct {
		name, token, want string
	}{
		{"it has one", list("https://kubernetes.default.svc"), ""},
		{"it has one, and no list", token(`{"aud":"https://kubernetes.default.svc"}`), ""},
		{"it has a few", list("a", "b", "c", "d"), ""},
		{"it has many", list("a", "b", "c", "d", "e"), "a"},
		{"it has a long one", list(long, "b"), "b"},
		{"it has many, and the first is long", list(long, "b", "c", "d", "e"), "b"},
		{"it has none that may be asked for", list(long), ""},
		{"it does not say", token(`{}`), ""},
		{"nobody knows", token(`{`), ""},
		{"it is no such token", "abcdef.0123456789abcdef", ""},
		{"there is none", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := DefaultAudience(&rest.Config{BearerToken: test.token}); got != test.want {
				t.Errorf("it asks for %q, want %q", got, test.want)
			}
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte(test.token), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := DefaultAudience(&rest.Config{BearerToken: "older", BearerTokenFile: file}); got != test.want {
				t.Errorf("by the file it asks for %q, want %q", got, test.want)
			}
		})
	}
}
