// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// podsReachTheConsumersAPIServer tells rome where its pods reach it from milan. One that
// runs there then reads itself from rome's API, with a client that knows of
// nothing and the ServiceAccount that it has at home.
func podsReachTheConsumersAPIServer(t *testing.T) {
	leadsHome(t, rome.Config.Host)
	defer leadsHome(t, "")
	o := offloaded(t, remote)
	grantReading(t, o.namespace, "reader")

	spec := podSpec("serve")
	spec.ServiceAccountName = "reader"
	here := &runDeployment(t, o.namespace, "web", 1, spec)[0]
	pod := here.Name
	there := caller{milan, podReady(t, milan, o.twin, pod)}
	there.readsItself(t, here)
	if result := there.asksHome(t.Context(), "/api/v1/namespaces/"+o.namespace+"/secrets"); result.Code == 0 {
		t.Error("it reads Secrets, which its ServiceAccount may not")
	}
	read := func(file string) string {
		return kubectl(t, milan, "exec", "-n", o.twin, pod, "--", tester, "read", "/var/run/secrets/kubernetes.io/serviceaccount/"+file)
	}
	if got := read("namespace"); got != o.namespace {
		t.Errorf("its namespace is %q, want %q as at home", got, o.namespace)
	}
	if strings.TrimSpace(read("token")) == "" {
		t.Error("it has no token")
	}
	if there.pod.Spec.ServiceAccountName == "reader" {
		t.Error("it has an account of milan's, too")
	}
	secret := there.pod.Annotations[v1alpha1.AnnotationTokenSecret]
	must(milan.Kube.CoreV1().Secrets(o.twin).Get(t.Context(), secret, metav1.GetOptions{}))(t)

	// One that has no token at home has none there.
	alone := podSpec("serve")
	alone.AutomountServiceAccountToken = new(bool)
	runReadyPod(t, o.namespace, "alone", alone)
	if volumes := podReady(t, milan, o.twin, "alone").Spec.Volumes; len(volumes) != 0 {
		t.Errorf("on milan it has the volumes %s", show(volumes))
	}

	// One whose owner keeps its token at home has none there, and nothing waits
	// for it.
	spec = podSpec("serve")
	spec.ServiceAccountName = "reader"
	must(rome.Kube.CoreV1().Pods(o.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "kept", Annotations: map[string]string{v1alpha1.AnnotationAPIAccess: "Disabled"}}, Spec: spec,
	}, metav1.CreateOptions{}))(t)
	kept := podReady(t, milan, o.twin, "kept")
	if len(kept.Spec.Volumes) != 0 || kept.Annotations[v1alpha1.AnnotationTokenSecret] != "" {
		t.Errorf("on milan it has the volumes %s, and annotations %v", show(kept.Spec.Volumes), kept.Annotations)
	}

	kubectl(t, rome, "delete", "deployment", "web", "-n", o.namespace)
	podGone(t, milan, o.twin, pod)
	eventually(t, soon, "its tokens to be gone on milan", func(ctx context.Context) (bool, string, error) {
		_, err := milan.Kube.CoreV1().Secrets(o.twin).Get(ctx, secret, metav1.GetOptions{})
		return gone(err)
	})
}

// asksHome asks the API server that clients in the pod find, as its
// ServiceAccount.
func (c caller) asksHome(ctx context.Context, path string) harness.Result {
	return c.cluster.Kubectl(ctx, "exec", "-n", c.pod.Namespace, c.pod.Name, "--", tester, "home", path)
}

// readsItself waits until a pod that runs next door has read there what it is
// at home.
func (c caller) readsItself(t *testing.T, here *corev1.Pod) {
	t.Helper()
	eventually(t, soon, c.String()+" to read itself from rome's API", func(ctx context.Context) (bool, string, error) {
		result := c.asksHome(ctx, "/api/v1/namespaces/"+here.Namespace+"/pods/"+here.Name)
		return result.Code == 0 && strings.Contains(result.Stdout, string(here.UID)), fmt.Sprintf("%q, %v", result.Stdout, result.Err), nil
	})
}

// leadsHome sets the address under which pods on milan reach rome, and waits
// until milan's virtual kubelet runs with it.
func leadsHome(t *testing.T, server string) {
	t.Helper()
	setsValues(t, rome, "consumerAPIServer="+server)
	kubeletLeadsTo(t, server, milan)
}

// kubeletLeadsTo waits until the virtual kubelet of a provider runs with an
// address of rome, or without one.
func kubeletLeadsTo(t *testing.T, server string, provider *harness.Cluster) {
	t.Helper()
	eventually(t, soon, "the virtual kubelet of "+provider.Name+" to lead pods to "+server, func(ctx context.Context) (bool, string, error) {
		deployment, err := rome.Kube.AppsV1().Deployments("liqo-peer-"+provider.Name).Get(ctx, "federation-virtual-kubelet-"+provider.Name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		args := deployment.Spec.Template.Spec.Containers[0].Args
		if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--consumer-api-server=") }) != (server != "") {
			return false, show(args), nil
		}
		status := deployment.Status
		return status.ObservedGeneration == deployment.Generation && status.UpdatedReplicas == 1 && status.AvailableReplicas == 1, show(status), nil
	})
}

// grantReading makes an account that may read pods.
func grantReading(t *testing.T, namespace, account string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: account}
	must(rome.Kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}))(t)
	must(rome.Kube.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{}))(t)
	must(rome.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
	}, metav1.CreateOptions{}))(t)
}
