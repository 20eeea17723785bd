// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
)

// lines returns the policies as lines of text.
func lines(policies []v1alpha1.EffectivePolicy) string {
	var text strings.Builder
	for _, policy := range policies {
		fmt.Fprintf(&text, "%s %s %s: %s\n", policy.Binds, policy.Name, policy.Source, policy.Value)
	}
	return text.String()
}

func TestPoliciesInForceComeFromForeignClusterInstallationAndTrust(t *testing.T) {
	const tenant = `Consumer incomingPolicy.remoteNamespaces Trust: names of DefaultName
Consumer incomingPolicy.maxRemoteNamespaces Trust: 20
Consumer incomingPolicy.decision Value: Manual
Both reach Trust: Offloaded
Both keepCIDRs Trust: none
Provider apiAccess Trust: Disabled
Consumer incomingPolicy.network Trust: Isolated
Consumer incomingPolicy.pods.tolerations Trust: node.kubernetes.io/not-ready, node.kubernetes.io/unreachable
Consumer incomingPolicy.pods.runtimeClasses Trust: none
Consumer incomingPolicy.pods.metadataKeys Trust: none
Consumer incomingPolicy.pods.maxGracePeriodSeconds Trust: 3600
Consumer incomingPolicy.pods.limits Default: Any
Consumer incomingPolicy.objects Trust: count/configmaps=100, count/ingresses.networking.k8s.io=20, ` +
		`count/secrets=100, count/services=100, services.loadbalancers=0, services.nodeports=0
Consumer incomingPolicy.maxObjectBytes Trust: 131072
Consumer incomingPolicy.externalNames Trust: none
Consumer incomingPolicy.refusedPods Default: Keep
`
	const sameOwner = `Consumer incomingPolicy.remoteNamespaces Trust: any
Consumer incomingPolicy.maxRemoteNamespaces Trust: unlimited
Consumer incomingPolicy.decision Value: Manual
Both reach Trust: All
Both keepCIDRs Trust: any
Provider apiAccess Trust: Consumer
Consumer incomingPolicy.network Trust: Open
Consumer incomingPolicy.pods.tolerations Trust: any
Consumer incomingPolicy.pods.runtimeClasses Trust: any
Consumer incomingPolicy.pods.metadataKeys Trust: any
Consumer incomingPolicy.pods.maxGracePeriodSeconds Trust: unlimited
Consumer incomingPolicy.pods.limits Default: Any
Consumer incomingPolicy.objects Trust: unlimited
Consumer incomingPolicy.maxObjectBytes Trust: unlimited
Consumer incomingPolicy.externalNames Trust: any
Consumer incomingPolicy.refusedPods Default: Keep
`
	installation := &Installation{
		RemoteNamespaces: []string{"team-b-*"}, MaxRemoteNamespaces: 5, Network: v1alpha1.NetworkIsolated,
		Pods: PodFlags{
			Tolerations: []string{"gpu"}, RuntimeClasses: []string{"kata"}, MetadataKeys: []string{"a.example.com/*"},
			MaxGracePeriodSeconds: 60, Limits: string(v1alpha1.PodLimitsRequired),
		},
		Objects: corev1.ResourceList{
			"count/secrets": resource.MustParse("7"), "services.nodeports": resource.MustParse("1"),
		},
		ReflectedKinds: []metav1.GroupVersionResource{{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}},
		MaxObjectBytes: 4096, ExternalNames: []string{"*.example.org"}, AutoAccept: true,
		Reach: v1alpha1.ReachAll, KeepCIDRs: []string{"10.128.0.0/9"}, APIAccess: v1alpha1.APIAccessDisabled,
	}
	own := v1alpha1.IncomingPolicy{
		PeeringAnswer:    v1alpha1.PeeringAnswer{Decision: v1alpha1.PeeringRefuse},
		RemoteNamespaces: []string{"team-a-*", "prod"}, MaxRemoteNamespaces: ptr.To[int32](3),
		Network: v1alpha1.NetworkOpen,
		Pods: v1alpha1.PodPolicy{
			Tolerations: []string{"nvidia.com/*"}, RuntimeClasses: []string{"*"}, MetadataKeys: []string{"b.example.com/*"},
			MaxGracePeriodSeconds: ptr.To[int64](90), Limits: v1alpha1.PodLimitsAny,
		},
		Objects:       corev1.ResourceList{"services.nodeports": resource.MustParse("5")},
		ExternalNames: []string{"*.example.com"}, RefusedPods: v1alpha1.RefusedPodsEvict,
		MaxObjectBytes: ptr.To[int64](8192),
	}
	field := consumer(v1alpha1.TrustTenant, own)
	field.Spec.Reach, field.Spec.KeepCIDRs = v1alpha1.ReachOffloaded, []string{"10.64.0.0/10", "fd00::/8"}
	field.Spec.APIAccess = v1alpha1.APIAccessConsumer
	for _, test := range []struct {
		name         string
		fc           *v1alpha1.ForeignCluster
		installation *Installation
		want         string
	}{
		{"tenant", consumer(v1alpha1.TrustTenant, v1alpha1.IncomingPolicy{}), &Installation{}, tenant},
		{"same owner", consumer(v1alpha1.TrustSameOwner, v1alpha1.IncomingPolicy{}), &Installation{}, sameOwner},
		{"version v0.1.0", consumer("", v1alpha1.IncomingPolicy{}), &Installation{}, sameOwner},
		{"same owner and installation", consumer(v1alpha1.TrustSameOwner, v1alpha1.IncomingPolicy{}), installation,
			`Consumer incomingPolicy.remoteNamespaces Value: names of DefaultName, team-b-*
Consumer incomingPolicy.maxRemoteNamespaces Value: 5
Consumer incomingPolicy.decision Value: Accept
Both reach Value: All
Both keepCIDRs Value: 10.128.0.0/9
Provider apiAccess Value: Disabled
Consumer incomingPolicy.network Value: Isolated
Consumer incomingPolicy.pods.tolerations Value: node.kubernetes.io/not-ready, node.kubernetes.io/unreachable, gpu
Consumer incomingPolicy.pods.runtimeClasses Value: kata
Consumer incomingPolicy.pods.metadataKeys Value: a.example.com/*
Consumer incomingPolicy.pods.maxGracePeriodSeconds Value: 60
Consumer incomingPolicy.pods.limits Value: Required
Consumer incomingPolicy.objects Value: count/secrets=7, services.nodeports=1
Consumer incomingPolicy.objects Trust: others unlimited
Consumer incomingPolicy.maxObjectBytes Value: 4096
Consumer incomingPolicy.externalNames Value: *.example.org
Consumer incomingPolicy.refusedPods Default: Keep
`},
		{"all three", field, installation,
			`Consumer incomingPolicy.remoteNamespaces Field: names of DefaultName, team-a-*, prod
Consumer incomingPolicy.maxRemoteNamespaces Field: 3
Consumer incomingPolicy.decision Field: Refuse
Both reach Field: Offloaded
Both keepCIDRs Field: 10.64.0.0/10, fd00::/8
Provider apiAccess Field: Consumer
Consumer incomingPolicy.network Field: Open
Consumer incomingPolicy.pods.tolerations Field: node.kubernetes.io/not-ready, ` +
				`node.kubernetes.io/unreachable, nvidia.com/*
Consumer incomingPolicy.pods.runtimeClasses Field: any
Consumer incomingPolicy.pods.metadataKeys Field: b.example.com/*
Consumer incomingPolicy.pods.maxGracePeriodSeconds Field: 90
Consumer incomingPolicy.pods.limits Field: Any
Consumer incomingPolicy.objects Field: services.nodeports=5
Consumer incomingPolicy.objects Value: count/secrets=7
Consumer incomingPolicy.objects Trust: count/certificates.cert-manager.io=100, count/configmaps=100, ` +
				`count/ingresses.networking.k8s.io=20, count/services=100, services.loadbalancers=0
Consumer incomingPolicy.maxObjectBytes Field: 8192
Consumer incomingPolicy.externalNames Field: *.example.com
Consumer incomingPolicy.refusedPods Field: Evict
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, lines(Policies(test.fc, test.installation))); diff != "" {
				t.Errorf("policies (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLongValuesAreCutBetweenNames(t *testing.T) {
	var names []string
	for i := range 64 {
		names = append(names, fmt.Sprintf("%02d-%s", i, strings.Repeat("x", 60)))
	}
	got := joined(names)
	want := strings.Join(names[:7], ", ") + ", and 57 more"
	if got != want || len(got) > validation.MaxPolicyValue {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	longest := strings.Repeat("x", validation.MaxPolicyValue)
	if joined([]string{longest}) != longest {
		t.Error("a single name is changed")
	}
}

// Each row of the table in docs/trust.md is a policy that the status of a ForeignCluster reports.
func TestTableOfThePageHasEachPolicy(t *testing.T) {
	page, err := os.ReadFile("../../docs/trust.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	var documented []string
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 || strings.HasPrefix(cells[1], " ---") || strings.TrimSpace(cells[1]) == "" {
			continue
		}
		rows++
		name := quoted.FindStringSubmatch(cells[4])
		switch {
		case name == nil:
			documented = append(documented, quoted.FindStringSubmatch(cells[5])[1])
		case strings.HasPrefix(name[1], "spec."):
			documented = append(documented, strings.TrimPrefix(name[1], "spec."))
		case name[1] == "limits":
			// ResourceOffers have the storage that is in force.
		default:
			documented = append(documented, "incomingPolicy."+name[1])
		}
	}
	if rows == 0 {
		t.Fatal("the page has no table of policies")
	}
	var reported []string
	for _, policy := range Policies(consumer(v1alpha1.TrustTenant, v1alpha1.IncomingPolicy{}), &Installation{}) {
		reported = append(reported, policy.Name)
	}
	slices.Sort(documented)
	slices.Sort(reported)
	if diff := cmp.Diff(slices.Compact(documented), slices.Compact(reported)); diff != "" {
		t.Errorf("names (-page +status):\n%s", diff)
	}
}
