// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"

	"k8s.io/client-go/rest"
)

// What the policy federation-virtual-kubelets-tokens lets a virtual kubelet ask
// for.
const (
	maxAudiences = 4
	maxAudience  = 256
)

// homeAudience is the audience to ask for where a pod names none. It is empty
// where that may be left to the API server, which then takes all of its own.
// Where these are more or longer than a virtual kubelet may ask for, one of them
// will do. They are those of its own token, which was asked for without one, too.
func homeAudience(config *rest.Config) string {
	token := []byte(config.BearerToken)
	if config.BearerTokenFile != "" {
		// Without a token nobody knows.
		token, _ = os.ReadFile(config.BearerTokenFile)
	}
	return chooseAudience(audiencesOf(string(token)))
}

// chooseAudience is the first that may be asked for; empty where all may.
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

// audiencesOf are those that a token is for; nil where it does not say.
func audiencesOf(token string) []string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	// Whose it is was checked by whoever issued it.
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
