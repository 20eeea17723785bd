// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/integration/framework"
)

// The hook of "helm uninstall" has the permissions of the chart, and fails while the cluster is
// peered.
func TestTheChartIsNotUninstalledWhilePeered(t *testing.T) {
	env := framework.Get(t)
	installRoles(t, env)
	clusters := admin(t).FederationV1alpha1().ForeignClusters()
	for name, spec := range map[string]v1alpha1.ForeignClusterSpec{
		"adria":  {Outgoing: v1alpha1.PeeringEnabled, Server: "https://adria.example.org"},
		"agordo": {Incoming: v1alpha1.PeeringEnabled},
		"airola": {},
	} {
		if _, err := clusters.Create(t.Context(),
			&v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			// No controller in this test ends a peering.
			ctx := context.WithoutCancel(t.Context())
			if err := clusters.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			_, err := clusters.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
				metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		})
	}
	account := env.ServiceAccount(t, framework.Namespace, "federation-uninstall")
	kubeconfig := env.AccountKubeconfig(t, env.Admin.Host, env.Admin.CAData, account.BearerToken)
	output, code := env.RunProgram(t, framework.ControllerManager, "uninstall", "--kubeconfig="+kubeconfig)
	for _, fragment := range []string{
		"ForeignCluster adria: it is a provider of this cluster",
		"ForeignCluster agordo: it is a consumer of this cluster", "kubectl delete foreignclusters",
	} {
		if code == 0 || !strings.Contains(output, fragment) {
			t.Errorf("exit code %d, and the output lacks %q:\n%s", code, fragment, output)
		}
	}
	if strings.Contains(output, "airola") {
		t.Errorf("the request to airola is empty:\n%s", output)
	}
	// Without the value uninstall.force, the hook may only read.
	if output, code := env.RunProgram(t, framework.ControllerManager, "uninstall", "--force",
		"--kubeconfig="+kubeconfig); code == 0 || !strings.Contains(output, "forbidden") {
		t.Errorf("exit code %d: %s", code, output)
	}
	if err := os.Remove(kubeconfig); err != nil {
		t.Fatal(err)
	}
}
