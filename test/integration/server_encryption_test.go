// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

const encryptionConfiguration = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
  - resources: ["*.federation.liqo.io"]
    providers:
      - secretbox: {keys: [{name: first, secret: %s}]}
      - identity: {}
`

func TestObjectsAreStoredEncrypted(t *testing.T) {
	env := framework.Get(t)
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, encryptionConfiguration, base64.StdEncoding.EncodeToString(key)),
		0o600); err != nil {
		t.Fatal(err)
	}
	// This object is stored before encryption is enabled.
	dir := env.MakeDataDir(t)
	plain := env.StartServer(t, dir)
	client, err := versioned.NewForConfig(plain.Client(env.Admin))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.FederationV1alpha1().PeeringTokens().Create(t.Context(), newToken("older"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	plain.Stop(t, syscall.SIGTERM)

	server := env.StartServer(t, dir, "--encryption-provider-config="+config,
		"--encryption-provider-config-automatic-reload")
	if client, err = versioned.NewForConfig(server.Client(env.Admin)); err != nil {
		t.Fatal(err)
	}
	tokens := client.FederationV1alpha1().PeeringTokens()
	if _, err := tokens.Create(t.Context(), newToken("newer"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	older, err := tokens.Get(t.Context(), "older", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const prefix = "/registry/federation.liqo.io/peeringtokens/"
	all := stored(t, server)
	if !bytes.Contains(all[prefix+"older"], []byte("PeeringToken")) {
		t.Errorf("the older object is stored as %q", all[prefix+"older"])
	}
	isEncrypted := func(name string) {
		t.Helper()
		value := stored(t, server)[prefix+name]
		if !bytes.HasPrefix(value, []byte("k8s:enc:secretbox:v1:first:")) || bytes.Contains(value, []byte("PeeringToken")) {
			t.Errorf("%s is stored as %q", name, value)
		}
	}
	isEncrypted("newer")
	// When the older object is updated, it is stored encrypted.
	older.Annotations = map[string]string{"example.com/touched": "yes"}
	if _, err := tokens.Update(t.Context(), older, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	isEncrypted("older")
	list, err := tokens.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Errorf("%d objects can be read, %v", len(list.Items), err)
	}
}
