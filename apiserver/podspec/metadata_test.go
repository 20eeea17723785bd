// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"slices"
	"testing"

	"liqo.io/federation/apiserver/pattern"
)

func TestMetadataThatControlsComponentsStaysLocalOrIsRefused(t *testing.T) {
	for _, test := range []struct {
		key       string
		permitted []string
		want      MetadataHandling
	}{
		{"app", nil, MetadataForwarded},
		{"app.kubernetes.io/name", nil, MetadataForwarded},
		{"example.com/team", nil, MetadataForwarded},
		{"myistio.io/inject", nil, MetadataForwarded},
		{"istio.io", nil, MetadataForwarded},
		{"sidecar.istio.io/inject", nil, MetadataLocal},
		{"istio.io/rev", nil, MetadataLocal},
		{"sidecar.istio.io/inject", []string{"sidecar.istio.io/*"}, MetadataForwarded},
		{"cluster-autoscaler.kubernetes.io/safe-to-evict", nil, MetadataLocal},
		{"controller.kubernetes.io/pod-deletion-cost", nil, MetadataLocal},
		{"control-plane", nil, MetadataLocal},
		{"image-policy.k8s.io/break-glass", nil, MetadataLocal},
		{"alpha.image-policy.k8s.io/break-glass", nil, MetadataLocal},
		{"admission.stackrox.io/break-glass", nil, MetadataLocal},
		{"ad.datadoghq.com/web.checks", nil, MetadataLocal},
		{"tags.datadoghq.com/service", nil, MetadataForwarded},
		{"co.elastic.logs/enabled", nil, MetadataLocal},
		{"co.elastic.hints/host", nil, MetadataLocal},
		{"dapr.io/enabled", nil, MetadataLocal},
		{"sidecar.opentelemetry.io/inject", nil, MetadataLocal},
		{"instrumentation.opentelemetry.io/inject-java", nil, MetadataLocal},
		{"networking.gke.io/interfaces", nil, MetadataRefused},
		{"ipam.antrea.io/ippools", nil, MetadataRefused},
		{"tke.cloud.tencent.com/networks", nil, MetadataRefused},
		{"k8s.aliyun.com/eni", nil, MetadataRefused},
		{"vault.security.banzaicloud.io/vault-addr", nil, MetadataRefused},
		{"vault.security.bank-vaults.io/vault-addr", nil, MetadataRefused},
		{"operator.1password.io/inject", nil, MetadataRefused},
		{"conjur.org/inject", nil, MetadataRefused},
		{"k8s.v1.cni.cncf.io/networks", nil, MetadataRefused},
		{"k8s.v1.cni.cncf.io/networks", []string{pattern.Any}, MetadataForwarded},
		{"cni.projectcalico.org/ipAddrs", nil, MetadataRefused},
		{"iam.amazonaws.com/role", nil, MetadataRefused},
		{"io.katacontainers.config.hypervisor.kernel_params", nil, MetadataRefused},
		{"cpu-load-balancing.crio.io", nil, MetadataRefused},
		{"io.kubernetes.cri-o.userns-mode", nil, MetadataRefused},
	} {
		if got, controls := HandlingOf(test.key, test.permitted); got != test.want || (controls == "") != (got == 0) {
			t.Errorf("%s with %q permitted: got %d (%q), want %d", test.key, test.permitted, got, controls, test.want)
		}
	}
}

func TestMetadataRulesAreValid(t *testing.T) {
	for _, rule := range slices.Concat(MetadataRules, ObjectMetadataRules) {
		if len(rule.Domains)+len(rule.Keys) == 0 || rule.Handling == MetadataForwarded || rule.Controls == "" {
			t.Errorf("the rule %+v has no effect or no text", rule)
		}
		for _, key := range rule.Keys {
			if err := pattern.Validate(key); err != nil {
				t.Errorf("the pattern %q %v", key, err)
			}
		}
	}
}
