// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

const romeID = "5ad4b6a1-0c9e-4f43-9d0b-0c7b1f3a2e11"

func consumer(trust v1alpha1.PeeringTrust, policy v1alpha1.IncomingPolicy) *v1alpha1.ForeignCluster {
	return &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "rome"},
		Spec:       v1alpha1.ForeignClusterSpec{ClusterID: romeID, Trust: trust, IncomingPolicy: policy},
	}
}

func TestTenantsSelectOnlyListedNames(t *testing.T) {
	// With some short IDs, this is a top-level domain, for example xn--90a3ac.
	domain := "xn--" + naming.ShortID(romeID)
	listed := func(names ...string) v1alpha1.IncomingPolicy { return v1alpha1.IncomingPolicy{RemoteNamespaces: names} }
	for _, test := range []struct {
		name         string
		fc           *v1alpha1.ForeignCluster
		installation []string
		remote       string
		refused      string
	}{
		{"a generated name", consumer(v1alpha1.TrustTenant, listed()), nil,
			naming.UniqueRemoteNamespace("external-secrets", "rome", romeID), ""},
		{"a generated name of another cluster", consumer(v1alpha1.TrustTenant, listed()), nil,
			naming.UniqueRemoteNamespace("web", "rome", "b7f1c9d2-8a31-4c5e-b3f6-2d9e8c7a6f22"), "use the mapping DefaultName"},
		{"a domain that ends like a generated name", consumer(v1alpha1.TrustTenant, listed()), nil, domain,
			"top-level domain"},
		{"such a domain, same owner", consumer(v1alpha1.TrustSameOwner, listed()), nil, domain, "top-level domain"},
		{"such a domain that is listed", consumer(v1alpha1.TrustTenant, listed(domain)), nil, domain, ""},
		{"a well-known name", consumer(v1alpha1.TrustTenant, listed()), nil, "external-secrets",
			"spec.incomingPolicy.remoteNamespaces of ForeignCluster rome"},
		{"a name that the ForeignCluster lists", consumer(v1alpha1.TrustTenant, listed("team-a-*")), nil, "team-a-web", ""},
		{"a name that only the installation lists", consumer(v1alpha1.TrustTenant, listed("team-a-*")),
			[]string{"team-b-*"}, "team-b-web", "does not permit"},
		{"a name that the installation lists", consumer(v1alpha1.TrustTenant, listed()), []string{"team-b-*"},
			"team-b-web", ""},
		{"a domain that is listed", consumer(v1alpha1.TrustTenant, listed("prod", "dev")), nil, "dev", ""},
		{"a domain that a pattern matches", consumer(v1alpha1.TrustTenant, listed("de*")), nil, "dev", "top-level domain"},
		{"any name, same owner", consumer(v1alpha1.TrustSameOwner, listed()), nil, "external-secrets", ""},
		{"any name, version v0.1.0", consumer("", listed()), nil, "external-secrets", ""},
		{"a domain, same owner", consumer(v1alpha1.TrustSameOwner, listed()), nil, "dev", "top-level domain"},
		{"a domain that is listed, same owner", consumer(v1alpha1.TrustSameOwner, listed("*", "dev")), nil, "dev", ""},
		{"a name that is not listed, same owner", consumer(v1alpha1.TrustSameOwner, listed("dev")), nil, "web",
			"does not permit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := RefuseName(test.fc, test.installation, test.remote)
			if (err != nil) != (test.refused != "") || err != nil && !strings.Contains(err.Error(), test.refused) {
				t.Errorf("%s: got %v, want %q", test.remote, err, test.refused)
			}
		})
	}
}

