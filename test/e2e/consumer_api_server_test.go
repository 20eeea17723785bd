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

// podsReachTheConsumersAPIServer configures the address of rome's API server for pods on milan. An
// offloaded pod then reads its own object from rome, with an in-cluster client and the token of its
// ServiceAccount.
func podsReachTheConsumersAPIServer(t *testing.T) {
	setsConsumerAPIServer(t, rome.Config.Host)
	defer setsConsumerAPIServer(t, "")
	o := offloaded(t, remoteOnly)
	grantReading(t, o.namespace, "reader")

	spec := podSpec("serve")
	spec.ServiceAccountName = "reader"
	local := &runDeployment(t, o.namespace, "web", 1, spec)[0]
	pod := local.Name
	remote := caller{milan, podReady(t, milan, o.remote, pod)}
	remote.readsItself(t, local)
	if result := remote.requestAPI(t.Context(), "/api/v1/namespaces/"+o.namespace+"/secrets"); result.Code == 0 {
		t.Error("it reads Secrets, which its ServiceAccount may not")
	}
	read := func(file string) string {
		return kubectl(t, milan, "exec", "-n", o.remote, pod, "--", tester, "read",
			"/var/run/secrets/kubernetes.io/serviceaccount/"+file)
	}
	if got := read("namespace"); got != o.namespace {
		t.Errorf("its namespace is %q, want %q as on rome", got, o.namespace)
	}
	if strings.TrimSpace(read("token")) == "" {
		t.Error("it has no token")
	}
	if remote.pod.Spec.ServiceAccountName == "reader" {
		t.Error("the pod has a token of milan, too")
	}
	secret := remote.pod.Annotations[v1alpha1.AnnotationTokenSecret]
	must(milan.Kube.CoreV1().Secrets(o.remote).Get(t.Context(), secret, metav1.GetOptions{}))(t)

	// A local pod that mounts no token has a remote pod without one.
	alone := podSpec("serve")
	alone.AutomountServiceAccountToken = new(bool)
	runReadyPod(t, o.namespace, "alone", alone)
	if volumes := podReady(t, milan, o.remote, "alone").Spec.Volumes; len(volumes) != 0 {
		t.Errorf("on milan it has the volumes %s", show(volumes))
	}

	// A local pod can exclude its token by an annotation. Its remote pod then starts without one.
	spec = podSpec("serve")
	spec.ServiceAccountName = "reader"
	must(rome.Kube.CoreV1().Pods(o.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "kept",
			Annotations: map[string]string{v1alpha1.AnnotationAPIAccess: "Disabled"}}, Spec: spec,
	}, metav1.CreateOptions{}))(t)
	kept := podReady(t, milan, o.remote, "kept")
	if len(kept.Spec.Volumes) != 0 || kept.Annotations[v1alpha1.AnnotationTokenSecret] != "" {
		t.Errorf("on milan it has the volumes %s, and annotations %v", show(kept.Spec.Volumes), kept.Annotations)
	}

	kubectl(t, rome, "delete", "deployment", "web", "-n", o.namespace)
	podGone(t, milan, o.remote, pod)
	eventually(t, soon, "its tokens to be gone on milan", func(ctx context.Context) (bool, string, error) {
		_, err := milan.Kube.CoreV1().Secrets(o.remote).Get(ctx, secret, metav1.GetOptions{})
		return gone(err)
	})
}

// requestAPI sends a request from the pod to the API server that its environment variables name,
// with the pod's token.
func (c caller) requestAPI(ctx context.Context, path string) harness.Result {
	return c.cluster.Kubectl(ctx, "exec", "-n", c.pod.Namespace, c.pod.Name, "--", tester, "api", path)
}

// readsItself waits until a request from the remote pod returns the local pod.
func (c caller) readsItself(t *testing.T, local *corev1.Pod) {
	t.Helper()
	eventually(t, soon, c.String()+" to read itself from rome's API", func(ctx context.Context) (bool, string, error) {
		result := c.requestAPI(ctx, "/api/v1/namespaces/"+local.Namespace+"/pods/"+local.Name)
		return result.Code == 0 && strings.Contains(result.Stdout, string(local.UID)),
			fmt.Sprintf("%q, %v", result.Stdout, result.Err), nil
	})
}

