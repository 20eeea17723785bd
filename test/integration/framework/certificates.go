// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"crypto/x509/pkix"
	"errors"
	"net"
	"path/filepath"
	"testing"
)

// ServingCertificate writes a serving certificate for the federation API server and its key to a
// directory, and returns both paths.
func (e *Environment) ServingCertificate(t testing.TB, dir string) (certificate, key string) {
	t.Helper()
	certificate, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	e.RotateServingCertificate(t, certificate, key)
	return certificate, key
}

// RotateServingCertificate replaces a certificate and its key. Each file is replaced atomically, as
// the kubelet does for a Secret.
func (e *Environment) RotateServingCertificate(t testing.TB, certificate, key string) {
	t.Helper()
	newCertificate, newKey, err := e.authority.Issue(pkix.Name{CommonName: serviceName},
		[]string{serviceName + "." + Namespace + ".svc"}, []net.IP{loopback})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(replace(certificate, newCertificate), replace(key, newKey)); err != nil {
		t.Fatal(err)
	}
}
