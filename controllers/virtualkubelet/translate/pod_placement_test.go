// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
)

// podOf returns a pod in namespace demo, modified by change.
func podOf(change func(*corev1.PodSpec)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "demo", Name: "web", UID: "uid", Labels: map[string]string{"app": "web", "hash": "one"},
	}}
	change(&pod.Spec)
	return pod
}

func selects(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}},
	}
}

func TestPodAffinityIsLimitedToThePodsNamespace(t *testing.T) {
	web := selects("app", metav1.LabelSelectorOpIn, "web")
	hosts := func(change func(*corev1.PodAffinityTerm)) corev1.PodAffinityTerm {
		term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: web}
		if change != nil {
			change(&term)
		}
		return *term.DeepCopy()
	}
	none := corev1.PodAffinityTerm{}
	for _, test := range []struct {
		name string
		// term is the affinity term of the local pod. together and apart are the forwarded terms if it is an affinity and an
		// anti-affinity; empty means dropped.
		term, together, apart corev1.PodAffinityTerm
	}{
		{"of its own namespace", hosts(nil), hosts(nil), hosts(nil)},
		{
			"of its own namespace by name",
			hosts(func(t *corev1.PodAffinityTerm) { t.Namespaces = []string{"demo"} }), hosts(nil), hosts(nil),
		},
		{
			"of another namespace", hosts(func(t *corev1.PodAffinityTerm) { t.Namespaces = []string{"other"} }), none,
			none,
		},
		{
			"of its own namespace and another one",
			hosts(func(t *corev1.PodAffinityTerm) { t.Namespaces = []string{"other", "demo"} }), none, hosts(nil),
		},
		{
			"of all namespaces",
			hosts(func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = &metav1.LabelSelector{} }), none, hosts(nil),
		},
		{
			"of some namespaces",
			hosts(
				func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = selects("team", metav1.LabelSelectorOpExists) },
			), none, none,
		},
		{
			"of several namespaces, including its own",
			hosts(func(t *corev1.PodAffinityTerm) {
				t.NamespaceSelector, t.Namespaces = selects("team", metav1.LabelSelectorOpExists), []string{"demo"}
			}), none, hosts(nil),
		},
		{
			"of the same provider",
			hosts(func(t *corev1.PodAffinityTerm) { t.TopologyKey = "liqo.io/remote-cluster-id" }), none, none,
		},
		{
			"of the same region", hosts(func(t *corev1.PodAffinityTerm) { t.TopologyKey = "topology.liqo.io/region" }),
			none, none,
		},
		{
			"with label keys that are already merged",
			hosts(func(t *corev1.PodAffinityTerm) {
				t.LabelSelector, t.MatchLabelKeys = selects("hash", metav1.LabelSelectorOpIn, "one"), []string{"hash"}
			}),
			hosts(
				func(t *corev1.PodAffinityTerm) { t.LabelSelector = selects("hash", metav1.LabelSelectorOpIn, "one") },
			),
			hosts(
				func(t *corev1.PodAffinityTerm) { t.LabelSelector = selects("hash", metav1.LabelSelectorOpIn, "one") },
			),
		},
		{
			"with the keys of labels, not merged yet",
			hosts(func(t *corev1.PodAffinityTerm) {
				t.LabelSelector, t.MismatchLabelKeys = &metav1.LabelSelector{}, []string{"hash", "missing"}
			}),
			hosts(
				func(t *corev1.PodAffinityTerm) {
					t.LabelSelector = selects("hash", metav1.LabelSelectorOpNotIn, "one")
				},
			),
			hosts(
				func(t *corev1.PodAffinityTerm) {
					t.LabelSelector = selects("hash", metav1.LabelSelectorOpNotIn, "one")
				},
			),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			required, preferred := []corev1.PodAffinityTerm{
				test.term,
			}, []corev1.WeightedPodAffinityTerm{
				{Weight: 1, PodAffinityTerm: test.term},
			}
			local := podOf(func(s *corev1.PodSpec) {
				s.Affinity = &corev1.Affinity{
					NodeAffinity: &corev1.NodeAffinity{},
					PodAffinity: &corev1.PodAffinity{
						RequiredDuringSchedulingIgnoredDuringExecution:  required,
						PreferredDuringSchedulingIgnoredDuringExecution: preferred,
					},
					PodAntiAffinity: &corev1.PodAntiAffinity{
						RequiredDuringSchedulingIgnoredDuringExecution:  required,
						PreferredDuringSchedulingIgnoredDuringExecution: preferred,
					},
				}
			}).DeepCopy()
			var want *corev1.Affinity
			if test.apart.TopologyKey != "" {
				want = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{test.apart},
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
						{Weight: 1, PodAffinityTerm: test.apart},
					},
				}}
			}
			if test.together.TopologyKey != "" {
				want.PodAffinity = &corev1.PodAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{test.together},
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
						{Weight: 1, PodAffinityTerm: test.together},
					},
				}
			}
			if diff := cmp.Diff(want, ShadowPod(local, "demo-rome", destination, nil).Spec.Pod.Affinity); diff != "" {
				t.Errorf("affinity (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTermsAboutExcludedLabelsAreDropped(t *testing.T) {
	in, not := metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn
	both := func(more ...metav1.LabelSelectorRequirement) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: append(selects("app", in, "web").MatchExpressions, more...)}
	}
	hash := func(operator metav1.LabelSelectorOperator) metav1.LabelSelectorRequirement {
		return selects("hash", operator, "one").MatchExpressions[0]
	}
	for _, test := range []struct {
		name        string
		selector    *metav1.LabelSelector
		match, miss []string
		// want is the selector in the forwarded term; nil means dropped.
		want *metav1.LabelSelector
	}{
		{name: "about another label", selector: both(), want: both()},
		{name: "about that label", selector: &metav1.LabelSelector{MatchLabels: map[string]string{"hash": "one"}}},
		{name: "about that label in an expression", selector: both(hash(not))},
		{name: "with the key of that label, not merged yet", selector: both(), match: []string{"hash"}, want: both()},
		{
			name: "with the key of that label, already merged", selector: both(hash(in)),
			match: []string{"hash"}, want: both(),
		},
		{name: "with a mismatch key of that label", selector: both(hash(not)), miss: []string{"hash"}, want: both()},
		{
			name:     "with the key of that label and another expression about it",
			selector: both(hash(in), hash(metav1.LabelSelectorOpExists)), match: []string{"hash"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			term := corev1.PodAffinityTerm{
				TopologyKey:       corev1.LabelHostname,
				LabelSelector:     test.selector.DeepCopy(),
				MatchLabelKeys:    test.match,
				MismatchLabelKeys: test.miss,
			}
			local := podOf(func(s *corev1.PodSpec) {
				s.Affinity = &corev1.Affinity{
					PodAffinity: &corev1.PodAffinity{
						RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term},
					},
					PodAntiAffinity: &corev1.PodAntiAffinity{
						PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
							{Weight: 1, PodAffinityTerm: term},
						},
					},
				}
				if len(test.miss) == 0 {
					s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
						{
							TopologyKey: corev1.LabelHostname, LabelSelector: test.selector.DeepCopy(),
							MatchLabelKeys: test.match,
						},
					}
				}
			})
			var got []*metav1.LabelSelector
			spec := ShadowPod(
				local,
				"demo-rome",
				destination,
				&v1alpha1.OffloadingPatch{ExcludedLabels: []string{"hash"}},
			).Spec.Pod
			if spec.Affinity != nil {
				preferred := spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0]
				got = append(got,
					spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector,
					preferred.PodAffinityTerm.LabelSelector)
			}
			for _, constraint := range spec.TopologySpreadConstraints {
				got = append(got, constraint.LabelSelector)
			}
			var want []*metav1.LabelSelector
			if test.want != nil {
				want = append(want, test.want, test.want)
				if len(test.miss) == 0 {
					want = append(want, test.want)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("selectors (-want +got):\n%s", diff)
			}
		})
	}
}

