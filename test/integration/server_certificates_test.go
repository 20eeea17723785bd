// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

// A watch stays open while the certificate is replaced, which proves that the server did not
// restart.
func TestAServingCertificateIsReplacedWhileServing(t *testing.T) {
	env := framework.Get(t)
	certificate, key := env.ServingCertificate(t, t.TempDir())
	server := env.StartServer(t, env.MakeDataDir(t), "--tls-cert-file="+certificate, "--tls-private-key-file="+key)
	client, err := versioned.NewForConfig(server.Client(env.Admin))
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := client.FederationV1alpha1().PeeringTokens().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()

	before := shown(t, server.URL)
	env.RotateServingCertificate(t, certificate, key)
	// The server watches the files, and also reads them every minute.
	retryFor(t, 2*time.Minute, func() (any, error) {
		if now := shown(t, server.URL); now == before {
			return nil, fmt.Errorf("the server still shows certificate %s", now)
		}
		return nil, nil
	})
	if _, err := client.FederationV1alpha1().PeeringTokens().Create(t.Context(), newToken("rotated"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if event := <-watcher.ResultChan(); event.Object == nil {
		t.Error("the watch has ended")
	}
}

// shown returns the serial number of the certificate that a server presents.
func shown(t *testing.T, server string) string {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	// The server is not verified, because the test reads the certificate. Other tests verify it.
	connection, err := tls.Dial("tcp", target.Host, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0].SerialNumber.String()
}
