// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/x509"
	"testing"
	"time"
)

func TestSelfSignedCertificateVerifiesAgainstItself(t *testing.T) {
	now := time.Now()
	certificate, err := SelfSigned(x509.Certificate{
		DNSNames: []string{"worker-1"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	only := x509.NewCertPool()
	only.AddCert(parsed)
	for _, test := range []struct {
		name  string
		at    time.Time
		valid bool
	}{{"worker-1", now, true}, {"worker-2", now, false}, {"worker-1", now.Add(2 * time.Hour), false}} {
		_, err := parsed.Verify(x509.VerifyOptions{DNSName: test.name, Roots: only, CurrentTime: test.at})
		if (err == nil) != test.valid {
			t.Errorf("for %s at %s: %v, want valid %v", test.name, test.at, err, test.valid)
		}
	}
	if parsed.SerialNumber.Sign() <= 0 {
		t.Errorf("serial number %s, want a positive one", parsed.SerialNumber)
	}
}
