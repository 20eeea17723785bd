// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"crypto/x509/pkix"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/certificates"
	"liqo.io/federation/test/harness"
)

const (
	etcdNamespace = "e2e-etcd"
	etcdImage     = "liqo.io/e2e-etcd:dev"
	etcdMembers   = 3
)

// twoReplicasOnAnExternalEtcd installs the product on milan with two replicas of every component,
// on an etcd of three members that requires client certificates. The API must stay available while
// one API server is evicted and one etcd member fails.
func twoReplicasOnAnExternalEtcd(t *testing.T) {
	startEtcd(t)
	var servers []string
	for i := range etcdMembers {
		servers = append(servers, "https://"+etcdHost(i)+":2379")
	}
	t.Cleanup(func() {
		collect(t)
		if err := milan.Uninstall(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		for _, name := range []string{harness.Namespace, etcdNamespace} {
			milan.Kubectl(context.WithoutCancel(t.Context()), "delete", "namespace", name, "--ignore-not-found")
		}
	})
	if err := milan.Install(t.Context(), "apiserver.replicas=2", "controllerManager.replicas=2",
		"identitySigner.replicas=2",
		"apiserver.etcd.existingSecret=etcd", "apiserver.etcd.servers={"+strings.Join(servers, ",")+"}"); err != nil {
		t.Fatal(err)
	}
	kubectl(t, milan, "wait", "--for=condition=Available", "apiservice/v1alpha1.federation.liqo.io", "--timeout=110s")

	tokens := milan.Federation.FederationV1alpha1().PeeringTokens()
	created := map[string]types.UID{}
	create := func(count int) {
		t.Helper()
		for range count {
			name := fmt.Sprintf("replicas-%d", len(created))
			eventually(t, soon, "the API to store "+name, func(ctx context.Context) (bool, string, error) {
				token, err := tokens.Create(ctx, &v1alpha1.PeeringToken{ObjectMeta: metav1.ObjectMeta{Name: name}},
					metav1.CreateOptions{})
				if apierrors.IsAlreadyExists(err) {
					// An earlier attempt succeeded, and its response was lost.
					token, err = tokens.Get(ctx, name, metav1.GetOptions{})
				}
				if err != nil {
					return false, err.Error(), nil
				}
				created[name] = token.UID
				return true, "", nil
			})
		}
	}
	create(20)
	evict := func(pod string) error {
		return milan.Kube.PolicyV1().Evictions(harness.Namespace).Evict(t.Context(),
			&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: harness.Namespace}})
	}
	eventually(t, soon, "one API server to be evicted", func(context.Context) (bool, string, error) {
		err := evict("federation-apiserver-0")
		if apierrors.IsTooManyRequests(err) {
			// The PodDisruptionBudget has not observed both replicas yet.
			return false, err.Error(), nil
		}
		return err == nil, "", err
	})
	if err := evict("federation-apiserver-1"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("both API servers can be evicted at a time: %v", err)
	}
	create(20)
	kubectl(t, milan, "delete", "pod", "etcd-1", "--namespace", etcdNamespace, "--grace-period=0", "--force")
	create(20)
	podReady(t, milan, harness.Namespace, "federation-apiserver-0")
	var stored *v1alpha1.PeeringTokenList
	eventually(t, soon, "the API to list", func(ctx context.Context) (bool, string, error) {
		var err error
		stored, err = tokens.List(ctx, metav1.ListOptions{})
		return err == nil, fmt.Sprint(err), nil
	})
	for _, token := range stored.Items {
		if created[token.Name] == token.UID {
			delete(created, token.Name)
		}
	}
	if len(created) > 0 {
		t.Errorf("lost: %v", created)
	}
}

func etcdHost(i int) string { return fmt.Sprintf("etcd-%d.etcd.%s.svc", i, etcdNamespace) }

// startEtcd runs an etcd on milan, and creates the Secrets with the client certificates in the
// installation namespace.
func startEtcd(t *testing.T) {
	t.Helper()
	tar := filepath.Join(t.TempDir(), "etcd.tar")
	if err := playground.Image(t.Context(), playground.Bin("etcd"), etcdImage, tar); err != nil {
		t.Fatal(err)
	}
	if err := playground.Load(t.Context(), tar); err != nil {
		t.Fatal(err)
	}
	ca := must(certificates.NewAuthority("etcd"))(t)
	names := []string{"localhost"}
	var cluster []string
	for i := range etcdMembers {
		names = append(names, etcdHost(i))
		cluster = append(cluster, fmt.Sprintf("etcd-%d=https://%s:2380", i, etcdHost(i)))
	}
	for namespace, hosts := range map[string][]string{etcdNamespace: names, harness.Namespace: nil} {
		certificate, key, err := ca.Issue(pkix.Name{CommonName: "etcd"}, hosts, nil)
		if err != nil {
			t.Fatal(err)
		}
		must(milan.Kube.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))(t)
		must(milan.Kube.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "etcd"},
			Data:       map[string][]byte{"ca.crt": ca.Bundle, "tls.crt": certificate, "tls.key": key},
		}, metav1.CreateOptions{}))(t)
	}
	labels := map[string]string{"app": "etcd"}
	must(milan.Kube.CoreV1().Services(etcdNamespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "etcd"},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: labels, PublishNotReadyAddresses: true,
			Ports: []corev1.ServicePort{{Name: "client", Port: 2379}, {Name: "peer", Port: 2380}}},
	}, metav1.CreateOptions{}))(t)
	const host = "$(POD_NAME).etcd." + etcdNamespace + ".svc"
	container := corev1.Container{
		Name: "etcd", Image: etcdImage, ImagePullPolicy: corev1.PullNever,
		Env: []corev1.EnvVar{{Name: "POD_NAME",
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}},
		Args: []string{
			"--name=$(POD_NAME)", "--data-dir=/data/etcd", "--log-level=warn",
			"--listen-client-urls=https://0.0.0.0:2379", "--advertise-client-urls=https://" + host + ":2379",
			"--listen-peer-urls=https://0.0.0.0:2380", "--initial-advertise-peer-urls=https://" + host + ":2380",
			"--initial-cluster=" + strings.Join(cluster, ","),
			"--cert-file=/tls/tls.crt", "--key-file=/tls/tls.key", "--trusted-ca-file=/tls/ca.crt", "--client-cert-auth",
			"--peer-cert-file=/tls/tls.crt", "--peer-key-file=/tls/tls.key", "--peer-trusted-ca-file=/tls/ca.crt",
			"--peer-client-cert-auth",
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"},
			{Name: "tls", MountPath: "/tls", ReadOnly: true}},
	}
	must(milan.Kube.AppsV1().StatefulSets(etcdNamespace).Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "etcd"},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: "etcd", Replicas: ptr.To[int32](etcdMembers), PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				SecurityContext: &corev1.PodSecurityContext{FSGroup: ptr.To[int64](65532)},
				Containers:      []corev1.Container{container},
				Volumes: []corev1.Volume{
					{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
					{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "etcd"}}},
				},
			}},
		},
	}, metav1.CreateOptions{}))(t)
	podsReady(t, milan, etcdNamespace, "app=etcd", etcdMembers)
}
