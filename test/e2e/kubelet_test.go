// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/test/harness"
)

// kubeletPaths returns the paths of a kubelet's API for pods of a namespace, such as logs and exec.
func kubeletPaths(namespace string) []string {
	return []string{
		"/containerLogs/" + namespace + "/web/tester",
		"/exec/" + namespace + "/web/tester?output=1&command=" + tester + "&command=exit&command=0",
		"/attach/" + namespace + "/web/tester?output=1",
		"/portForward/" + namespace + "/web?port=8080",
		"/pods", "/stats/summary", "/metrics", "/metrics/resource",
	}
}

// virtualKubelet returns the pod of milan's virtual kubelet.
func virtualKubelet(t *testing.T) *corev1.Pod {
	t.Helper()
	pods := must(rome.Kube.CoreV1().Pods(peerNamespace).List(t.Context(), metav1.ListOptions{}))(t)
	i := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool {
		return strings.HasPrefix(p.Name, "federation-virtual-kubelet-milan-") && p.DeletionTimestamp == nil
	})
	if i < 0 {
		t.Fatalf("namespace %s has no pod of the virtual kubelet, but %d others", peerNamespace, len(pods.Items))
	}
	return &pods.Items[i]
}

// kubeletPort is a client of the virtual kubelet's port, through kubectl port-forward. address is
// empty until the first request.
type kubeletPort struct {
	pod, address string
}

// request sends a request to the virtual kubelet and returns its answer.
func (k *kubeletPort) request(t *testing.T, method, path, token string) (code int, body string) {
	t.Helper()
	// The client does not verify the server, because the tests are about its authorization.
	client := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       soon,
	}
	// A refused request can close the forwarded connection, which ends kubectl port-forward. Then
	// the request is repeated with a new one.
	eventually(t, soon, method+" "+path+" to be answered", func(ctx context.Context) (bool, string, error) {
		if k.address == "" {
			k.address = forward(t, rome, peerNamespace, "pod/"+k.pod, "10250")
		}
		request, err := http.NewRequestWithContext(ctx, method, "https://"+k.address+path, nil)
		if err != nil {
			return false, "", harness.Permanent(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		if err != nil {
			k.address = ""
			return false, "", err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
		code, body = response.StatusCode, string(text)
		return err == nil, "", err
	})
	return code, body
}

func vkAnonymousExecDenied(t *testing.T) {
	o := serving(t)
	kubelet := kubeletPort{pod: virtualKubelet(t).Name}
	for _, path := range kubeletPaths(o.namespace) {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if code, body := kubelet.request(t, method, path, ""); code != http.StatusUnauthorized {
				t.Errorf("%s %s without credentials: %d %q, want 401", method, path, code, body)
			}
			if code, body := kubelet.request(t, method, path, "nonsense"); code != http.StatusUnauthorized {
				t.Errorf("%s %s with a wrong token: %d %q, want 401", method, path, code, body)
			}
		}
	}
}

func vkDelegatesSAR(t *testing.T) {
	o := serving(t)
	token := serviceAccountToken(t, o.namespace)
	kubelet := kubeletPort{pod: virtualKubelet(t).Name}
	for _, path := range kubeletPaths(o.namespace) {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if code, body := kubelet.request(t, method, path, token); code != http.StatusForbidden {
				t.Errorf("%s %s without permissions on nodes: %d %q, want 403", method, path, code, body)
			}
		}
	}
	allow(t, o.namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes/proxy"},
		Verbs: []string{"get"}, ResourceNames: []string{virtualNode}})
	logPath := kubeletPaths(o.namespace)[0]
	eventually(t, soon, "the log with permission to get "+virtualNode+"/proxy",
		func(context.Context) (bool, string, error) {
			code, body := kubelet.request(t, http.MethodGet, logPath, token)
			return code == http.StatusOK && strings.HasPrefix(body, "serving on"), http.StatusText(code) + " " + body, nil
		})
	// "get" of nodes/proxy does not permit exec, which is a POST and requires "create".
	execPath := kubeletPaths(o.namespace)[1]
	if code, body := kubelet.request(t, http.MethodPost, execPath, token); code != http.StatusForbidden {
		t.Errorf("POST exec with permission to get nodes/proxy only: %d %q, want 403", code, body)
	}
}

// serviceAccountToken creates a ServiceAccount without permissions, and returns its token.
func serviceAccountToken(t *testing.T, namespace string) string {
	t.Helper()
	client := rome.Kube.CoreV1().ServiceAccounts(namespace)
	must(client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}},
		metav1.CreateOptions{}))(t)
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](600)}}
	return must(client.CreateToken(t.Context(), "stranger", request, metav1.CreateOptions{}))(t).Status.Token
}

// allow grants a permission in the whole cluster to the ServiceAccount of serviceAccountToken,
// until the test ends.
func allow(t *testing.T, namespace string, rule rbacv1.PolicyRule) {
	t.Helper()
	name := metav1.ObjectMeta{Name: namespace}
	rbac := rome.Kube.RbacV1()
	must(rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{rule}},
		metav1.CreateOptions{}))(t)
	must(rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: namespace},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "stranger"}},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		if err := rbac.ClusterRoleBindings().Delete(context.Background(), namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if err := rbac.ClusterRoles().Delete(context.Background(), namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}
