// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peeringtoken

import (
	"testing"

	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
)

func TestLongInvitationWithoutConsumerReturnsAWarning(t *testing.T) {
	for name, test := range map[string]struct {
		spec  federation.PeeringTokenSpec
		warns bool
	}{
		"for any cluster, as long as the default": {spec: federation.PeeringTokenSpec{}},
		"for any cluster, for a day":              {spec: federation.PeeringTokenSpec{ExpirationSeconds: ptr.To[int64](86400)}},
		"for any cluster, for longer": {spec: federation.PeeringTokenSpec{ExpirationSeconds: ptr.To[int64](86401)},
			warns: true},
		"for one cluster, for longer": {spec: federation.PeeringTokenSpec{ConsumerClusterID: "id",
			ExpirationSeconds: ptr.To[int64](86401)}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := warnings(&federation.PeeringToken{Spec: test.spec}); (len(got) > 0) != test.warns {
				t.Errorf("the warnings are %q", got)
			}
		})
	}
}
