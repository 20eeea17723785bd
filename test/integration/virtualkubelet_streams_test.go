// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// The kinds of identities that identify writes.
const (
	byCertificate = "by a certificate"
	byToken       = "by a token"
)

// identify writes an identity of another kind for the virtual kubelet. more has additional
// settings, for example a proxy.
func (o *offload) identify(t *testing.T, kind string, more map[string]string) {
	t.Helper()
	files := map[string]string{"namespace": o.tenant}
	if kind == byToken {
		account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: o.tenant, Name: "federation-peer"}
		files["token"], files["account"] = o.ServiceAccount(t, o.tenant, account.Name).BearerToken, account.Name
		if _, err := o.Kube.RbacV1().RoleBindings(o.remote).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "federation-remote-namespace-account"}, Subjects: []rbacv1.Subject{account},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "federation-remote-namespace"},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		o.Grant(t, "system:serviceaccount:"+o.tenant+":"+account.Name, o.tenant,
			rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"resourceoffers"},
				Verbs: []string{"get"}})
		for _, name := range []string{"tls.crt", "tls.key"} {
			if err := os.Remove(filepath.Join(o.options.IdentityDir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, content := range more {
		files[name] = content
	}
	for name, content := range files {
		o.write(t, name, []byte(content))
	}
}

// write replaces a file of the identity atomically.
func (o *offload) write(t *testing.T, name string, content []byte) {
	t.Helper()
	path := filepath.Join(o.options.IdentityDir, name)
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// runsOnAKubelet makes a remote pod run on a node of the provider. The node has a fake kubelet,
// which prints the requested command and then its input.
func (o *offload) runsOnAKubelet(t *testing.T, name string) {
	t.Helper()
	kubelet := http.NewServeMux()
	exec := api.HandleContainerExec(func(_ context.Context, _, _, _ string, command []string, streams api.AttachIO) error {
		fmt.Fprint(streams.Stdout(), command)
		if streams.Stdin() != nil {
			_, err := io.Copy(streams.Stdout(), streams.Stdin())
			return err
		}
		return nil
	})
	kubelet.HandleFunc("/exec/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) { exec(w, r) })
	kubelet.HandleFunc("/containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a line\n")
	})
	server := httptest.NewTLSServer(kubelet)
	t.Cleanup(server.Close)

	nodes := o.Kube.CoreV1().Nodes()
	node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "worker-"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nodes.Delete(context.WithoutCancel(t.Context()), node.Name, metav1.DeleteOptions{}) })
	node.Status = corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{
			KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(server.Listener.Addr().(*net.TCPAddr).Port)}},
	}
	if _, err := nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	o.bind(t, o.local, name, nil)
	pod := o.make(t, name)
	if err := o.Kube.CoreV1().Pods(o.remote).Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: node.Name},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	o.runs(t, pod, 0)
	o.awaitPod(t, o.local, name, "the pod is ready", isReady)
	until(t, "the virtual kubelet to authorize the client", func(ctx context.Context) (bool, error) {
		response, err := get(ctx, o.kubeletAPI(), "/pods")
		return err == nil && response.StatusCode == http.StatusOK, nil
	})
}

// kubeletAPI returns the configuration of a client of the virtual kubelet's API.
func (o *offload) kubeletAPI() *rest.Config {
	// Like a kubelet's, the certificate is self-signed, so it is not verified.
	return &rest.Config{
		Host:            fmt.Sprintf("https://127.0.0.1:%d", o.options.Port),
		TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertData: o.Admin.CertData, KeyData: o.Admin.KeyData},
	}
}

// stream executes a command in a container of a local pod.
func (o *offload) stream(ctx context.Context, t *testing.T, name string, command []string,
	streams remotecommand.StreamOptions) error {
	t.Helper()
	query := url.Values{"command": command, "output": {"1"}}
	if streams.Stdin != nil {
		query.Set("input", "1")
	}
	target, err := url.Parse(o.kubeletAPI().Host + "/exec/" + o.local + "/" + name + "/app?" + query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	executor, err := remotecommand.NewSPDYExecutor(o.kubeletAPI(), http.MethodPost, target)
	if err != nil {
		t.Fatal(err)
	}
	return executor.StreamWithContext(ctx, streams)
}

func (o *offload) exec(t *testing.T, name string, command ...string) string {
	t.Helper()
	var stdout bytes.Buffer
	if err := o.stream(t.Context(), t, name, command, remotecommand.StreamOptions{Stdout: &stdout}); err != nil {
		t.Errorf("exec: %v", err)
	}
	return stdout.String()
}

func (o *offload) log(t *testing.T, name string) string {
	t.Helper()
	client, err := rest.HTTPClientFor(o.kubeletAPI())
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(o.kubeletAPI().Host + "/containerLogs/" + o.local + "/" + name + "/app")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
