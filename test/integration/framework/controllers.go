// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"liqo.io/federation/test/certificates"
)

// Controllers is a controller manager in a process of its own.
type Controllers struct {
	// URL is the address at which it serves health checks and metrics.
	URL string

	environment *Environment
	name        string
	process     *process
}

// StartControllers starts a controller manager as a ServiceAccount with its permissions in the
// chart, and waits until it is ready. pod is its pod name, which identifies it in leader election.
// It is stopped when the test ends.
func (e *Environment) StartControllers(t testing.TB, pod, account string, more ...string) *Controllers {
	t.Helper()
	e.Kubectl(t, e.Chart(t, "rbac-controller-manager.yaml", "rbac-storage-provider.yaml", "rbac-identity-signer.yaml"),
		"apply", "-f", "-")
	token, err := e.Kube.CoreV1().ServiceAccounts(Namespace).CreateToken(t.Context(), account,
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(certificates.Validity.Seconds()))},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.writeKubeconfig(pod+".kubeconfig", clientcmdapi.AuthInfo{Token: token.Status.Token}); err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := e.path(pod + ".kubeconfig")
	args := append([]string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--cluster-name=" + ClusterName, "--namespace=" + Namespace, "--invitation-namespace=" + InvitationNamespace,
		"--service-account=" + account, "--policy-trust=SameOwner",
		"--bind-address=" + loopback.String(), fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + e.path("server.crt"), "--tls-private-key-file=" + e.path("server.key"),
	}, more...)
	c := &Controllers{URL: fmt.Sprintf("https://%s:%d", loopback, port), environment: e, name: pod}
	c.process, err = e.processes.start(e.path(pod+".log"), os.Args[0],
		[]string{programMode + "=" + managerProgram, "POD_NAME=" + pod}, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop(t, syscall.SIGTERM) })
	if err := e.awaitReady(t.Context(), c.process, c.URL); err != nil {
		t.Fatal(err)
	}
	return c
}

// Stop sends a signal to the process, waits until it ends, and returns its error.
func (c *Controllers) Stop(t testing.TB, signal os.Signal) error {
	t.Helper()
	if err := c.process.stop(signal); err != nil {
		t.Fatal(err)
	}
	return c.process.err
}

// Log returns the output of the process so far.
func (c *Controllers) Log(t testing.TB) string {
	t.Helper()
	content, err := os.ReadFile(c.process.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
