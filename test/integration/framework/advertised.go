// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"errors"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"liqo.io/federation/test/certificates"
)

// AdvertisedAuthority returns the CA bundle that verifies AdvertisedServer.
func (e *Environment) AdvertisedAuthority() []byte { return e.advertised.Bundle }

// RotateAdvertised makes kube-apiserver serve a certificate of another authority at AdvertisedServer, and waits until
// it does. The change is reverted at the end of the test.
func (e *Environment) RotateAdvertised(t testing.TB, authority *certificates.Authority) {
	t.Helper()
	before := e.advertised
	t.Cleanup(func() {
		if e.advertised != before {
			e.show(t, before)
		}
	})
	e.show(t, authority)
}

func (e *Environment) show(t testing.TB, authority *certificates.Authority) {
	t.Helper()
	if err := e.writeAdvertised(authority); err != nil {
		t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startTimeout)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		// The connection is not verified, because its purpose is to read the certificate.
		connection, err := tls.Dial("tcp", e.Admin.Host[len("https://"):],
			&tls.Config{ServerName: advertisedHost, InsecureSkipVerify: true})
		if err != nil {
			return false, err
		}
		defer connection.Close()
		shown := connection.ConnectionState().PeerCertificates[0]
		return shown.CheckSignatureFrom(authority.Certificate) == nil, nil
	})
	if err != nil {
		t.Errorf("kube-apiserver does not show the new certificate: %v", err)
	}
}

// writeAdvertised replaces the files of the serving certificate of AdvertisedServer. Each file is
// replaced atomically.
func (e *Environment) writeAdvertised(authority *certificates.Authority) error {
	certificate, key, err := authority.Issue(pkix.Name{CommonName: advertisedHost}, []string{advertisedHost}, nil)
	if err != nil {
		return err
	}
	e.advertised = authority
	return errors.Join(replace(e.path("advertised.crt"), certificate), replace(e.path("advertised.key"), key))
}

// replace writes a file atomically, because kube-apiserver reads it concurrently.
func replace(path string, content []byte) error {
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Certify signs a PEM encoded certificate request with the authority by which kube-apiserver verifies clients. The
// certificate is valid from began for the duration life.
func (e *Environment) Certify(t testing.TB, request []byte, began time.Time, life time.Duration) []byte {
	t.Helper()
	certificate, err := e.authority.Certify(bytes.Clone(request), began, life)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}
