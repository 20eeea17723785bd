// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/integration/framework"
)

// secretive matches secrets that no log may contain: tokens and private keys.
var secretive = regexp.MustCompile(`eyJ[\w-]{8,}\.[\w-]{8,}|PRIVATE KEY|Bearer [^<\s]`)

// NoSecretsInLogs: all programs log at the highest verbosity during a peering and the use of
// streams.
func TestNoSecretsInLogs(t *testing.T) {
	const verbose = "6"
	logs := map[string]func() string{}

	b := makePeeringConsumer(t, "talkative")
	verbosity(t, b.Environment, verbose)
	t.Cleanup(func() { verbosity(t, b.Environment, "0") })
	logs["the API server"] = func() string { return b.Server.Log(t) }

	// The controller of ForeignClusters lists VirtualVolumes, so it needs the storage roles.
	for _, template := range []string{"storage.yaml", "rbac-storage-consumer.yaml"} {
		b.Kubectl(t, b.Chart(t, template), "apply", "-f", "-")
	}
	proxy := b.proxy.AddressURL(t)
	manager := b.StartControllers(t, "talkative", "federation-controller-manager", "--controllers=foreign-cluster",
		"--v="+verbose)
	logs["the controller manager"] = func() string { return manager.Log(t) }
	b.invite(t, proxy)
	b.account(t)
	b.await(t, "the consumer to have its identity", established)

	for _, kind := range []string{byCertificate, byToken} {
		t.Run("a virtual kubelet identified "+kind, func(t *testing.T) {
			o := newOffload(t)
			o.identify(t, kind, map[string]string{"server": framework.AdvertisedServer, "proxy": proxy})
			port := int(o.options.Port)
			o.StartProgram(t, framework.VirtualKubelet, port, append(o.flags(), "--v="+verbose)...)
			o.runsOnAKubelet(t, "entered")
			if got := o.exec(t, "entered", "true"); got != "[true]" {
				t.Errorf("exec is answered with %q", got)
			}
			hasNoSecrets(t, "the virtual kubelet", o.ProgramLog(t, framework.VirtualKubelet, port))
		})
	}
	for program, log := range logs {
		hasNoSecrets(t, program, log())
	}
	if log := manager.Log(t); !strings.Contains(log, v1alpha1.SchemeGroupVersion.Version+"/identityrequests") {
		t.Error("the controller manager does not log its requests to the provider")
	}
}

// flags returns the options of the virtual kubelet as command line arguments.
func (o *offload) flags() []string {
	return []string{
		"--node-name=" + o.options.NodeName, "--node-ip=" + o.options.NodeIP, fmt.Sprintf("--port=%d", o.options.Port),
		"--virtual-node=" + o.options.VirtualNode, "--namespace=" + o.options.Namespace, "--foreign-cluster=" +
			o.options.ForeignCluster,
		"--cluster-id=" + o.options.ClusterID, "--remote-cluster-id=" + o.options.RemoteClusterID, "--consumer-name=" +
			o.options.ConsumerName,
		"--identity-dir=" + o.options.IdentityDir, "--kubeconfig=" + o.options.Kubeconfig,
	}
}

func hasNoSecrets(t *testing.T, program, log string) {
	t.Helper()
	if strings.Count(log, "\n") < 100 {
		t.Errorf("%s logged too little for this test:\n%s", program, log)
	}
	for line := range strings.Lines(log) {
		if found := secretive.FindString(line); found != "" {
			t.Errorf("%s shows a secret (%.12s…): %.300s", program, found, line)
			return
		}
	}
}

// verbosity sets the log level of the shared federation API server.
func verbosity(t *testing.T, env *framework.Environment, level string) {
	t.Helper()
	config := env.Server.Client(env.Admin)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPut,
		config.Host+"/debug/flags/v", bytes.NewBufferString(level))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if response.Body.Close(); response.StatusCode != http.StatusOK {
		t.Fatalf("setting the verbosity: %s", response.Status)
	}
}