// For arbitrary affinities, the forwarded ones pass the provider's validation.
func TestForwardedAffinitiesAreValid(t *testing.T) {
	keys := rapid.SampledFrom(
		[]string{corev1.LabelHostname, corev1.LabelTopologyZone, "liqo.io/remote-cluster-id", "rack"},
	)
	selectors := rapid.SampledFrom(
		[]*metav1.LabelSelector{
			nil,
			{},
			selects("app", metav1.LabelSelectorOpIn, "web"),
			selects("team", metav1.LabelSelectorOpExists),
		},
	)
	affinityTerms := rapid.Custom(func(t *rapid.T) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{
			TopologyKey: keys.Draw(
				t,
				"topology",
			),
			LabelSelector:     selectors.Draw(t, "labels").DeepCopy(),
			NamespaceSelector: selectors.Draw(t, "namespaces").DeepCopy(),
			Namespaces: rapid.SliceOfN(rapid.SampledFrom([]string{"demo", "other", "demo-rome", "kube-system"}), 0, 3).
				Draw(t, "names"),
			MatchLabelKeys: rapid.SliceOfN(rapid.SampledFrom([]string{"app", "hash", "missing"}), 0, 2).Draw(t, "keys"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		list := func(name string) []corev1.PodAffinityTerm { return rapid.SliceOfN(affinityTerms, 0, 4).Draw(t, name) }
		local := podOf(func(s *corev1.PodSpec) {
			s.Containers = []corev1.Container{{Name: "app", Image: "app:1"}}
			s.Affinity = &corev1.Affinity{
				PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: list("together")},
				PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: list("apart")},
			}
		})
		got := ShadowPod(local, "demo-rome", destination, nil)
		if errs := validation.ValidateShadowPod(
			&federation.ShadowPod{ObjectMeta: got.ObjectMeta, Spec: federation.ShadowPodSpec{Pod: got.Spec.Pod}},
		); len(
			errs,
		) > 0 {
			t.Fatalf("the provider refuses %v", errs)
		}
	})
}

