// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"

	"liqo.io/federation/apiserver/apis/federation/fuzzer"
)

func TestEveryKindSurvivesEveryVersion(t *testing.T) {
	roundtrip.RoundTripProtobufTestForAPIGroup(t, Install, fuzzer.Funcs)
}
