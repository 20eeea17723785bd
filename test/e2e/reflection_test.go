// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// reflectsWhatPodsNeed runs an offloaded Deployment that mounts a ConfigMap, reads a Secret, and
// serves a Service.
func reflectsWhatPodsNeed(t *testing.T) {
	o := offloaded(t, remoteOnly)
	local, remote := rome.Kube.CoreV1(), milan.Kube.CoreV1()
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"},
		Data: map[string]string{"greeting": "ciao"}}
	must(local.ConfigMaps(o.namespace).Create(t.Context(), settings, metav1.CreateOptions{}))(t)
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key"}, Data: map[string][]byte{"value": []byte("42")}}
	must(local.Secrets(o.namespace).Create(t.Context(), key, metav1.CreateOptions{}))(t)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "web"},
		Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
	must(local.Services(o.namespace).Create(t.Context(), service, metav1.CreateOptions{}))(t)

	spec := podSpec("serve")
	spec.Volumes = []corev1.Volume{
		{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
		{Name: "rome-ca", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}}}},
	}
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "settings", MountPath: "/settings"},
		{Name: "rome-ca", MountPath: "/rome-ca"}}
	spec.Containers[0].Env = []corev1.EnvVar{{Name: "KEY",
		ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "key"}, Key: "value",
		}}}}
	pod := runDeployment(t, o.namespace, "web", 1, spec)[0].Name

	inPod := func(want string, args ...string) {
		t.Helper()
		eventually(t, soon, fmt.Sprintf("%v to print %q in pod %s", args, want, pod),
			func(ctx context.Context) (bool, string, error) {
				result := milan.Kubectl(ctx, append([]string{"exec", "-n", o.remote, pod, "--", tester}, args...)...)
				return result.Code == 0 && strings.TrimSpace(result.Stdout) == want,
					fmt.Sprintf("%q, %v", result.Stdout, result.Err), nil
			})
	}
	inPod("ciao", "read", "/settings/greeting")
	inPod("42", "env", "KEY")
	inPod("hello from "+pod, "get", "http://web/")
	inPod("hello from "+pod, "get", "http://web."+o.remote+".svc.cluster.local/")
	ca := must(local.ConfigMaps(o.namespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{}))(t)
	inPod(strings.TrimSpace(ca.Data["ca.crt"]), "read", "/rome-ca/ca.crt")

	// Changes are reflected, also in the running pod.
	kubectl(t, rome, "patch", "configmap", "settings", "-n", o.namespace, "--type=merge", "-p",
		`{"data":{"greeting":"salve"}}`)
	copyHas := func(value string) harness.Condition {
		return func(ctx context.Context) (bool, string, error) {
			copied, err := remote.ConfigMaps(o.remote).Get(ctx, "settings", metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return copied.Data["greeting"] == value, show(copied.Data), nil
		}
	}
	eventually(t, soon, "the change to be on milan", copyHas("salve"))

	// Changes on milan are reverted.
	kubectl(t, milan, "patch", "configmap", "settings", "-n", o.remote, "--type=merge", "-p",
		`{"data":{"greeting":"drift"}}`)
	eventually(t, soon, "the drift to be repaired", copyHas("salve"))
	address := must(remote.Services(o.remote).Get(t.Context(), "web", metav1.GetOptions{}))(t).Spec.ClusterIP
	must(remote.Services(o.remote).Patch(t.Context(), "web", types.MergePatchType,
		[]byte(`{"spec":{"selector":{"app":"other"}}}`), metav1.PatchOptions{}))(t)
	eventually(t, soon, "the Service to select its pods again, at the same address",
		func(ctx context.Context) (bool, string, error) {
			copied, err := remote.Services(o.remote).Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return copied.Spec.Selector["app"] == "web" && copied.Spec.ClusterIP == address, show(copied.Spec), nil
		})
	kubectl(t, milan, "delete", "secret", "key", "-n", o.remote)
	eventually(t, soon, "the Secret to be reflected again", func(ctx context.Context) (bool, string, error) {
		secrets, err := remote.Secrets(o.remote).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=key"})
		return err == nil && len(secrets.Items) == 1 && string(secrets.Items[0].Data["value"]) == "42", "", err
	})
	isUnchanged(t, o)
	inPod("salve", "read", "/settings/greeting")

	// Deletions are reflected.
	kubectl(t, rome, "delete", "configmap/settings", "secret/key", "service/web", "-n", o.namespace)
	for what, get := range map[string]func(context.Context) error{
		"the ConfigMap": func(ctx context.Context) error {
			_, err := remote.ConfigMaps(o.remote).Get(ctx, "settings", metav1.GetOptions{})
			return err
		},
		"the Secret": func(ctx context.Context) error {
			_, err := remote.Secrets(o.remote).Get(ctx, "key", metav1.GetOptions{})
			return err
		},
		"the Service": func(ctx context.Context) error {
			_, err := remote.Services(o.remote).Get(ctx, "web", metav1.GetOptions{})
			return err
		},
	} {
		eventually(t, soon, what+" to be gone on milan",
			func(ctx context.Context) (bool, string, error) { return gone(get(ctx)) })
	}
}

