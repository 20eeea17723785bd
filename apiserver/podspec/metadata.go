// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"slices"
	"strings"

	"liqo.io/federation/apiserver/pattern"
)

// MetadataHandling is the treatment, by a provider, of a label or an annotation of a pod whose consumer has trust
// Tenant.
type MetadataHandling int

const (
	// MetadataForwarded labels and annotations are set on the remote pod.
	MetadataForwarded MetadataHandling = iota
	// MetadataLocal labels and annotations apply to the consumer only. The remote pod does not have them.
	MetadataLocal
	// MetadataRefused labels and annotations prevent the creation of the remote pod, which would not work without them.
	MetadataRefused
)

// MetadataRule is the rule for labels and annotations with which pods control components of a cluster.
type MetadataRule struct {
	// Domains are prefixes of keys, without the slash. A rule for a domain applies to its subdomains.
	Domains []string
	// Keys are patterns of keys; see package pattern.
	Keys     []string
	Handling MetadataHandling
	// Controls is what the labels and annotations control, as a phrase for error messages and docs/pods.md.
	Controls string
}

// MetadataRules are the rules for labels and annotations. Those without a rule are forwarded. The table in docs/pods.md
// is derived from the rules.
var MetadataRules = []MetadataRule{
	{Handling: MetadataLocal, Controls: "the removal of nodes and the order of evictions",
		Domains: []string{"cluster-autoscaler.kubernetes.io", "karpenter.sh", "descheduler.alpha.kubernetes.io"},
		Keys:    []string{"controller.kubernetes.io/pod-deletion-cost"}},
	{Handling: MetadataLocal, Controls: "sidecars, for example of a service mesh",
		Domains: []string{"istio.io", "linkerd.io", "kuma.io", "consul.hashicorp.com", "dapr.io",
			"instrumentation.opentelemetry.io", "sidecar.opentelemetry.io", "admission.datadoghq.com"}},
	{Handling: MetadataLocal, Controls: "the collection of metrics and logs",
		Domains: []string{"prometheus.io", "ad.datadoghq.com"}, Keys: []string{"co.elastic.*"}},
	{Handling: MetadataLocal, Controls: "exceptions from admission",
		Domains: []string{"gatekeeper.sh", "kyverno.io", "image-policy.k8s.io", "admission.stackrox.io"},
		Keys:    []string{"control-plane"}},
	{Handling: MetadataRefused, Controls: "network interfaces and addresses",
		Domains: []string{"cni.cncf.io", "multus-cni.io", "projectcalico.org", "cilium.io", "ovn.org",
			"ovn.kubernetes.io", "networking.gke.io", "ipam.antrea.io", "tke.cloud.tencent.com", "k8s.aliyun.com"},
		Keys: []string{"io.cilium.*"}},
	{Handling: MetadataRefused, Controls: "identities of a cloud",
		Domains: []string{"iam.amazonaws.com", "eks.amazonaws.com", "vpc.amazonaws.com", "azure.workload.identity",
			"iam.gke.io"},
		Keys: []string{"aadpodidbinding"}},
	{Handling: MetadataRefused, Controls: "the injection of secrets",
		Domains: []string{"vault.hashicorp.com", "vault.security.banzaicloud.io", "bank-vaults.io",
			"external-secrets.io", "operator.1password.io", "conjur.org"}},
	{Handling: MetadataRefused, Controls: "the container runtime", Domains: []string{"crio.io", "gvisor.dev"},
		Keys: []string{"io.katacontainers.*", "io.kubernetes.cri*", "io.containerd.*", "dev.gvisor.*", "*.crio.io"}},
}

// ObjectMetadataRules are the rules for labels and annotations of reflected objects, for example of ConfigMaps and
// Services, by which controllers of the provider act in other namespaces. A provider refuses objects of a consumer with
// trust Tenant that have them. The ValidatingAdmissionPolicy federation-peers and the table in docs/reflection.md have
// the same keys.
var ObjectMetadataRules = []MetadataRule{
	{Handling: MetadataRefused, Controls: "copies of the object in other namespaces",
		Keys: []string{"reflector.v1.k8s.emberstack.com/*", "replicator.v1.mittwald.de/*", "kubed.appscode.com/*"}},
	{Handling: MetadataRefused, Controls: "dashboards, data sources, rules and alerts of the monitoring",
		Keys: []string{"grafana_*", "prometheus_rule*", "loki_rule*"}},
	{Handling: MetadataRefused, Controls: "clusters and repositories of Argo CD",
		Keys: []string{"argocd.argoproj.io/secret-type"}},
	{Handling: MetadataRefused, Controls: "parts of the configuration of the ingress controller",
		Keys: []string{"nginx.ingress.kubernetes.io/*-snippet", "nginx.org/*-snippets", "haproxy.org/*-snippet",
			"haproxy-ingress.github.io/config-*"}},
	{Handling: MetadataRefused, Controls: "load balancers of Ingresses in other namespaces",
		Keys: []string{"alb.ingress.kubernetes.io/group.*"}},
	{Handling: MetadataRefused, Controls: "addresses of load balancers, and Services of other clusters",
		Keys: []string{"service.cilium.io/*", "io.cilium/*", "lbipam.cilium.io/*", "metallb.io/*", "metallb.universe.tf/*",
			"kube-vip.io/*"}},
}

// HandlingOf returns how a provider handles the key of a label or an annotation, and what the key controls, which is
// empty if the key is forwarded. A key that matches a pattern in permitted is forwarded, whatever its rule is.
func HandlingOf(key string, permitted []string) (handling MetadataHandling, controls string) {
	domain, _, prefixed := strings.Cut(key, "/")
	i := slices.IndexFunc(MetadataRules, func(rule MetadataRule) bool {
		return pattern.MatchesAny(rule.Keys, key) || prefixed && slices.ContainsFunc(rule.Domains, func(of string) bool {
			return domain == of || strings.HasSuffix(domain, "."+of)
		})
	})
	if i < 0 || pattern.MatchesAny(permitted, key) {
		return MetadataForwarded, ""
	}
	return MetadataRules[i].Handling, MetadataRules[i].Controls
}
