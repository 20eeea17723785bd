// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"liqo.io/federation/controllers/virtualkubelet/remotens"
)

// The version of the provider is the kubelet version in the status of the virtual node, which kubectl prints.
func TestInvalidVersionOfAProviderIsUnknown(t *testing.T) {
	for reported, want := range map[string]string{
		"v1.36.1":                  "v1.36.1",
		"v1.36.1-gke.1200":         "v1.36.1-gke.1200",
		"v1.36.1\x1b[2J":           "unknown",
		"Run this command: reboot": "unknown",
		"":                         "unknown",
	} {
		core := kubefake.NewClientset()
		core.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: reported}
		c := &clients{remote: remotens.Clients{Core: core}}
		got, err := c.check(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("version %q: got %q, want %q", reported, got, want)
		}
	}
}
