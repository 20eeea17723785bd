// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/install"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/registry/federation/subresource/plan"
	"liqo.io/federation/registry/federation/subresource/subresourcetest"
)

func TestWarningsNameTheUnusualField(t *testing.T) {
	good := federation.ForeignClusterSpec{Outgoing: federation.PeeringEnabled, ClusterID: "id",
		Server: "https://milan.example.org", DisconnectTimeoutSeconds: ptr.To[int32](300)}
	for name, test := range map[string]struct {
		change func(*federation.ForeignClusterSpec)
		want   string
	}{
		"the spec of an invitation": {func(*federation.ForeignClusterSpec) {}, ""},
		"no id":                     {func(s *federation.ForeignClusterSpec) { s.ClusterID = "" }, "spec.clusterID"},
		"no id, and no outgoing peering": {func(s *federation.ForeignClusterSpec) {
			s.ClusterID, s.Outgoing = "",
				federation.PeeringDisabled
		}, ""},
		"an address, IPv4": {func(s *federation.ForeignClusterSpec) { s.Server = "https://192.0.2.1:6443" },
			"spec.caBundle"},
		"an address, IPv6": {func(s *federation.ForeignClusterSpec) { s.Server = "https://[2001:db8::1]" },
			"spec.caBundle"},
		"an address with a bundle": {func(s *federation.ForeignClusterSpec) {
			s.Server, s.CABundle = "https://192.0.2.1",
				[]byte("x")
		}, ""},
		"more than an hour":              {func(s *federation.ForeignClusterSpec) { s.DisconnectTimeoutSeconds = ptr.To[int32](3601) }, "spec.disconnectTimeoutSeconds"},
		"a minute without a heartbeat":   {orphanTTL(time.Minute), "spec.incomingPolicy.orphanTTL"},
		"three days without a heartbeat": {orphanTTL(72 * time.Hour), ""},
		"an unlimited time":              {orphanTTL(0), ""},
		"the default timeout":            {func(s *federation.ForeignClusterSpec) { s.DisconnectTimeoutSeconds = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &federation.ForeignCluster{Spec: good}
			test.change(&cluster.Spec)
			got := warnings(cluster)
			if test.want == "" && len(got) > 0 || test.want != "" &&
				(len(got) != 1 || !strings.HasPrefix(got[0], test.want+": ")) {
				t.Errorf("the warnings are %q", got)
			}
		})
	}
}

// orphanTTL returns a function that sets spec.incomingPolicy.orphanTTL.
func orphanTTL(d time.Duration) func(*federation.ForeignClusterSpec) {
	return func(s *federation.ForeignClusterSpec) { s.IncomingPolicy.OrphanTTL = &metav1.Duration{Duration: d} }
}

func TestOnlyChangesOfTheSpecReturnWarnings(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	strategy := Kind("", plan.Reader{}).Strategy(scheme)
	old := &federation.ForeignCluster{Spec: federation.ForeignClusterSpec{Outgoing: federation.PeeringEnabled}}
	same, other := old.DeepCopy(), old.DeepCopy()
	same.Finalizers = []string{"one"}
	other.Spec.Server = "https://milan.example.org"
	if got := strategy.WarningsOnUpdate(t.Context(), same, old); len(got) > 0 {
		t.Errorf("a change of finalizers returns the warnings %q", got)
	}
	if got := strategy.WarningsOnUpdate(t.Context(), other, old); len(got) == 0 {
		t.Error("a change of the spec returns no warning")
	}
}

func TestUnpeeringWarnsAboutVolumesThatTheClusterStores(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	volume := func(namespace, name, cluster string) federation.VirtualVolume {
		return federation.VirtualVolume{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Status:     federation.VirtualVolumeStatus{Location: &federation.VolumeLocation{ClusterName: cluster}},
		}
	}
	plans := plan.Reader{Volumes: subresourcetest.List(func() runtime.Object {
		return &federation.VirtualVolumeList{Items: []federation.VirtualVolume{
			volume("shop", "data-1", "milan"), volume("shop", "data-0", "milan"), volume("shop", "cache", "turin"),
			volume("web", "local", ""),
		}}
	})}
	enabled := func(name string) *federation.ForeignCluster {
		return &federation.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: federation.ForeignClusterSpec{Outgoing: federation.PeeringEnabled, ClusterID: "id", CABundle: []byte("x")}}
	}
	const want = "stores the volumes shop/data-0, shop/data-1: "
	strategy := Kind("", plans).Strategy(scheme)
	old := enabled("milan")
	disabled, other := old.DeepCopy(), old.DeepCopy()
	disabled.Spec.Outgoing = federation.PeeringDisabled
	other.Spec.Server = "https://milan.example.org"
	if got := strategy.WarningsOnUpdate(t.Context(), disabled, old); len(got) != 1 || !strings.Contains(got[0], want) {
		t.Errorf("disabling returns the warnings %q", got)
	}
	if got := strategy.WarningsOnUpdate(t.Context(), other, old); len(got) > 0 {
		t.Errorf("another server returns the warnings %q", got)
	}
	if got := deletion(plans)(t.Context(), old); len(got) != 1 || !strings.Contains(got[0], want) {
		t.Errorf("deletion returns the warnings %q", got)
	}
	if got := deletion(plans)(t.Context(), enabled("bari")); len(got) > 0 {
		t.Errorf("deletion of a cluster without volumes returns the warnings %q", got)
	}
}

