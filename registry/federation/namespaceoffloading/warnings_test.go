// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaceoffloading

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/install"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/registry/federation/subresource/plan"
	"liqo.io/federation/registry/federation/subresource/subresourcetest"
	"liqo.io/federation/test/fakes"
)

// aCluster returns a cluster with the virtual node liqo-milan, which has the label region=it. Namespace web has one pod
// on this node, and two on the node worker.
func aCluster(t *testing.T) (*fake.Clientset, plan.Reader) {
	t.Helper()
	on := func(name, node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "web"}, Spec: corev1.PodSpec{NodeName: node}}
	}
	kube := fake.NewClientset(on("a", "liqo-milan"), on("b", "worker"), on("c", "worker"))
	return kube, plan.Reader{
		Clusters: subresourcetest.List(func() runtime.Object {
			return &federation.ForeignClusterList{Items: []federation.ForeignCluster{{
				ObjectMeta: metav1.ObjectMeta{Name: "milan"},
				Spec:       federation.ForeignClusterSpec{Outgoing: federation.PeeringEnabled},
			}}}
		}),
		VirtualNodes: subresourcetest.List(func() runtime.Object {
			return &federation.VirtualNodeList{Items: []federation.VirtualNode{{
				ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: "liqo-peer-milan"},
				Spec:       federation.VirtualNodeSpec{NodeName: "liqo-milan", Labels: map[string]string{"region": "it"}},
			}}}
		}),
		Volumes: subresourcetest.List(func() runtime.Object {
			return &federation.VirtualVolumeList{Items: []federation.VirtualVolume{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "data"},
				Status:     federation.VirtualVolumeStatus{Location: &federation.VolumeLocation{ClusterName: "milan"}},
			}}}
		}),
		Kube: kube,
	}
}

func TestWarningsCountMisplacedPods(t *testing.T) {
	offloading := func(strategy federation.PodOffloadingStrategy, enforcement federation.PlacementEnforcement,
		region string) *federation.NamespaceOffloading {
		o := &federation.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Name: "offloading", Namespace: "web"},
			Spec: federation.NamespaceOffloadingSpec{
				NamespaceMappingStrategy: federation.DefaultName, PodOffloadingStrategy: strategy, Enforcement: enforcement,
			}}
		if region != "" {
			o.Spec.ClusterSelector.NodeSelectorTerms = []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "region", Operator: corev1.NodeSelectorOpIn, Values: []string{region}},
				}}}
		}
		return o
	}
	const both, nowhere = federation.LocalAndRemote, "matches no cluster"
	for _, test := range []struct {
		name     string
		old, new *federation.NamespaceOffloading
		message  []string
	}{
		{"everything is allowed", nil, offloading(both, federation.Warn, ""), nil},
		{"a new offloading that keeps pods local", nil, offloading(federation.Local, federation.Warn, ""),
			[]string{"leaves 1 pod(s)"}},
		{"a stricter strategy", offloading(both, federation.Warn, ""), offloading(federation.Remote, federation.Warn, ""),
			[]string{"leaves 2 pod(s)"}},
		{"pods that are evicted", offloading(both, federation.Warn, ""), offloading(federation.Remote, federation.Evict, ""),
			nil},
		{"pods that are no longer evicted", offloading(federation.Remote, federation.Evict, ""),
			offloading(federation.Remote, federation.Warn, ""), []string{"leaves 2 pod(s)"}},
		{"a selector that matches", offloading(both, federation.Warn, ""), offloading(both, federation.Warn, "it"), nil},
		{"a selector that matches nothing", offloading(both, federation.Warn, ""), offloading(both, federation.Warn, "fr"),
			[]string{nowhere, "cluster milan stores data: the remote namespace stays", "leaves 1 pod(s)"}},
		{"the same selector", offloading(both, federation.Evict, "fr"), offloading(federation.Local, federation.Evict, "fr"),
			nil},
		{"nothing new", offloading(federation.Remote, federation.Warn, ""),
			offloading(federation.Remote, federation.Warn, ""), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			install.Install(scheme)
			_, plans := aCluster(t)
			strategy := Kind(plans).Strategy(scheme)
			got := strategy.WarningsOnCreate(t.Context(), test.new)
			if test.old != nil {
				got = strategy.WarningsOnUpdate(t.Context(), test.new, test.old)
			}
			if len(got) != len(test.message) {
				t.Fatalf("the warnings are %q, want %q", got, test.message)
			}
			for i, message := range test.message {
				if !strings.Contains(got[i], message) {
					t.Errorf("got the warning %q, want %q", got[i], message)
				}
			}
		})
	}
}

