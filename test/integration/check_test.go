// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"strings"
	"testing"

	"liqo.io/federation/test/integration/framework"
)

// The program that "helm test" runs needs no permissions.
func TestCheckOfTheChartFindsTheAPI(t *testing.T) {
	env := framework.Get(t)
	account := env.ServiceAccount(t, framework.Namespace, "default")
	kubeconfig := env.AccountKubeconfig(t, env.Admin.Host, env.Admin.CAData, account.BearerToken)
	if output, code := env.RunProgram(t, framework.ControllerManager, "check", "--kubeconfig="+kubeconfig); code != 0 ||
		!strings.Contains(output, "resources of federation.liqo.io/v1alpha1") {
		t.Errorf("exit code %d: %s", code, output)
	}
	if err := os.Remove(kubeconfig); err != nil {
		t.Fatal(err)
	}
	if output, code := env.RunProgram(t, framework.ControllerManager, "check", "--kubeconfig="+kubeconfig); code == 0 {
		t.Errorf("without a cluster: %s", output)
	}
}
