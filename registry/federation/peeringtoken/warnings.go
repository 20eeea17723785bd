// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peeringtoken

import (
	"fmt"
	"time"

	"liqo.io/federation/apiserver/apis/federation"
)

// longInvitation is how long an invitation for whoever has it may live without
// a warning.
const longInvitation = 24 * time.Hour

// warnings tell of an invitation that can be lost for long.
func warnings(token *federation.PeeringToken) []string {
	if token.Spec.ConsumerClusterID != "" || token.Spec.ExpirationSeconds == nil {
		return nil
	}
	lifetime := time.Duration(*token.Spec.ExpirationSeconds) * time.Second
	if lifetime <= longInvitation {
		return nil
	}
	return []string{fmt.Sprintf("spec.consumerClusterID: is empty, so whoever gets hold of the invitation within %s may use it; name the cluster that it is for, or let it end sooner", lifetime)}
}