func TestStricterTrustWarnsAboutRunningPods(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	pod := func(name, consumer string, grace int64) federation.ShadowPod {
		return federation.ShadowPod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec: federation.ShadowPodSpec{Pod: corev1.PodSpec{
				TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "main"}},
			}},
			Status: federation.ShadowPodStatus{ForeignCluster: consumer},
		}
	}
	quick := pod("quick", "rome", 30)
	limits := corev1.ResourceList{
		corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourceEphemeralStorage: resource.MustParse("1Gi"),
	}
	quick.Spec.Pod.Containers[0].Resources = corev1.ResourceRequirements{Requests: limits, Limits: limits}
	finished := pod("finished", "rome", 7200)
	finished.Status.Phase = corev1.PodSucceeded
	plans := plan.Reader{ShadowPods: subresourcetest.List(func() runtime.Object {
		return &federation.ShadowPodList{Items: []federation.ShadowPod{
			pod("slow", "rome", 7200), quick, pod("slow-too", "turin", 7200), finished,
		}}
	})}
	cluster := func(trust federation.PeeringTrust, most *int64) *federation.ForeignCluster {
		cluster := &federation.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}
		cluster.Spec.Trust, cluster.Spec.IncomingPolicy.Pods.MaxGracePeriodSeconds = trust, most
		return cluster
	}
	evicting := cluster(federation.TrustTenant, nil)
	evicting.Spec.IncomingPolicy.RefusedPods = federation.RefusedPodsEvict
	const keep, evict = "1 running pods keep running", "1 running pods are refused, so that they are evicted"
	limited := cluster(federation.TrustSameOwner, nil)
	limited.Spec.IncomingPolicy.Pods.Limits = federation.PodLimitsRequired
	for _, test := range []struct {
		name    string
		old, to *federation.ForeignCluster
		// most is the period that the flags of the server permit; 0 if they do not limit it.
		most int64
		// warns is a part of the warning; empty if there is none.
		warns string
	}{
		{"Tenant", cluster("", nil), cluster(federation.TrustTenant, nil), 0, keep},
		{"Tenant, evicting", cluster("", nil), evicting, 0, evict},
		{"evicting", cluster(federation.TrustTenant, nil), evicting, 0, evict},
		{"Tenant with a longer period", cluster("", nil), cluster(federation.TrustTenant, ptr.To[int64](7200)), 0, ""},
		{"Tenant with a longer period of the installation", cluster("", nil), cluster(federation.TrustTenant, nil), 7200, ""},
		{"SameOwner", cluster("", nil), cluster(federation.TrustSameOwner, nil), 0, ""},
		{
			"a shorter period", cluster(federation.TrustSameOwner, nil),
			cluster(federation.TrustSameOwner, ptr.To[int64](60)), 0, keep,
		},
		{"required limits", cluster(federation.TrustSameOwner, nil), limited, 0, keep},
	} {
		t.Run(test.name, func(t *testing.T) {
			plans := plans
			plans.Pods.MaxGracePeriodSeconds = test.most
			got := Kind("", plans).Strategy(scheme).WarningsOnUpdate(t.Context(), test.to, test.old)
			warned := len(got) == 1 && strings.HasSuffix(got[0], ": shop/slow") && strings.Contains(got[0], test.warns)
			if warned != (test.warns != "") || len(got) > 1 {
				t.Errorf("got the warnings %q, want one about shop/slow with %q", got, test.warns)
			}
		})
	}
}