func TestWarningsCountThePodsThatWaitForNodesOfAnEarlierSpec(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	kube, plans := aCluster(t)
	waiting := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "waiting", Namespace: "web", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1",
			Kind: "ReplicaSet", Name: "web", Controller: ptr.To(true)}},
	}}
	if err := kube.Tracker().Add(waiting); err != nil {
		t.Fatal(err)
	}
	got := Kind(plans).Strategy(scheme).WarningsOnCreate(t.Context(), &federation.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Name: "offloading", Namespace: "web"},
		Spec: federation.NamespaceOffloadingSpec{PodOffloadingStrategy: federation.Remote,
			Enforcement: federation.Warn},
	})
	if len(got) != 1 || !strings.Contains(got[0], "leaves 3 pod(s)") || !strings.Contains(got[0], "waiting") {
		t.Errorf("the warnings are %q", got)
	}
}

func TestWarningsCountThePodsWithLocalClaims(t *testing.T) {
	const both, remote = federation.LocalAndRemote, federation.Remote
	const local, virtual = "ssd", "liqo"
	for _, test := range []struct {
		name     string
		class    string
		old, new federation.PodOffloadingStrategy
		warns    bool
	}{
		{"new NamespaceOffloading", local, "", remote, true},
		{"changed strategy", local, both, remote, true},
		{"unchanged strategy", local, remote, remote, false},
		{"pods with claims stay local", local, "", both, false},
		{"claims of the virtual class follow their pods", virtual, both, remote, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			install.Install(scheme)
			kube, plans := aCluster(t)
			if err := kube.Tracker().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "web"},
				Spec: corev1.PodSpec{NodeName: "liqo-milan", Volumes: []corev1.Volume{{
					Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
						ClaimName: "data"}},
				}}}}); err != nil {
				t.Fatal(err)
			}
			for _, obj := range []runtime.Object{
				&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "web"},
					Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &test.class}},
				&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: virtual}, Provisioner: v1alpha1.StorageProvisioner},
				&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: local}, Provisioner: "example.com/ssd"},
			} {
				if err := kube.Tracker().Add(obj); err != nil {
					t.Fatal(err)
				}
			}
			offloading := func(strategy federation.PodOffloadingStrategy) *federation.NamespaceOffloading {
				return &federation.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Name: "offloading", Namespace: "web"},
					Spec: federation.NamespaceOffloadingSpec{PodOffloadingStrategy: strategy, Enforcement: federation.Evict}}
			}
			strategy := Kind(plans).Strategy(scheme)
			got := strategy.WarningsOnCreate(t.Context(), offloading(test.new))
			if test.old != "" {
				got = strategy.WarningsOnUpdate(t.Context(), offloading(test.new), offloading(test.old))
			}
			if len(got) > 1 || len(got) > 0 != test.warns || test.warns && !strings.Contains(got[0], "claims") {
				t.Errorf("the warnings are %q", got)
			}
		})
	}
}

func TestRequestSucceedsIfWarningsCannotBeComputed(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	kube, plans := aCluster(t)
	fakes.React(kube, "list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("the API server is busy")
	})
	got := Kind(plans).Strategy(scheme).WarningsOnCreate(t.Context(), &federation.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Name: "offloading", Namespace: "web"},
		Spec:       federation.NamespaceOffloadingSpec{PodOffloadingStrategy: federation.Local, Enforcement: federation.Warn},
	})
	if len(got) > 0 {
		t.Errorf("the warnings are %q", got)
	}
}

func TestUnoffloadingWarnsAboutVolumesByPolicy(t *testing.T) {
	for policy, want := range map[federation.UnoffloadPolicy]string{
		federation.UnoffloadRefuse: "stays until their data is moved or deleted",
		federation.UnoffloadMove:   "moved to this cluster first",
		federation.UnoffloadRetain: "retained on the provider",
		federation.UnoffloadDelete: "data is deleted",
	} {
		_, plans := aCluster(t)
		got := deletion(plans)(t.Context(), &federation.NamespaceOffloading{
			ObjectMeta: metav1.ObjectMeta{Name: "offloading", Namespace: "web"},
			Spec:       federation.NamespaceOffloadingSpec{Volumes: federation.NamespaceVolumes{OnUnoffload: policy}},
		})
		if len(got) != 1 || !strings.Contains(got[0], "cluster milan stores data: ") || !strings.Contains(got[0], want) {
			t.Errorf("%s: the warnings are %q", policy, got)
		}
	}
	_, plans := aCluster(t)
	plans.Volumes = subresourcetest.List(func() runtime.Object { return &federation.VirtualVolumeList{} })
	if got := deletion(plans)(t.Context(), &federation.NamespaceOffloading{}); len(got) > 0 {
		t.Errorf("without volumes the warnings are %q", got)
	}
}