func TestLimitsComeFromForeignClusterInstallationAndTrust(t *testing.T) {
	pods := func(policy v1alpha1.PodPolicy) v1alpha1.IncomingPolicy { return v1alpha1.IncomingPolicy{Pods: policy} }
	installation := &v1alpha1.PodPolicy{Tolerations: []string{"gpu"}, MaxGracePeriodSeconds: ptr.To[int64](60)}
	for _, test := range []struct {
		name         string
		fc           *v1alpha1.ForeignCluster
		installation *v1alpha1.PodPolicy
		want         *v1alpha1.PodPolicy
	}{
		{"same owner", consumer(v1alpha1.TrustSameOwner, pods(v1alpha1.PodPolicy{})), &v1alpha1.PodPolicy{}, nil},
		{"version v0.1.0", consumer("", pods(v1alpha1.PodPolicy{})), &v1alpha1.PodPolicy{}, nil},
		{"tenant", consumer(v1alpha1.TrustTenant, pods(v1alpha1.PodPolicy{})), &v1alpha1.PodPolicy{},
			&v1alpha1.PodPolicy{MaxGracePeriodSeconds: ptr.To[int64](3600)}},
		{"tenant and installation", consumer(v1alpha1.TrustTenant, pods(v1alpha1.PodPolicy{})), installation, installation},
		{"same owner and installation", consumer(v1alpha1.TrustSameOwner, pods(v1alpha1.PodPolicy{})), installation,
			&v1alpha1.PodPolicy{
				Tolerations: []string{"gpu"}, RuntimeClasses: []string{"*"}, MetadataKeys: []string{"*"},
				MaxGracePeriodSeconds: ptr.To[int64](60),
			}},
		{"all three", consumer(v1alpha1.TrustTenant, pods(v1alpha1.PodPolicy{
			Tolerations: []string{"dedicated"}, RuntimeClasses: []string{"gvisor"},
		})), installation, &v1alpha1.PodPolicy{
			Tolerations: []string{"dedicated"}, RuntimeClasses: []string{"gvisor"},
			MaxGracePeriodSeconds: ptr.To[int64](60),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Pods(test.fc, test.installation)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestObjectsOfTenantsAreLimited(t *testing.T) {
	certificates := []metav1.GroupVersionResource{{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}}
	const counted = "count/certificates.cert-manager.io"
	objects := func(number string) v1alpha1.IncomingPolicy {
		return v1alpha1.IncomingPolicy{Objects: corev1.ResourceList{counted: resource.MustParse(number)}}
	}
	for _, test := range []struct {
		name         string
		fc           *v1alpha1.ForeignCluster
		installation corev1.ResourceList
		// want is the limit of each name; empty if there is none.
		want map[corev1.ResourceName]string
	}{
		{"tenant", consumer(v1alpha1.TrustTenant, v1alpha1.IncomingPolicy{}), nil,
			map[corev1.ResourceName]string{counted: "100", "count/secrets": "100", "services.nodeports": "0"}},
		{"tenant and installation", consumer(v1alpha1.TrustTenant, v1alpha1.IncomingPolicy{}),
			corev1.ResourceList{counted: resource.MustParse("5")}, map[corev1.ResourceName]string{counted: "5"}},
		{"all three", consumer(v1alpha1.TrustTenant, objects("7")), corev1.ResourceList{counted: resource.MustParse("5")},
			map[corev1.ResourceName]string{counted: "7", "count/ingresses.networking.k8s.io": "20"}},
		{"same owner", consumer(v1alpha1.TrustSameOwner, v1alpha1.IncomingPolicy{}), nil,
			map[corev1.ResourceName]string{counted: "", "count/secrets": "", "services.nodeports": ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Objects(test.fc, test.installation, certificates)
			for name, want := range test.want {
				text := ""
				if limit, found := got[name]; found {
					text = limit.String()
				}
				if text != want {
					t.Errorf("%s: got %q, want %q", name, text, want)
				}
			}
		})
	}
}

func TestKeptCIDRsComeFromForeignClusterInstallationAndTrust(t *testing.T) {
	all, own, installation := []string{"0.0.0.0/0", "::/0"}, []string{"10.64.0.0/10"}, []string{"10.128.0.0/9", "fd00::/8"}
	for _, test := range []struct {
		name               string
		trust              v1alpha1.PeeringTrust
		peer, installation []string
		want               []string
	}{
		{"version v0.1.0", "", nil, nil, all},
		{"same owner", v1alpha1.TrustSameOwner, nil, nil, all},
		{"tenant", v1alpha1.TrustTenant, nil, nil, nil},
		{"tenant and installation", v1alpha1.TrustTenant, nil, installation, installation},
		{"same owner and installation", v1alpha1.TrustSameOwner, nil, installation, installation},
		{"all three", v1alpha1.TrustTenant, own, installation, own},
		{"same owner with its own", v1alpha1.TrustSameOwner, own, nil, own},
	} {
		t.Run(test.name, func(t *testing.T) {
			fc := consumer(test.trust, v1alpha1.IncomingPolicy{})
			fc.Spec.KeepCIDRs = test.peer
			if diff := cmp.Diff(test.want, KeepCIDRs(fc, test.installation)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMaxRemoteNamespacesComesFromForeignClusterInstallationAndTrust(t *testing.T) {
	most := func(n int32) v1alpha1.IncomingPolicy { return v1alpha1.IncomingPolicy{MaxRemoteNamespaces: &n} }
	for _, test := range []struct {
		name         string
		fc           *v1alpha1.ForeignCluster
		installation int32
		want         int32
	}{
		{"tenant", consumer(v1alpha1.TrustTenant, v1alpha1.IncomingPolicy{}), 0, 20},
		{"same owner", consumer(v1alpha1.TrustSameOwner, v1alpha1.IncomingPolicy{}), 0, 0},
		{"version v0.1.0", consumer("", v1alpha1.IncomingPolicy{}), 0, 0},
		{"tenant and installation", consumer(v1alpha1.TrustTenant, v1alpha1.IncomingPolicy{}), 200, 200},
		{"same owner and installation", consumer(v1alpha1.TrustSameOwner, v1alpha1.IncomingPolicy{}), 7, 7},
		{"all three", consumer(v1alpha1.TrustTenant, most(3)), 7, 3},
		{"more than the installation", consumer(v1alpha1.TrustTenant, most(300)), 7, 300},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := MaxRemoteNamespaces(test.fc, test.installation); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestPodsAreWithinTheLimits(t *testing.T) {
	tenant := Pods(consumer(v1alpha1.TrustTenant, v1alpha1.IncomingPolicy{}), &v1alpha1.PodPolicy{})
	gpu := &v1alpha1.PodPolicy{
		Tolerations: []string{"nvidia.com/*"}, RuntimeClasses: []string{"gvisor", "kata"},
		MetadataKeys: []string{"k8s.v1.cni.cncf.io/networks"},
	}
	tolerating := func(keys ...string) corev1.PodTemplateSpec {
		var pod corev1.PodTemplateSpec
		for _, key := range keys {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
		}
		return pod
	}
	annotated := func(key string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: "x"}}}
	}
	labelled := func(key string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{key: "x"}}}
	}
	class := func(name string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{RuntimeClassName: &name}}
	}
	grace := func(seconds int64) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &seconds}}
	}
	onlyOne := tolerating("dedicated")
	onlyOne.Spec.Tolerations[0] = corev1.Toleration{Key: "dedicated", Value: "a", Effect: corev1.TaintEffectNoSchedule}
	otherValue := annotated("k8s.v1.cni.cncf.io/networks")
	otherValue.Annotations["k8s.v1.cni.cncf.io/networks"] = "y"
	for _, test := range []struct {
		name   string
		policy *v1alpha1.PodPolicy
		pod    corev1.PodTemplateSpec
		old    *corev1.PodTemplateSpec
		// want is the field of the error; empty if there is none.
		want string
	}{
		{"defaults", tenant, grace(30), nil, ""},
		{"taints of Kubernetes", tenant, tolerating("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"), nil, ""},
		{"a custom taint", tenant, tolerating("node.kubernetes.io/not-ready", "dedicated"), nil, "spec.tolerations[1].key"},
		{"a permitted taint", gpu, tolerating("nvidia.com/gpu"), nil, ""},
		{"a taint before an update", tenant, tolerating("dedicated"), ptr.To(tolerating("dedicated")), ""},
		{"a taint of an update", tenant, tolerating("dedicated", "gpu"), ptr.To(tolerating("dedicated")),
			"spec.tolerations[1].key"},
		{"a changed toleration of a taint before an update", tenant, tolerating("dedicated"), &onlyOne,
			"spec.tolerations[0].key"},
		{"a network", tenant, annotated("k8s.v1.cni.cncf.io/networks"), nil,
			"metadata.annotations[k8s.v1.cni.cncf.io/networks]"},
		{"a network before an update", tenant, annotated("k8s.v1.cni.cncf.io/networks"),
			ptr.To(annotated("k8s.v1.cni.cncf.io/networks")), ""},
		{"another network before an update", tenant, annotated("k8s.v1.cni.cncf.io/networks"), &otherValue,
			"metadata.annotations[k8s.v1.cni.cncf.io/networks]"},
		{"a permitted network", gpu, annotated("k8s.v1.cni.cncf.io/networks"), nil, ""},
		{"a label of an identity", tenant, labelled("azure.workload.identity/use"), nil,
			"metadata.labels[azure.workload.identity/use]"},
		{"a label before an update", tenant, labelled("azure.workload.identity/use"),
			ptr.To(labelled("azure.workload.identity/use")), ""},
		{"a sidecar, which stays local", tenant, annotated("sidecar.istio.io/inject"), nil, ""},
		{"a runtime class", tenant, class("kata"), nil, "spec.runtimeClassName"},
		{"a permitted runtime class", gpu, class("kata"), nil, ""},
		{"another runtime class", gpu, class("runc"), nil, "spec.runtimeClassName"},
		{"an hour", tenant, grace(3600), nil, ""},
		{"more than an hour", tenant, grace(3601), nil, "spec.terminationGracePeriodSeconds"},
	} {
		t.Run(test.name, func(t *testing.T) {
			errs := Refusals(test.policy, &test.pod, test.old, field.NewPath("spec"), "rome")
			got := ""
			if len(errs) > 0 {
				got = errs[0].Field
			}
			if len(errs) > 1 || got != test.want {
				t.Errorf("got %v, want an error of %q", errs, test.want)
			}
			if len(errs) > 0 && !strings.Contains(errs[0].Detail, "spec.incomingPolicy.pods.") {
				t.Errorf("the error names no remedy: %v", errs[0])
			}
		})
	}
}

func TestLocalMetadataStaysOnTheConsumer(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{"app": "web", "istio.io/rev": "default"},
		Annotations: map[string]string{"example.com/team": "a", "karpenter.sh/do-not-disrupt": "true"},
	}}
	WithoutLocal(nil, pod)
	if len(pod.Labels) != 2 || len(pod.Annotations) != 2 {
		t.Errorf("without limits, got %v and %v", pod.Labels, pod.Annotations)
	}
	WithoutLocal(&v1alpha1.PodPolicy{}, pod)
	want := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"example.com/team": "a"},
	}}
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Error(diff)
	}
}