// tenantsGetNoTokens offloads pods that mount tokens of rome's API server. Their ShadowPods have tokens if rome trusts
// milan as an owner of both clusters, and none if it trusts milan as a tenant, unless rome's administrator gives
// access.
func tenantsGetNoTokens(t *testing.T) {
	setsConsumerAPIServer(t, rome.Config.Host)
	defer setsConsumerAPIServer(t, "")
	o := offloaded(t, remoteOnly)
	runsThePage(t, rome, "pods.md#which-pods-get-tokens")
	gives := func(access string) {
		t.Helper()
		kubectl(t, rome, "patch", "foreigncluster", "milan", "--type=merge", "-p", `{"spec":{"apiAccess":`+access+`}}`)
	}
	mounts := func(t *testing.T, access v1alpha1.APIAccess, name string) {
		t.Helper()
		isPrinted(t, rome, "get virtualnode milan -n liqo-peer-milan -o jsonpath={.status.apiAccess}", string(access))
		isPrinted(t, rome, `get foreigncluster milan -o jsonpath={.status.policies[?(@.name=="apiAccess")].value}`,
			string(access))
		runReadyPod(t, o.namespace, name, podSpec("serve"))
		shadow := must(milan.Federation.FederationV1alpha1().ShadowPods(o.remote).Get(t.Context(), name,
			metav1.GetOptions{}))(t)
		if got := shadow.Annotations[v1alpha1.AnnotationTokenSecret] != ""; got != (access == v1alpha1.APIAccessConsumer) {
			t.Errorf("with access %s, the pod has tokens: %t", access, got)
		}
	}
	withEachTrust(t, func(t *testing.T, trust v1alpha1.PeeringTrust) {
		if trust == v1alpha1.TrustSameOwner {
			mounts(t, v1alpha1.APIAccessConsumer, "owner")
			return
		}
		mounts(t, v1alpha1.APIAccessDisabled, "tenant")
		defer gives("null")
		gives(`"Consumer"`)
		mounts(t, v1alpha1.APIAccessConsumer, "permitted")
	})
}

// setsConsumerAPIServer sets the value consumerAPIServer on rome, and waits until milan's virtual
// kubelet uses it.
func setsConsumerAPIServer(t *testing.T, server string) {
	t.Helper()
	setsValues(t, rome, "consumerAPIServer="+server)
	kubeletUsesAPIServer(t, server, milan)
}

// kubeletUsesAPIServer waits until the virtual kubelet of a provider has this value of
// consumerAPIServer. An empty one means that remote pods get no tokens.
func kubeletUsesAPIServer(t *testing.T, server string, provider *harness.Cluster) {
	t.Helper()
	eventually(t, soon, "the virtual kubelet of "+provider.Name+" to use "+server,
		func(ctx context.Context) (bool, string, error) {
			deployment, err := rome.Kube.AppsV1().Deployments("liqo-peer-"+provider.Name).Get(ctx,
				"federation-virtual-kubelet-"+provider.Name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			args := deployment.Spec.Template.Spec.Containers[0].Args
			if slices.ContainsFunc(args,
				func(arg string) bool { return strings.HasPrefix(arg, "--consumer-api-server=") }) != (server != "") {
				return false, show(args), nil
			}
			status := deployment.Status
			return status.ObservedGeneration == deployment.Generation && status.UpdatedReplicas == 1 &&
				status.AvailableReplicas == 1, show(status), nil
		})
}

// grantReading creates a ServiceAccount that may get pods in its namespace.
func grantReading(t *testing.T, namespace, account string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: account}
	must(rome.Kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta},
		metav1.CreateOptions{}))(t)
	must(rome.Kube.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"},
			Verbs: []string{"get"}}},
	}, metav1.CreateOptions{}))(t)
	must(rome.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
	}, metav1.CreateOptions{}))(t)
}
