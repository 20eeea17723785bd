// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned/fake"
)

var expires = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// identityData returns the data of the Secret of an identity.
func identityData(t *testing.T) map[string][]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: expires}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		KeyPrivateKey:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
		KeyCertificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		KeyServer:      []byte("https://10.1.0.1:6443"),
		KeyNamespace:   []byte("liqo-tenant-rome"),
	}
}

func TestAnIdentityIsTheSameFromASecretAndFromADirectory(t *testing.T) {
	data := identityData(t)
	fromSecret, err := FromSecret(&corev1.Secret{Type: v1alpha1.SecretTypeIdentity, Data: data})
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	for name, content := range data {
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fromDirectory, err := FromDirectory(directory)
	if err != nil || !fromSecret.Equal(fromDirectory) || !fromDirectory.ExpirationTime.Equal(expires) {
		t.Errorf("%+v and %+v, %v", fromSecret, fromDirectory, err)
	}
}

func TestIdentitiesThatCannotBeUsed(t *testing.T) {
	other := identityData(t)
	for name, change := range map[string]func(*corev1.Secret){
		"another type of Secret": func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
		"no namespace":           func(s *corev1.Secret) { delete(s.Data, KeyNamespace) },
		"a server without TLS":   func(s *corev1.Secret) { s.Data[KeyServer] = []byte("http://10.1.0.1") },
		"another private key":    func(s *corev1.Secret) { s.Data[KeyPrivateKey] = other[KeyPrivateKey] },
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{Type: v1alpha1.SecretTypeIdentity, Data: identityData(t)}
			change(secret)
			if _, err := FromSecret(secret); err == nil || errors.Is(err, ErrIncomplete) {
				t.Errorf("error %v", err)
			}
		})
	}
	secret := &corev1.Secret{
		Type: v1alpha1.SecretTypeIdentity, Data: map[string][]byte{KeyPrivateKey: other[KeyPrivateKey]},
	}
	if _, err := FromSecret(secret); !errors.Is(err, ErrIncomplete) {
		t.Errorf("a key without a certificate: %v", err)
	}
}

func TestAConnectionLivesAsLongAsItsIdentity(t *testing.T) {
	connections := 0
	peers := NewPeersWith(func(*Identity) (*Clients, error) {
		connections++
		return &Clients{Federation: fake.NewSimpleClientset()}, nil
	})
	var described []string
	var contexts []context.Context
	peers.Subscribe(func(ctx context.Context, foreignCluster string, peer *Peer) error {
		described, contexts = append(described, foreignCluster+" "+peer.Namespace), append(contexts, ctx)
		return nil
	})
	first := &Identity{Server: "https://10.1.0.1", Namespace: "liqo-tenant-rome"}
	renewed := &Identity{Server: "https://10.1.0.1", Namespace: "liqo-tenant-rome", Certificate: []byte("new")}
	for i, stage := range []struct {
		identity    *Identity
		connections int
	}{{first, 1}, {first, 1}, {renewed, 2}, {renewed, 2}} {
		if err := peers.Set(t.Context(), "milan", stage.identity); err != nil {
			t.Fatal(err)
		}
		if connections != stage.connections || len(described) != stage.connections {
			t.Errorf("stage %d: %d connections, subscribers called for %v", i, connections, described)
		}
	}
	if contexts[0].Err() == nil || contexts[1].Err() != nil {
		t.Errorf("the old connection: %v, the new one: %v", contexts[0].Err(), contexts[1].Err())
	}
	peers.Remove("milan")
	if _, ok := peers.Get("milan"); ok || contexts[1].Err() == nil {
		t.Error("a connection that was removed is still there")
	}
}

// The connections of a renewed identity, and those that read an invitation, count for the same limit.
func TestConnectionsToOneServerShareALimitOfCalls(t *testing.T) {
	var calls callsOfServers
	first := calls.of("https://10.1.0.1")
	if calls.of("https://10.1.0.1") != first || calls.of("https://10.1.0.2") == first {
		t.Error("each server must have one limit")
	}
	identity := &Identity{Server: "https://10.1.0.1", Token: "token"}
	for range 2 {
		config, err := Config(identity, Options{Calls: first})
		if err != nil {
			t.Fatal(err)
		}
		transport := config.WrapTransport(&http.Transport{})
		if guard, ok := transport.(*guard); !ok || guard.calls != first {
			t.Errorf("the transport is %T, want a guard with the limit", transport)
		}
	}
}