func TestContainersWithoutLimitsAreRefused(t *testing.T) {
	limits := func(pairs ...string) corev1.ResourceList {
		list := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return list
	}
	container := func(name string, pairs ...string) corev1.Container {
		list := limits(pairs...)
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}
	}
	both := container("web", "memory", "1Gi", "ephemeral-storage", "1Gi")
	memory, storage := container("web", "memory", "1Gi"), container("web", "ephemeral-storage", "1Gi")
	spec := func(containers ...corev1.Container) corev1.PodSpec { return corev1.PodSpec{Containers: containers} }
	initial, ofPod := spec(both), spec(storage)
	initial.InitContainers = []corev1.Container{container("setup", "memory", "1Gi")}
	ofPod.Resources = &corev1.ResourceRequirements{Requests: limits("memory", "2Gi"), Limits: limits("memory", "2Gi")}
	burst := func(memory string) corev1.PodSpec {
		pod := spec(container("web", "memory", memory, "ephemeral-storage", "1Gi"))
		pod.Containers[0].Resources.Requests = limits("memory", "1Gi", "ephemeral-storage", "2Gi")
		return pod
	}
	required := v1alpha1.IncomingPolicy{Pods: v1alpha1.PodPolicy{Limits: v1alpha1.PodLimitsRequired}}
	for _, test := range []struct {
		name      string
		policy    v1alpha1.IncomingPolicy
		installed string
		pod       corev1.PodSpec
		old       *corev1.PodSpec
		// want are the fields of the errors, and named a word in the first of them.
		want  []string
		named string
	}{
		{name: "the default", pod: spec(container("web"))},
		{name: "the field has precedence", installed: "Required", pod: spec(container("web")),
			policy: v1alpha1.IncomingPolicy{Pods: v1alpha1.PodPolicy{Limits: v1alpha1.PodLimitsAny}}},
		{name: "the value", installed: "Required", pod: spec(memory),
			want:  []string{"spec.containers[0].resources.limits[ephemeral-storage]"},
			named: "container web has a limit for ephemeral-storage"},
		{name: "both limits", policy: required, pod: spec(both)},
		{name: "no limits", policy: required, pod: spec(both, container("sidecar")), want: []string{
			"spec.containers[1].resources.limits[memory]", "spec.containers[1].resources.limits[ephemeral-storage]",
		}, named: "container sidecar has a limit for memory"},
		{name: "a limit of 0", policy: required, pod: spec(container("web", "memory", "0", "ephemeral-storage", "1Gi")),
			want: []string{"spec.containers[0].resources.limits[memory]"}, named: "policy.pods.limits"},
		{name: "an init container", policy: required, pod: initial,
			want: []string{"spec.initContainers[0].resources.limits[ephemeral-storage]"}, named: "container setup"},
		{name: "a limit of the pod", policy: required, pod: ofPod,
			want: []string{"spec.containers[0].resources.limits[memory]"}, named: "container web"},
		{name: "a limit above the request", policy: required, pod: burst("1025Mi"),
			want: []string{"spec.containers[0].resources.limits[memory]"}, named: "not greater than its request"},
		{name: "limits of at most the requests", policy: required, pod: burst("1Gi")},
		{name: "an update that raises a limit above the request", policy: required, pod: burst("1Ei"),
			old: ptr.To(burst("1Gi")), want: []string{"spec.containers[0].resources.limits[memory]"}, named: "container web"},
		{name: "an update of a pod without limits", policy: required, pod: spec(storage), old: ptr.To(spec(storage))},
		{name: "an update that removes a limit", policy: required, pod: spec(storage), old: ptr.To(spec(both)),
			want: []string{"spec.containers[0].resources.limits[memory]"}, named: "spec.incomingPolicy.pods.limits"},
	} {
		for _, trust := range []v1alpha1.PeeringTrust{v1alpha1.TrustTenant, v1alpha1.TrustSameOwner} {
			t.Run(test.name+", "+string(trust), func(t *testing.T) {
				flags := PodFlags{Limits: test.installed}
				policy := flags.PodLimits(consumer(trust, test.policy))
				if policy == nil {
					policy = &v1alpha1.PodPolicy{}
				}
				var old *corev1.PodTemplateSpec
				if test.old != nil {
					old = &corev1.PodTemplateSpec{Spec: *test.old}
				}
				errs := Refusals(policy, &corev1.PodTemplateSpec{Spec: test.pod}, old, field.NewPath("spec"), "rome")
				var got []string
				for _, err := range errs {
					got = append(got, err.Field)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("fields (-want +got):\n%s", diff)
				}
				if len(errs) > 0 && !strings.Contains(errs[0].Detail, test.named) {
					t.Errorf("the error does not name %q: %v", test.named, errs[0])
				}
			})
		}
	}
}

func TestDefaultRuntimeClassIsTheFirstInThePolicy(t *testing.T) {
	for _, test := range []struct {
		name   string
		policy *v1alpha1.PodPolicy
		want   *string
	}{
		{"no policy", nil, nil},
		{"no RuntimeClass", &v1alpha1.PodPolicy{}, nil},
		{"one", &v1alpha1.PodPolicy{RuntimeClasses: []string{"kata"}}, ptr.To("kata")},
		{"several", &v1alpha1.PodPolicy{RuntimeClasses: []string{"kata", "gvisor"}}, ptr.To("kata")},
		{"all", &v1alpha1.PodPolicy{RuntimeClasses: []string{"*"}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, RuntimeClass(test.policy)); diff != "" {
				t.Errorf("RuntimeClass (-want +got):\n%s", diff)
			}
		})
	}
}
