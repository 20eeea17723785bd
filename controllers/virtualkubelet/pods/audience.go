// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"

	"k8s.io/client-go/rest"
)

// The admission policy federation-virtual-kubelets-tokens accepts at most maxAudiences audiences of at most maxAudience
// bytes.
const (
	maxAudiences = 4
	maxAudience  = 256
)

// DefaultAudience returns the audience to request for a pod's token that specifies none. Empty means the API server's
// default, which is all its audiences. If these exceed the limits of the admission policy, the result is the first
// audience of at most maxAudience bytes, if any. The audiences of the API server are read from the virtual kubelet's
// own token, which has the default.
func DefaultAudience(config *rest.Config) string {
	token := []byte(config.BearerToken)
	if config.BearerTokenFile != "" {
		// If the file cannot be read, the result is empty.
		token, _ = os.ReadFile(config.BearerTokenFile)
	}
	return chooseAudience(audiencesOf(string(token)))
}

// chooseAudience returns empty if there are at most maxAudiences audiences of at most maxAudience bytes, otherwise the
// first audience of at most maxAudience bytes, if any.
func chooseAudience(audiences []string) string {
	chosen, all := "", len(audiences) <= maxAudiences
	for _, audience := range audiences {
		if len(audience) > maxAudience {
			all = false
		} else if chosen == "" {
			chosen = audience
		}
	}
	if all {
		return ""
	}
	return chosen
}

// audiencesOf returns the audiences in a JSON Web Token; nil if it cannot be parsed.
func audiencesOf(token string) []string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	// The signature need not be verified: the token is the virtual kubelet's own.
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var several struct {
		Audiences []string `json:"aud"`
	}
	if json.Unmarshal(payload, &several) == nil {
		return several.Audiences
	}
	var one struct {
		Audience string `json:"aud"`
	}
	if json.Unmarshal(payload, &one) != nil {
		return nil
	}
	return []string{one.Audience}
}
