// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
)

func TestUnknownTrustIsRefusedWithTheKnownValues(t *testing.T) {
	of := map[string]func(federation.PeeringTrust) field.ErrorList{
		"a ForeignCluster": func(trust federation.PeeringTrust) field.ErrorList {
			cluster := goodCluster()
			cluster.Spec.Trust = trust
			return ValidateForeignCluster(cluster)
		},
		"a PeeringToken": func(trust federation.PeeringTrust) field.ErrorList {
			return ValidatePeeringToken(&federation.PeeringToken{
				ObjectMeta: metav1.ObjectMeta{Name: "rome"},
				Spec: federation.PeeringTokenSpec{
					Trust: trust, ExpirationSeconds: ptr.To[int64](3600), Mode: federation.PeeringOutOfBand,
				},
			})
		},
	}
	for name, validate := range of {
		for _, trust := range []federation.PeeringTrust{"", federation.TrustTenant, federation.TrustSameOwner} {
			if errs := validate(trust); len(errs) > 0 {
				t.Errorf("%s with trust %q: %v", name, trust, errs)
			}
		}
		for _, trust := range []federation.PeeringTrust{"Tennant", "tenant", "None"} {
			errs := validate(trust)
			if len(errs) != 1 || errs[0].Field != "spec.trust" || !strings.Contains(errs[0].Error(), `"Tenant", "SameOwner"`) {
				t.Errorf("%s with trust %q: %v", name, trust, errs)
			}
		}
	}
}

func TestInvalidLimitsOfAConsumerAreRefused(t *testing.T) {
	const policy = "spec.incomingPolicy."
	names := func(patterns ...string) func(*federation.ForeignCluster) {
		return func(c *federation.ForeignCluster) { c.Spec.IncomingPolicy.RemoteNamespaces = patterns }
	}
	pods := func(pods federation.PodPolicy) func(*federation.ForeignCluster) {
		return func(c *federation.ForeignCluster) { c.Spec.IncomingPolicy.Pods = pods }
	}
	objects := func(name, quantity string) func(*federation.ForeignCluster) {
		return func(c *federation.ForeignCluster) {
			c.Spec.IncomingPolicy.Objects = corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(quantity)}
		}
	}
	runCreate(t, goodCluster(), ValidateForeignCluster, map[string]wrong[*federation.ForeignCluster]{
		"patterns of names":              {names("team-a-*", "*", "dev"), nil},
		"a namespace of Kubernetes":      {names("web", "kube-system"), []string{policy + "remoteNamespaces[1]"}},
		"namespaces of Kubernetes":       {names("kube-*"), []string{policy + "remoteNamespaces[0]"}},
		"namespaces of a distribution":   {names("openshift-*"), []string{policy + "remoteNamespaces[0]"}},
		"tenant namespaces":              {names("liqo-tenant-*"), []string{policy + "remoteNamespaces[0]"}},
		"a pattern with two asterisks":   {names("*-web-*"), []string{policy + "remoteNamespaces[0]"}},
		"a regular expression":           {names("team-[ab]"), []string{policy + "remoteNamespaces[0]"}},
		"the same pattern twice":         {names("a-*", "a-*"), []string{policy + "remoteNamespaces[1]"}},
		"an unknown network":             {func(c *federation.ForeignCluster) { c.Spec.IncomingPolicy.Network = "Closed" }, []string{policy + "network"}},
		"a URL as an external name":      {func(c *federation.ForeignCluster) { c.Spec.IncomingPolicy.ExternalNames = []string{"https://a.b"} }, []string{policy + "externalNames[0]"}},
		"limits of pods":                 {pods(federation.PodPolicy{Tolerations: []string{"nvidia.com/*"}, RuntimeClasses: []string{"gvisor"}}), nil},
		"an invalid key":                 {pods(federation.PodPolicy{Tolerations: []string{"a b"}}), []string{policy + "pods.tolerations[0]"}},
		"any RuntimeClass and a certain": {pods(federation.PodPolicy{RuntimeClasses: []string{"*", "gvisor"}}), []string{policy + "pods.runtimeClasses"}},
		"unknown limits":                 {pods(federation.PodPolicy{Limits: "Some"}), []string{policy + "pods.limits"}},
		"a grace period below the default": {pods(federation.PodPolicy{MaxGracePeriodSeconds: ptr.To[int64](29)}),
			[]string{policy + "pods.maxGracePeriodSeconds"}},
		"numbers of objects":         {objects("count/configmaps", "100"), nil},
		"a number of unknown things": {objects("configmaps", "1"), []string{policy + "objects[configmaps]"}},
		"half an object":             {objects("count/secrets", "500m"), []string{policy + "objects[count/secrets]"}},
		"a negative number":          {objects("services.nodeports", "-1"), []string{policy + "objects[services.nodeports]"}},
	})
}
