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

func TestOneAudienceIsRequestedWhenTheDefaultExceedsTheLimits(t *testing.T) {
	long := strings.Repeat("x", maxAudience+1)
	token := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	list := func(audiences ...string) string { return token(`{"aud":["` + strings.Join(audiences, `","`) + `"]}`) }
	for _, test := range []struct {
		name, token, want string
	}{
		{"one audience", list("https://kubernetes.default.svc"), ""},
		{"one audience, not a list", token(`{"aud":"https://kubernetes.default.svc"}`), ""},
		{"four audiences", list("a", "b", "c", "d"), ""},
		{"too many audiences", list("a", "b", "c", "d", "e"), "a"},
		{"an audience that is too long", list(long, "b"), "b"},
		{"too many audiences, the first too long", list(long, "b", "c", "d", "e"), "b"},
		{"only an audience that is too long", list(long), ""},
		{"no audience", token(`{}`), ""},
		{"invalid claims", token(`{`), ""},
		{"not a JWT", "abcdef.0123456789abcdef", ""},
		{"no token", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := DefaultAudience(&rest.Config{BearerToken: test.token}); got != test.want {
				t.Errorf("audience %q, want %q", got, test.want)
			}
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte(test.token), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := DefaultAudience(&rest.Config{BearerToken: "older", BearerTokenFile: file}); got != test.want {
				t.Errorf("audience by the file %q, want %q", got, test.want)
			}
		})
	}
}
