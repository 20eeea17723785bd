// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peeringtoken

import (
	"fmt"
	"time"

	"liqo.io/federation/apiserver/apis/federation"
)

// longInvitation is the longest lifetime, without a warning, of an invitation that any cluster can use.
const longInvitation = 24 * time.Hour

// warnings returns a warning if the lifetime of an invitation that any cluster can use exceeds longInvitation.
func warnings(token *federation.PeeringToken) []string {
	if token.Spec.ConsumerClusterID != "" || token.Spec.ExpirationSeconds == nil {
		return nil
	}
	lifetime := time.Duration(*token.Spec.ExpirationSeconds) * time.Second
	if lifetime <= longInvitation {
		return nil
	}
	return []string{fmt.Sprintf("spec.consumerClusterID: is empty, so any cluster that obtains the invitation within %s "+
		"may use it; set the ID of the consumer, or a shorter spec.expirationSeconds", lifetime)}
}
