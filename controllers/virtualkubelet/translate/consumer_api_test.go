// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// withConsumerAPI returns a Destination with the endpoint of the consumer's API server.
func withConsumerAPI(host string) Destination {
	to := destination
	to.ConsumerAPI = ConsumerAPI{Host: host, Port: "6443"}
	return to
}

func namespaceFile(field string) corev1.VolumeProjection {
	return corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
		{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: field}},
		{Path: "name", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}},
	}}}
}

func secretToken(key, path string) corev1.VolumeProjection {
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{
			Name: "tokens-uid",
		},
		Items: []corev1.KeyToPath{{Key: key, Path: path}},
	}}
}

// client returns a pod with the token that the ServiceAccount admission plugin mounts and another token.
func client() *corev1.Pod {
	vault := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
		Path: "vault", Audience: "vault", ExpirationSeconds: ptr.To[int64](600),
	}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", UID: "uid"},
		Spec: corev1.PodSpec{
			ServiceAccountName: "robot",
			InitContainers: []corev1.Container{
				{
					Name: "init",
					VolumeMounts: []corev1.VolumeMount{
						{Name: "kube-api-access-abcde", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"},
					},
				},
			},
			Containers: []corev1.Container{
				{Name: "app", Env: []corev1.EnvVar{{Name: "API", Value: "$(KUBERNETES_SERVICE_HOST)"}}},
			},
			Volumes: []corev1.Volume{
				projected("settings", configMap("settings"), namespaceFile("metadata.namespace")),
				projected(
					"kube-api-access-abcde", token(), configMap("kube-root-ca.crt"),
					namespaceFile("metadata.namespace"),
				),
				projected("more", configMap("settings"), vault, certificate()),
			},
		},
	}
}