func TestSpreadConstraintsOfVirtualNodesAreDropped(t *testing.T) {
	over := func(key string) corev1.TopologySpreadConstraint {
		return corev1.TopologySpreadConstraint{
			MaxSkew:           1,
			TopologyKey:       key,
			WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector:     selects("hash", metav1.LabelSelectorOpIn, "one"),
		}
	}
	merged := over(corev1.LabelTopologyZone)
	merged.MatchLabelKeys = []string{"hash"}
	local := podOf(func(s *corev1.PodSpec) {
		s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			over(corev1.LabelHostname),
			merged,
			over("liqo.io/remote-cluster-id"),
		}
	})
	want := []corev1.TopologySpreadConstraint{over(corev1.LabelHostname), over(corev1.LabelTopologyZone)}
	if diff := cmp.Diff(
		want,
		ShadowPod(local, "demo-rome", destination, nil).Spec.Pod.TopologySpreadConstraints,
	); diff != "" {
		t.Errorf("topology spreadConstraints (-want +got):\n%s", diff)
	}
}

func TestDownwardAPIHasTheFieldsOfTheLocalPod(t *testing.T) {
	at := func(path string) *corev1.ObjectFieldSelector { return &corev1.ObjectFieldSelector{FieldPath: path} }
	env := func(path string) corev1.EnvVar {
		return corev1.EnvVar{Name: "X", ValueFrom: &corev1.EnvVarSource{FieldRef: at(path)}}
	}
	file := func(path string) corev1.DownwardAPIVolumeFile {
		return corev1.DownwardAPIVolumeFile{Path: "x", FieldRef: at(path)}
	}
	const (
		namespace = "metadata.annotations['offloading.liqo.io/origin-namespace']"
		uid       = "metadata.annotations['offloading.liqo.io/origin-uid']"
	)
	const node = "metadata.labels['offloading.liqo.io/virtual-node']"
	here := []corev1.EnvVar{
		env("metadata.name"),
		env("metadata.namespace"),
		env("metadata.uid"),
		env("metadata.labels['app']"),
		env(
			"spec.nodeName",
		),
		env("spec.serviceAccountName"),
		env("status.podIP"),
		env("status.hostIP"),
		{Name: "PLAIN", Value: "x"},
	}
	there := []corev1.EnvVar{
		env("metadata.name"), env(namespace), env(uid), env("metadata.labels['app']"),
		env(node), {Name: "X", Value: "robot"}, env("status.podIP"), env("status.hostIP"), {Name: "PLAIN", Value: "x"},
	}
	files := func(files ...corev1.DownwardAPIVolumeFile) []corev1.Volume {
		return []corev1.Volume{
			{Name: "a", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: files}}},
			projected("b", corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: files}}),
		}
	}
	spec := func(env []corev1.EnvVar, volumes []corev1.Volume) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.ServiceAccountName = "robot"
			s.Containers = []corev1.Container{{Name: "app", Env: env}}
			s.InitContainers = []corev1.Container{{Name: "init", Env: env}}
			s.EphemeralContainers = []corev1.EphemeralContainer{
				{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Env: env}},
			}
			s.Volumes = volumes
		}
	}
	local := podOf(
		spec(here, files(file("metadata.namespace"), file("metadata.uid"), file("metadata.labels"))),
	).DeepCopy()
	got := ShadowPod(local, "demo-rome", destination, nil).Spec.Pod
	want := podOf(spec(there, files(file(namespace), file(uid), file("metadata.labels")))).Spec
	for what, diff := range map[string]string{
		"containers":           cmp.Diff(want.Containers, got.Containers),
		"init containers":      cmp.Diff(want.InitContainers, got.InitContainers),
		"ephemeral containers": cmp.Diff(want.EphemeralContainers, got.EphemeralContainers),
		"volumes":              cmp.Diff(want.Volumes, got.Volumes),
	} {
		if diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}
