// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
)

func TestStorageIsProtobufAndReadsJSON(t *testing.T) {
	want := &federation.AddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec:       federation.AddressPoolSpec{CIDRs: []string{"10.70.0.0/16"}},
	}
	stored, err := runtime.Encode(StorageCodec, want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(stored, []byte("k8s\x00")) {
		t.Errorf("stored as %.40q, want protobuf", stored)
	}
	for form, data := range map[string][]byte{
		"protobuf": stored,
		"JSON":     []byte(`{"apiVersion":"federation.liqo.io/v1alpha1","kind":"AddressPool","metadata":{"name":"default"},"spec":{"cidrs":["10.70.0.0/16"]}}`),
	} {
		got, err := runtime.Decode(StorageCodec, data)
		if err != nil {
			t.Errorf("reading %s: %v", form, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("read from %s (-want +got):\n%s", form, diff)
		}
	}
}
