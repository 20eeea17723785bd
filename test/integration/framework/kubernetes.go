// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// volumeControllers are the controllers of kube-controller-manager that bind, expand and protect
// claims and volumes.
var volumeControllers = []string{
	"persistentvolume-binder-controller",
	"persistentvolumeclaim-protection-controller",
	"persistentvolume-protection-controller",
	"persistentvolume-expander-controller",
}

// StartVolumeControllers starts kube-controller-manager with only the volume controllers, and
// kube-scheduler, until the test ends. They provision nothing; tests run provisioners of their own.
func (e *Environment) StartVolumeControllers(t testing.TB) {
	t.Helper()
	kubeconfig := "kubernetes.kubeconfig"
	err := e.writeKubeconfig(kubeconfig, clientcmdapi.AuthInfo{
		ClientCertificateData: e.Admin.CertData, ClientKeyData: e.Admin.KeyData,
	})
	if err != nil {
		t.Fatal(err)
	}
	common := []string{
		"--kubeconfig=" + e.path(kubeconfig), "--authentication-kubeconfig=" + e.path(kubeconfig),
		"--authorization-kubeconfig=" + e.path(kubeconfig), "--leader-elect=false", "--bind-address=" + loopback.String(),
	}
	e.startKubernetes(t, "kube-controller-manager",
		append(common, "--controllers="+strings.Join(volumeControllers, ","))...)
	e.startKubernetes(t, "kube-scheduler", common...)
}

func (e *Environment) startKubernetes(t testing.TB, name string, args ...string) {
	t.Helper()
	program := filepath.Join(e.bin, name)
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("finding %s: %v: run `.playground/bin/playground build --only %s`", name, err, name)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	child, err := e.processes.start(e.path(name+".log"), program, nil,
		append(args, fmt.Sprintf("--secure-port=%d", port))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := child.stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
}