func TestClientsAreRedirectedToTheConsumersAPI(t *testing.T) {
	names := []string{
		"kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "kubernetes.default", "kubernetes",
	}
	env := func(host string) []corev1.EnvVar {
		return []corev1.EnvVar{
			{
				Name:  "KUBERNETES_SERVICE_HOST",
				Value: host,
			},
			{Name: "KUBERNETES_SERVICE_PORT", Value: "6443"},
			{Name: "KUBERNETES_SERVICE_PORT_HTTPS", Value: "6443"},
		}
	}
	for _, test := range []struct {
		name string
		host string
		pod  func(*corev1.Pod)
		// wantHost and aliases are the expected values; empty if the pod does not use the consumer's API server.
		wantHost string
		aliases  []corev1.HostAlias
	}{
		{
			name: "an address, by a name in its certificate", host: "192.0.2.7", wantHost: "kubernetes.default.svc",
			aliases: []corev1.HostAlias{{IP: "192.0.2.7", Hostnames: names}},
		},
		{
			name: "an IPv6 address", host: "2001:db8::7", wantHost: "kubernetes.default.svc",
			aliases: []corev1.HostAlias{{IP: "2001:db8::7", Hostnames: names}},
		},
		{name: "a name", host: "rome.example.com", wantHost: "rome.example.com"},
		{
			name: "host names with other aliases are kept", host: "192.0.2.7", wantHost: "kubernetes.default.svc",
			pod: func(p *corev1.Pod) {
				p.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.9", Hostnames: []string{"kubernetes", "db"}}}
			},
			aliases: []corev1.HostAlias{
				{IP: "192.0.2.9", Hostnames: []string{"kubernetes", "db"}}, {IP: "192.0.2.7", Hostnames: names[:3]},
			},
		},
		{
			name: "explicitly enabled", host: "rome.example.com", wantHost: "rome.example.com",
			pod: func(p *corev1.Pod) { p.Annotations = map[string]string{"liqo.io/api-access": "Consumer"} },
		},
		{
			name: "disabled by the pod", host: "192.0.2.7",
			pod: func(p *corev1.Pod) { p.Annotations = map[string]string{"liqo.io/api-access": "Disabled"} },
		},
		{
			name: "invalid annotation", host: "192.0.2.7",
			pod: func(p *corev1.Pod) { p.Annotations = map[string]string{"liqo.io/api-access": "consumer"} },
		},
		{name: "unreachable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := client()
			if test.pod != nil {
				test.pod(pod)
			}
			before := pod.DeepCopy()
			got := ShadowPod(pod, "demo-rome", withConsumerAPI(test.host), nil)
			if diff := cmp.Diff(before, pod); diff != "" {
				t.Errorf("the local pod was changed:\n%s", diff)
			}
			if test.wantHost == "" {
				if diff := cmp.Diff(ShadowPod(pod, "demo-rome", destination, nil), got); diff != "" {
					t.Errorf("the shadow pod differs from one without a consumer's API server (-want +got):\n%s", diff)
				}
				if got.Annotations[v1alpha1.AnnotationTokenSecret] != "" ||
					len(got.Spec.Pod.InitContainers[0].VolumeMounts) != 0 {
					t.Errorf("the shadow pod has tokens: %+v", got)
				}
				return
			}
			if diff := cmp.Diff(test.aliases, got.Spec.Pod.HostAliases, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("aliases (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(env(test.wantHost), got.Spec.Pod.InitContainers[0].Env); diff != "" {
				t.Errorf("variables of the first container (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(
				append(env(test.wantHost), pod.Spec.Containers[0].Env...),
				got.Spec.Pod.Containers[0].Env,
			); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
			const local = "metadata.annotations['offloading.liqo.io/origin-namespace']"
			want := []corev1.Volume{
				projected("settings", configMap("settings"), namespaceFile(local)),
				projected(
					"kube-api-access-abcde",
					secretToken("token-1-0", "token"),
					configMap("kube-root-ca.crt.home"),
					namespaceFile(local),
				),
				projected("more", configMap("settings"), secretToken("token-2-1", "vault")),
			}
			if diff := cmp.Diff(want, got.Spec.Pod.Volumes); diff != "" {
				t.Errorf("volumes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(
				pod.Spec.InitContainers[0].VolumeMounts,
				got.Spec.Pod.InitContainers[0].VolumeMounts,
			); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
			if got.Annotations[v1alpha1.AnnotationTokenSecret] != "tokens-uid" ||
				got.Annotations[v1alpha1.AnnotationOriginNamespace] != "demo" {
				t.Errorf("annotations %v", got.Annotations)
			}
		})
	}
}

func TestAPodWithoutTokensGetsNone(t *testing.T) {
	pod := client()
	pod.Spec.Volumes = pod.Spec.Volumes[:1]
	pod.Annotations = map[string]string{v1alpha1.AnnotationTokenSecret: "tokens-of-another"}
	got := ShadowPod(pod, "demo-rome", withConsumerAPI("192.0.2.7"), nil)
	if _, named := got.Annotations[v1alpha1.AnnotationTokenSecret]; named || len(Tokens(pod)) != 0 {
		t.Errorf("annotations %v, tokens %v", got.Annotations, Tokens(pod))
	}
	if len(got.Spec.Pod.Containers[0].Env) != 4 {
		t.Errorf("variables %v", got.Spec.Pod.Containers[0].Env)
	}
}

func TestAContainerWithItsOwnServerVariablesIsUnchanged(t *testing.T) {
	for _, name := range []string{"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} {
		pod := client()
		own := []corev1.EnvVar{{Name: name, Value: "1234"}}
		pod.Spec.Containers[0].Env = own
		got := ShadowPod(pod, "demo-rome", withConsumerAPI("192.0.2.7"), nil)
		if diff := cmp.Diff(own, got.Spec.Pod.Containers[0].Env); diff != "" {
			t.Errorf("variables (-want +got):\n%s", diff)
		}
	}
}

func TestTokenSecretOfAShadowPodDoesNotChange(t *testing.T) {
	pod, secret := client(), v1alpha1.AnnotationTokenSecret
	old, current := ShadowPod(
		pod,
		"demo-rome",
		destination,
		nil,
	), ShadowPod(
		pod,
		"demo-rome",
		withConsumerAPI("192.0.2.7"),
		nil,
	)
	if UpdateShadowPod(old.DeepCopy(), current.DeepCopy()) || UpdateShadowPod(current.DeepCopy(), old.DeepCopy()) {
		t.Error("the shadow pod changed although it exists already")
	}
	for name, existing := range map[string]*v1alpha1.ShadowPod{"without tokens": old, "with tokens": current} {
		for _, to := range []Destination{destination, withConsumerAPI("192.0.2.7")} {
			changed, relabelled := existing.DeepCopy(), pod.DeepCopy()
			relabelled.Annotations = map[string]string{"note": "new"}
			if !UpdateShadowPod(changed, ShadowPod(relabelled, "demo-rome", to, nil)) ||
				changed.Annotations["note"] != "new" {
				t.Fatalf("%s: nothing was changed", name)
			}
			if changed.Annotations[secret] != existing.Annotations[secret] {
				t.Errorf("%s: the Secret is %q", name, changed.Annotations[secret])
			}
		}
	}
}
