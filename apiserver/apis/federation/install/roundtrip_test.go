// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/fuzzer"
)

func TestEveryKindSurvivesEveryVersion(t *testing.T) {
	roundtrip.RoundTripProtobufTestForAPIGroup(t, Install, fuzzer.Funcs)
}

// The JSON names and protobuf numbers of fields must not change, because stored objects and objects
// from peers of other versions are decoded by them. UPDATE_COMPATIBILITY_FIXTURE_DATA=true adds new
// fields to testdata.
func TestFieldsKeepTheirNamesAndNumbers(t *testing.T) {
	scheme := runtime.NewScheme()
	Install(scheme)
	options := roundtrip.NewCompatibilityTestOptions(scheme).Complete(t)
	options.Kinds = slices.DeleteFunc(options.Kinds, func(kind schema.GroupVersionKind) bool {
		return kind.Group != federation.GroupName
	})
	options.Run(t)
}