func TestLossOfAPIAccessWarnsAboutRunningPods(t *testing.T) {
	const given, disabled = federation.APIAccessConsumer, federation.APIAccessDisabled
	node := func(namespace, name string, pods int32, own, inherited federation.APIAccess) federation.VirtualNode {
		return federation.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       federation.VirtualNodeSpec{NodeName: "liqo-" + name, APIAccess: own},
			Status:     federation.VirtualNodeStatus{Pods: pods, APIAccess: inherited},
		}
	}
	all := []federation.VirtualNode{
		node("liqo-peer-milan", "milan-2", 2, "", given), node("liqo-peer-milan", "milan", 3, "", given),
		node("liqo-peer-milan", "empty", 0, "", given), node("liqo-peer-milan", "disabled", 7, "", disabled),
		node("liqo-peer-turin", "turin", 7, "", given),
	}
	keeping := append(slices.Clone(all), node("liqo-peer-milan", "own", 7, given, given))
	plans := plan.Reader{
		ShadowPods: subresourcetest.List(func() runtime.Object { return &federation.ShadowPodList{} }),
	}
	cluster := func(trust federation.PeeringTrust, access federation.APIAccess) *federation.ForeignCluster {
		return &federation.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: federation.ForeignClusterSpec{Trust: trust, APIAccess: access},
		}
	}
	const tenant, sameOwner = federation.TrustTenant, federation.TrustSameOwner
	for _, test := range []struct {
		name      string
		old, to   *federation.ForeignCluster
		installed v1alpha1.APIAccess
		want      bool
	}{
		{"Tenant", cluster("", ""), cluster(tenant, ""), "", true},
		{"SameOwner", cluster("", ""), cluster(sameOwner, ""), "", false},
		{"Tenant with access", cluster(sameOwner, ""), cluster(tenant, given), "", false},
		{"Tenant with access of the installation", cluster(sameOwner, ""), cluster(tenant, ""), v1alpha1.APIAccessConsumer, false},
		{"Disabled", cluster(sameOwner, ""), cluster(sameOwner, disabled), "", true},
		{"Disabled by the installation", cluster(sameOwner, given), cluster(sameOwner, ""), v1alpha1.APIAccessDisabled, true},
		{"no change", cluster(tenant, ""), cluster(tenant, ""), "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			plans := plans
			plans.APIAccess, plans.VirtualNodes = test.installed, virtualNodes(all)
			got := surroundings(plans)(t.Context(), test.to, test.old)
			warned := len(got) == 1 && strings.HasPrefix(got[0], "spec.trust, spec.apiAccess: 5 running pods ") &&
				strings.Contains(got[0], "at once") && strings.HasSuffix(got[0], " liqo-milan, liqo-milan-2")
			if warned != test.want || len(got) > 1 {
				t.Errorf("got the warnings %q, want one: %t", got, test.want)
			}

			plans.VirtualNodes = virtualNodes(keeping)
			got = surroundings(plans)(t.Context(), test.to, test.old)
			warned = len(got) == 2 && !strings.Contains(got[0], "at once") && strings.Contains(got[1], " liqo-own keep ")
			if warned != test.want || len(got) > 2 {
				t.Errorf("with a virtual node that keeps its access, got the warnings %q, want two: %t", got, test.want)
			}
		})
	}
}

// virtualNodes is a store of VirtualNodes.
type virtualNodes []federation.VirtualNode

func (nodes virtualNodes) List(ctx context.Context, _ *metainternalversion.ListOptions) (runtime.Object, error) {
	list := &federation.VirtualNodeList{}
	for _, node := range nodes {
		if node.Namespace == genericapirequest.NamespaceValue(ctx) {
			list.Items = append(list.Items, node)
		}
	}
	return list, nil
}

// unresponsive is a store that does not respond until the context of the request is done.
type unresponsive struct{}

func (unresponsive) List(ctx context.Context, _ *metainternalversion.ListOptions) (runtime.Object, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestReadsForWarningsDelayARequestByReadTimeout(t *testing.T) {
	plans := plan.Reader{Volumes: unresponsive{}, ShadowPods: unresponsive{}, VirtualNodes: unresponsive{}}
	old := &federation.ForeignCluster{Spec: federation.ForeignClusterSpec{Outgoing: federation.PeeringEnabled}}
	unpeered := old.DeepCopy()
	unpeered.Spec.Outgoing = federation.PeeringDisabled
	trusted := old.DeepCopy()
	trusted.Spec.Trust = federation.TrustTenant
	both := unpeered.DeepCopy()
	both.Spec.Trust = federation.TrustTenant
	update := func(cluster *federation.ForeignCluster) func(context.Context) []string {
		return func(ctx context.Context) []string { return surroundings(plans)(ctx, cluster, old) }
	}
	deleted := func(ctx context.Context) []string { return deletion(plans)(ctx, old) }
	for name, warnings := range map[string]func(context.Context) []string{
		"the outgoing peering is disabled":                        update(unpeered),
		"the trust changes":                                       update(trusted),
		"the outgoing peering is disabled, and the trust changes": update(both),
		"the ForeignCluster is deleted":                           deleted,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				got := warnings(t.Context())
				if delay := time.Since(start); delay != readTimeout || len(got) > 0 {
					t.Errorf("got the warnings %q after %s, want none after %s", got, delay, readTimeout)
				}
			})
		})
	}
}

