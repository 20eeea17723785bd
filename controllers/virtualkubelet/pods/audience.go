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

// The limits of the admission policy federation-virtual-kubelets-tokens.
const (
	maxAudiences = 4
	maxAudience  = 256
)

// DefaultAudience returns the audience to request for a token of a pod that names none. It is empty if the API server's
// default, which is all of its audiences, is within the limits of the admission policy; otherwise it is the first
// audience that is. The audiences of the API server are those of the virtual kubelet's own token, which was requested
// without any.
func DefaultAudience(config *rest.Config) string {
	token := []byte(config.BearerToken)
	if config.BearerTokenFile != "" {
		// Without a token, the API server's default is used.
		token, _ = os.ReadFile(config.BearerTokenFile)
	}
	return chooseAudience(audiencesOf(string(token)))
}

// chooseAudience returns the first audience that may be requested; empty if all may.
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

// audiencesOf returns the audiences of a token; nil if they cannot be read.
func audiencesOf(token string) []string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	// The signature was checked by the API server that issued it.
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
