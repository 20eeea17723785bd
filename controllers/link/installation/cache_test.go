// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestThePrivateKeyIsNotCached(t *testing.T) {
	secret := &corev1.Secret{Data: map[string][]byte{v1alpha1.WireGuardPrivateKey: []byte("private"),
		v1alpha1.WireGuardPublicKey: []byte("public")}}
	kept, err := withoutPrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]byte{v1alpha1.WireGuardPublicKey: []byte("public")},
		kept.(*corev1.Secret).Data); diff != "" {
		t.Errorf("cached (-want +got):\n%s", diff)
	}
}
