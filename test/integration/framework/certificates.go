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

// ServingCertificate writes a certificate of the federation API server and its key into a directory,
// and returns their paths.
func (e *Environment) ServingCertificate(t testing.TB, dir string) (certificate, key string) {
	t.Helper()
	certificate, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	e.RotateServingCertificate(t, certificate, key)
	return certificate, key
}

// RotateServingCertificate replaces both files atomically, as the kubelet does with those of a Secret.
func (e *Environment) RotateServingCertificate(t testing.TB, certificate, key string) {
	t.Helper()
	newCertificate, newKey, err := e.authority.Issue(pkix.Name{CommonName: serviceName}, []string{serviceName + "." + Namespace + ".svc"}, []net.IP{loopback})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(replace(certificate, newCertificate), replace(key, newKey)); err != nil {
		t.Fatal(err)
	}
}