func TestNewForeignClustersHaveATrustThatUpdatesKeep(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	strategy := Kind(federation.TrustTenant, plan.Reader{}).Strategy(scheme)
	for _, test := range []struct{ given, want federation.PeeringTrust }{
		{"", federation.TrustTenant}, {federation.TrustSameOwner, federation.TrustSameOwner},
	} {
		created := &federation.ForeignCluster{Spec: federation.ForeignClusterSpec{Trust: test.given}}
		strategy.PrepareForCreate(t.Context(), created)
		if created.Spec.Trust != test.want {
			t.Errorf("a new object with trust %q gets %q, want %q", test.given, created.Spec.Trust, test.want)
		}
		updated := created.DeepCopy()
		updated.Spec.Trust = ""
		strategy.PrepareForUpdate(t.Context(), updated, created)
		if updated.Spec.Trust != test.want || updated.Generation != created.Generation {
			t.Errorf("an update without trust changes %q to %q, generation %d", test.want, updated.Spec.Trust,
				updated.Generation)
		}
	}
	old := &federation.ForeignCluster{}
	updated := old.DeepCopy()
	strategy.PrepareForUpdate(t.Context(), updated, old)
	if updated.Spec.Trust != "" {
		t.Errorf("an update sets trust %q in an object of v0.1.0", updated.Spec.Trust)
	}
}

// An object that version v0.1.0 stored is updated without a trust, with one, and never loses it.
func TestForeignClusterOfVersion010IsUpdated(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	strategy := Kind(federation.TrustTenant, plan.Reader{ShadowPods: subresourcetest.List(func() runtime.Object {
		return &federation.ShadowPodList{}
	})}).Strategy(scheme)
	decoder := serializer.NewCodecFactory(scheme).UniversalDecoder(federation.SchemeGroupVersion)
	stored, err := runtime.Decode(decoder, []byte(`{
		"apiVersion": "federation.liqo.io/v1alpha1", "kind": "ForeignCluster",
		"metadata": {"name": "rome", "uid": "a", "resourceVersion": "1", "generation": 3,
			"finalizers": ["federation.liqo.io/controllers"]},
		"spec": {"clusterID": "5ad4b6a1-0c9e-4f43-9d0b-0c7b1f3a2e11", "outgoing": "Disabled", "incoming": "Enabled",
			"disconnectTimeoutSeconds": 300, "incomingPolicy": {"decision": "Accept"}},
		"status": {"incomingPeering": "Established"}}`))
	if err != nil {
		t.Fatal(err)
	}
	current := stored.(*federation.ForeignCluster)
	for _, step := range []struct {
		name       string
		change     func(*federation.ForeignCluster)
		want       federation.PeeringTrust
		generation int64
	}{
		{"a label", func(c *federation.ForeignCluster) { c.Labels = map[string]string{"a": "b"} }, "", 3},
		{"another field", func(c *federation.ForeignCluster) { c.Spec.Cordoned = true }, "", 4},
		{"the trust", func(c *federation.ForeignCluster) { c.Spec.Trust = federation.TrustTenant }, federation.TrustTenant, 5},
		{"no trust", func(c *federation.ForeignCluster) { c.Spec.Trust = "" }, federation.TrustTenant, 5},
	} {
		updated := current.DeepCopy()
		step.change(updated)
		strategy.PrepareForUpdate(t.Context(), updated, current)
		if errs := strategy.ValidateUpdate(t.Context(), updated, current); len(errs) > 0 {
			t.Errorf("%s: %v", step.name, errs)
		}
		if updated.Spec.Trust != step.want || updated.Generation != step.generation {
			t.Errorf("%s: got trust %q and generation %d, want %q and %d", step.name, updated.Spec.Trust, updated.Generation,
				step.want, step.generation)
		}
		current = updated
	}
}
