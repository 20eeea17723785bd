// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned/fake"
)

func TestCheckFailsUntilTheAPIIsServed(t *testing.T) {
	client := fake.NewSimpleClientset()
	if _, err := check(t.Context(), client, time.Millisecond); err == nil ||
		!strings.Contains(err.Error(), "kubectl describe apiservice") {
		t.Errorf("without the API: %v", err)
	}
	client.Resources = []*metav1.APIResourceList{{
		GroupVersion: v1alpha1.SchemeGroupVersion.String(), APIResources: []metav1.APIResource{{Name: "foreignclusters"}},
	}}
	if kinds, err := check(t.Context(), client, time.Second); err != nil || kinds != 1 {
		t.Errorf("with the API: %d resources, %v", kinds, err)
	}
}