// reflectsByteForByte runs an offloaded pod with immutable objects: a ConfigMap of almost the
// maximal size, and Secrets of several types.
func reflectsByteForByte(t *testing.T) {
	const nearlyAMebibyte = 1<<20 - 4<<10
	o := offloaded(t, remoteOnly)
	local, remote := rome.Kube.CoreV1(), milan.Kube.CoreV1()
	random := make([]byte, nearlyAMebibyte)
	must(rand.NewChaCha8([32]byte{}).Read(random))(t)
	large := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "large"}, Immutable: ptr.To(true),
		Data: map[string]string{"greeting": "ciao\n\tciao ☼"}, BinaryData: map[string][]byte{"bytes": random},
	}
	must(local.ConfigMaps(o.namespace).Create(t.Context(), large, metav1.CreateOptions{}))(t)
	volume := func(name string, source corev1.VolumeSource) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: source}
	}
	spec := podSpec("serve")
	spec.Volumes = []corev1.Volume{volume("large",
		corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "large"}}})}
	secrets := []*corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Name: "basic"}, Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{corev1.BasicAuthUsernameKey: []byte("user"), corev1.BasicAuthPasswordKey: random[:64]}},
		{ObjectMeta: metav1.ObjectMeta{Name: "registry"}, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"registry.example.org":{"auth":"dXNlcjpwYXNz"}}}`)}},
		{ObjectMeta: metav1.ObjectMeta{Name: "tls"}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{corev1.TLSCertKey: random[:2000], corev1.TLSPrivateKeyKey: random[2000:4000]}},
		{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Type: "e2e.example.org/own", Data: map[string][]byte{"empty": {}, "bytes": random[:500_000]}},
	}
	for _, secret := range secrets {
		secret.Immutable = ptr.To(true)
		must(local.Secrets(o.namespace).Create(t.Context(), secret, metav1.CreateOptions{}))(t)
		spec.Volumes = append(spec.Volumes,
			volume(secret.Name, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret.Name}}))
	}
	for _, v := range spec.Volumes {
		spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	runReadyPod(t, o.namespace, "web", spec)

	configMap := must(remote.ConfigMaps(o.remote).Get(t.Context(), "large", metav1.GetOptions{}))(t)
	if !ptr.Deref(configMap.Immutable, false) || !maps.Equal(configMap.Data, large.Data) ||
		!maps.EqualFunc(configMap.BinaryData, large.BinaryData, bytes.Equal) {
		t.Errorf("the reflected ConfigMap has %d bytes and %q, immutable %s", len(configMap.BinaryData["bytes"]),
			configMap.Data, show(configMap.Immutable))
	}
	for _, secret := range secrets {
		copied := must(remote.Secrets(o.remote).Get(t.Context(), secret.Name, metav1.GetOptions{}))(t)
		same := maps.EqualFunc(copied.Data, secret.Data, bytes.Equal)
		if copied.Type != secret.Type || !ptr.Deref(copied.Immutable, false) || !same {
			t.Errorf("reflected Secret %s is of type %s, immutable %s, with the same values: %t", secret.Name, copied.Type,
				show(copied.Immutable), same)
		}
	}
	if got := kubectl(t, milan, "exec", "-n", o.remote, "web", "--", tester, "read",
		"/large/greeting"); strings.TrimSpace(got) != large.Data["greeting"] {
		t.Errorf("the pod reads %q", got)
	}
}

// isUnchanged creates a ConfigMap on milan, and then one of the same name in the offloaded
// namespace. The first one must not be changed, and an event on rome must report the conflict.
func isUnchanged(t *testing.T, o offload) {
	t.Helper()
	remote := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "taken"}, Data: map[string]string{"of": "milan"}}
	remote = must(milan.Kube.CoreV1().ConfigMaps(o.remote).Create(t.Context(), remote, metav1.CreateOptions{}))(t)
	local := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "taken"}, Data: map[string]string{"of": "rome"}}
	local = must(rome.Kube.CoreV1().ConfigMaps(o.namespace).Create(t.Context(), local, metav1.CreateOptions{}))(t)
	eventually(t, soon, "an event about the conflict", func(ctx context.Context) (bool, string, error) {
		events, err := rome.Kube.CoreV1().Events(o.namespace).List(ctx,
			metav1.ListOptions{FieldSelector: "reason=ReflectionConflict,involvedObject.uid=" + string(local.UID)})
		return err == nil && len(events.Items) == 1, fmt.Sprintf("%d events", len(events.Items)), err
	})
	now := must(milan.Kube.CoreV1().ConfigMaps(o.remote).Get(t.Context(), "taken", metav1.GetOptions{}))(t)
	if now.ResourceVersion != remote.ResourceVersion || now.Labels[v1alpha1.LabelOrigin] != "" {
		t.Errorf("milan's ConfigMap was changed: %s", show(now))
	}
}
