// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/install"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// FuzzInvitation decodes any input and POSTs it to the subresource peer, which accepts or refuses it. The subresource
// must not panic, return the token, or store anything for a refused request.
func FuzzInvitation(f *testing.F) {
	good, err := json.Marshal(v1alpha1.Peering{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Peering"},
		Spec:     v1alpha1.PeeringSpec{ClusterID: milanID, Server: "https://milan.example.org:6443", Token: secretToken},
	})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(good), `{}`, `{"spec":{"token":"` + secretToken + `\n","server":"https://x"}}`,
		`{"spec":{"caBundle":"eA==","server":"https://[::1]"}}`,
		`{"metadata":{"name":"milan","uid":"x"},"spec":{"resources":{"cpu":"1e400"}}}`,
		`{"spec":{"disconnectTimeoutSeconds":-2147483648}}`,
	} {
		f.Add([]byte(seed))
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	decoder := serializer.NewCodecFactory(scheme).UniversalDecoder(federation.SchemeGroupVersion)
	kind := v1alpha1.SchemeGroupVersion.WithKind("Peering")
	f.Fuzz(func(t *testing.T, body []byte) {
		obj, _, err := decoder.Decode(body, &kind, &federation.Peering{})
		peering, ok := obj.(*federation.Peering)
		if err != nil || !ok {
			return
		}
		token := peering.Spec.Token
		w := newWorld()
		answer, err := w.Create(request(t), "milan", peering, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
		if err != nil {
			if len(token) > 16 && strings.Contains(err.Error(), token) {
				t.Errorf("the error contains the token: %v", err)
			}
			if w.clusters.Writes() != 0 || w.token(t) != "" {
				t.Error("a refused invitation is partly stored")
			}
			return
		}
		if answer.(*federation.Peering).Spec.Token != "" {
			t.Error("the response contains the token")
		}
		if got := w.token(t); got != token {
			t.Errorf("got token %q in the Secret, want %q", got, token)
		}
	})
}
