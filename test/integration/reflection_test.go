// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestVirtualKubeletReflects(t *testing.T) {
	o := newOffload(t)
	o.start(t)
	t.Run("a config map is reflected", o.testConfigMap)
	t.Run("an unmanaged object is not changed", o.testForeign)
	t.Run("a secret is reflected, unless it is of this cluster", o.testSecret)
	t.Run("a service is reflected, and keeps what the provider sets", o.testService)
	t.Run("an ingress is reflected, and keeps the class that the provider sets", o.testIngress)
	t.Run("a restart only repairs drift", o.testReflectionRestart)
}

// set creates or updates a ConfigMap in the offloaded namespace.
func (o *offload) set(t *testing.T, name, value string, change func(*corev1.ConfigMap)) *corev1.ConfigMap {
	t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": value}}
	if change != nil {
		change(m)
	}
	client := o.Kube.CoreV1().ConfigMaps(o.local)
	made, err := client.Create(t.Context(), m, metav1.CreateOptions{})
	if err != nil {
		if made, err = client.Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return made
}

// awaitReflected waits until the reflected ConfigMap has this value, and returns it.
func (o *offload) awaitReflected(t *testing.T, name, value string) (remote *corev1.ConfigMap) {
	t.Helper()
	until(t, fmt.Sprintf("%s is %s on the provider", name, value), func(ctx context.Context) (bool, error) {
		var err error
		remote, err = o.Kube.CoreV1().ConfigMaps(o.remote).Get(ctx, name, metav1.GetOptions{})
		return err == nil && remote.Data["a"] == value, ignoreNotFound(err)
	})
	return remote
}

func (o *offload) awaitNotReflected(t *testing.T, name string) {
	t.Helper()
	o.awaitGone(t, name+" is gone on the provider", func(ctx context.Context) error {
		_, err := o.Kube.CoreV1().ConfigMaps(o.remote).Get(ctx, name, metav1.GetOptions{})
		return err
	})
}

func (o *offload) testConfigMap(t *testing.T) {
	remote := o.Kube.CoreV1().ConfigMaps(o.remote)
	o.set(t, "settings", "1", func(m *corev1.ConfigMap) { m.Labels = map[string]string{"app": "web"} })
	first := o.awaitReflected(t, "settings", "1")
	want := map[string]string{"app": "web", v1alpha1.LabelOrigin: consumerID, v1alpha1.LabelDestination: providerID}
	if diff := cmp.Diff(want, first.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	o.set(t, "settings", "2", nil)
	second := o.awaitReflected(t, "settings", "2")
	if second.UID != first.UID {
		t.Error("the reflected object was replaced")
	}
	if _, err := remote.Patch(t.Context(), "settings", types.MergePatchType, []byte(`{"data":{"a":"drift"}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	o.awaitReflected(t, "settings", "2")
	if err := remote.Delete(t.Context(), "settings", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.awaitReflected(t, "settings", "2")

	constant := func(m *corev1.ConfigMap) { m.Immutable = ptr.To(true) }
	o.set(t, "constant", "1", constant)
	o.awaitReflected(t, "constant", "1")
	if err := o.Kube.CoreV1().ConfigMaps(o.local).Delete(t.Context(), "constant", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.set(t, "constant", "2", constant)
	o.awaitReflected(t, "constant", "2")

	o.set(t, "settings", "2", func(m *corev1.ConfigMap) {
		m.Annotations = map[string]string{v1alpha1.AnnotationSkipReflection: "true"}
	})
	o.awaitNotReflected(t, "settings")
	o.set(t, "settings", "2", nil)
	o.awaitReflected(t, "settings", "2")
	if err := o.Kube.CoreV1().ConfigMaps(o.local).Delete(t.Context(), "settings", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.awaitNotReflected(t, "settings")
}

func (o *offload) testForeign(t *testing.T) {
	remote := o.Kube.CoreV1().ConfigMaps(o.remote)
	foreign, err := remote.Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Data: map[string]string{"a": "remote"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	local := o.set(t, "foreign", "local", nil)
	until(t, "an event reports the conflict", func(ctx context.Context) (bool, error) {
		events, err := o.Kube.CoreV1().Events(o.local).List(ctx,
			metav1.ListOptions{FieldSelector: "reason=ReflectionConflict,involvedObject.uid=" + string(local.UID)})
		return err == nil && len(events.Items) == 1 && events.Items[0].Count == 1, err
	})
	now, err := remote.Get(t.Context(), "foreign", metav1.GetOptions{})
	if err != nil || now.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("it was changed: %v, %v", now, err)
	}
	if err := o.Kube.CoreV1().ConfigMaps(o.local).Delete(t.Context(), "foreign", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// When the later ConfigMap is reflected, the deletion was reconciled before.
	o.set(t, "later", "1", nil)
	o.awaitReflected(t, "later", "1")
	if now, err = remote.Get(t.Context(), "foreign", metav1.GetOptions{}); err != nil ||
		now.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("it was changed: %v, %v", now, err)
	}
}

func (o *offload) testReflectionRestart(t *testing.T) {
	local := o.Kube.CoreV1().ConfigMaps(o.local)
	o.set(t, "kept", "1", nil)
	kept := o.awaitReflected(t, "kept", "1")
	o.set(t, "leftover", "1", nil)
	o.awaitReflected(t, "leftover", "1")

	o.stop()
	if err := local.Delete(t.Context(), "leftover", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.set(t, "meanwhile", "1", nil)
	o.start(t)

	o.awaitReflected(t, "meanwhile", "1")
	o.awaitNotReflected(t, "leftover")
	if now := o.awaitReflected(t, "kept", "1"); now.ResourceVersion != kept.ResourceVersion {
		t.Error("an equal object was written again")
	}
}

func (o *offload) testSecret(t *testing.T) {
	local, remote := o.Kube.CoreV1().Secrets(o.local), o.Kube.CoreV1().Secrets(o.remote)
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key"}, Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"a": {1}}}
	for _, secret := range []*corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: corev1.SecretTypeServiceAccountToken},
		{ObjectMeta: metav1.ObjectMeta{Name: "release"}, Type: "helm.sh/release.v1"},
		key,
	} {
		if _, err := local.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	await := func(what string, is func(*corev1.Secret) bool) {
		t.Helper()
		until(t, what, func(ctx context.Context) (bool, error) {
			copied, err := remote.Get(ctx, "key", metav1.GetOptions{})
			return err == nil && is(copied), ignoreNotFound(err)
		})
	}
	await("the secret is reflected",
		func(s *corev1.Secret) bool { return string(s.Data["a"]) == "\x01" && s.Type == corev1.SecretTypeOpaque })
	if list, err := remote.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Errorf("%d secrets are reflected, %v; want 1", len(list.Items), err)
	}
	if err := local.Delete(t.Context(), "key", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	key.Type = "example.com/other"
	if _, err := local.Create(t.Context(), key, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await("it has its other type", func(s *corev1.Secret) bool { return s.Type == "example.com/other" })
}

func (o *offload) testService(t *testing.T) {
	local, remote := o.Kube.CoreV1().Services(o.local), o.Kube.CoreV1().Services(o.remote)
	add := func(name string, change func(*corev1.Service)) {
		t.Helper()
		s := service(name, nil)
		s.Spec.Selector = map[string]string{"app": "web"}
		change(s)
		if _, err := local.Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch := func(name, patch string) {
		t.Helper()
		if _, err := local.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	await := func(name, what string, is func(*corev1.Service) bool) (copied *corev1.Service) {
		t.Helper()
		until(t, what, func(ctx context.Context) (bool, error) {
			var err error
			copied, err = remote.Get(ctx, name, metav1.GetOptions{})
			return err == nil && is(copied), ignoreNotFound(err)
		})
		return copied
	}
	exists := func(*corev1.Service) bool { return true }

	add("nodes", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort })
	first := await("nodes", "the service has an address and a node port of its own", func(s *corev1.Service) bool {
		return s.Spec.ClusterIP != "" && s.Spec.Ports[0].NodePort != 0
	})
	patch("nodes", `{"spec":{"selector":{"app":"shop"}}}`)
	second := await("nodes", "it selects other pods",
		func(s *corev1.Service) bool { return s.Spec.Selector["app"] == "shop" })
	if second.UID != first.UID || second.Spec.ClusterIP != first.Spec.ClusterIP ||
		second.Spec.Ports[0].NodePort != first.Spec.Ports[0].NodePort {
		t.Errorf("it was %+v and is %+v", first.Spec, second.Spec)
	}
	patch("nodes", `{"spec":{"type":"ClusterIP","externalTrafficPolicy":null,"ports":[{"port":80}]}}`)
	await("nodes", "it has no node port any more", func(s *corev1.Service) bool {
		return s.Spec.Type == corev1.ServiceTypeClusterIP && s.Spec.Ports[0].NodePort == 0 &&
			s.Spec.ClusterIP == first.Spec.ClusterIP
	})

	add("balanced", func(s *corev1.Service) {
		s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, ptr.To("example.com/rome")
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	await("balanced", "a load balancer of the provider is requested", func(s *corev1.Service) bool {
		return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil &&
			s.Spec.HealthCheckNodePort != 0
	})
	add("headless", func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })
	await("headless", "it is headless", func(s *corev1.Service) bool { return s.Spec.ClusterIP == corev1.ClusterIPNone })
	if err := local.Delete(t.Context(), "headless", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	add("headless", func(*corev1.Service) {})
	await("headless", "it has an address",
		func(s *corev1.Service) bool { return s.Spec.ClusterIP != corev1.ClusterIPNone })
	add("alias", func(s *corev1.Service) {
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
	})
	await("alias", "it is an alias", func(s *corev1.Service) bool { return s.Spec.ExternalName == "example.com" })
	patch("alias", `{"spec":{"type":"ClusterIP","externalName":null,"ports":[{"port":80}],"selector":{"app":"web"}}}`)
	await("alias", "it is an alias no more", func(s *corev1.Service) bool { return s.Spec.ClusterIP != "" })

	// Provider and consumer are the same cluster, so the node port is in use.
	add("forced", func(s *corev1.Service) {
		s.Spec.Type, s.Annotations = corev1.ServiceTypeNodePort, map[string]string{"liqo.io/force-remote-node-port": "true"}
	})
	until(t, "an event reports the conflict", func(ctx context.Context) (bool, error) {
		events, err := o.Kube.CoreV1().Events(o.local).List(ctx,
			metav1.ListOptions{FieldSelector: "reason=ReflectionRefused,involvedObject.name=forced"})
		return err == nil && len(events.Items) == 1, err
	})

	// Reflected objects that are up to date must not be written again.
	before := map[string]string{}
	for _, name := range []string{"nodes", "balanced", "headless", "alias"} {
		before[name] = await(name, name+" is reflected", exists).ResourceVersion
		patch(name, `{"metadata":{"finalizers":["example.com/looked-at"]}}`)
		patch(name, `{"metadata":{"finalizers":null}}`)
	}
	add("later", func(*corev1.Service) {})
	await("later", "a later one is reflected", exists)
	for name, version := range before {
		if now := await(name, name+" is reflected", exists); now.ResourceVersion != version {
			t.Errorf("%s was written again: %+v", name, now.Spec)
		}
	}
}

func (o *offload) testIngress(t *testing.T) {
	local, remote := o.Kube.NetworkingV1().Ingresses(o.local), o.Kube.NetworkingV1().Ingresses(o.remote)
	backend := &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web",
		Port: networkingv1.ServiceBackendPort{Number: 80}}}
	_, err := local.Create(t.Context(), &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       networkingv1.IngressSpec{IngressClassName: ptr.To("rome"), DefaultBackend: backend},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await := func(what string, is func(*networkingv1.Ingress) bool) {
		t.Helper()
		until(t, what, func(ctx context.Context) (bool, error) {
			copied, err := remote.Get(ctx, "web", metav1.GetOptions{})
			return err == nil && is(copied), ignoreNotFound(err)
		})
	}
	await("the ingress is reflected without a class",
		func(i *networkingv1.Ingress) bool { return i.Spec.IngressClassName == nil })
	classed := func(i *networkingv1.Ingress) bool { return ptr.Deref(i.Spec.IngressClassName, "") == "milan" }
	if _, err := remote.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"ingressClassName":"milan"}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := local.Patch(t.Context(), "web", types.MergePatchType,
		[]byte(`{"spec":{"rules":[{"host":"example.com"}]}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await("it has its rule, and the class of the provider",
		func(i *networkingv1.Ingress) bool { return classed(i) && len(i.Spec.Rules) == 1 })
	if err := local.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.awaitGone(t, "it is gone", func(ctx context.Context) error {
		_, err := remote.Get(ctx, "web", metav1.GetOptions{})
		return err
	})
}
