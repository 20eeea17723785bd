// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestServerURL(t *testing.T) {
	path := field.NewPath("server")
	for _, good := range []string{
		"https://milan.example.org", "https://milan.example.org:6443", "https://milan.example.org/clusters/c-1",
		"https://milan.example.org/",
		"https://10.0.0.1:6443", "https://[2001:db8::1]:6443", "https://MILAN.example.org", "https://172.18.0.2",
	} {
		if errs := serverURL(good, path); len(errs) > 0 {
			t.Errorf("%s is refused: %v", good, errs)
		}
	}
	for _, bad := range []string{
		"", "milan", "milan:6443", "http://milan.example.org", "ftp://milan.example.org", "https:milan",
		"https:///path", "https://",
		"https://user@milan.example.org", "https://user:password@milan.example.org", "https://milan.example.org?a=b",
		"https://milan.example.org?",
		"https://milan.example.org#x", "https://milan.example.org#", "https://milan.example.org:0",
		"https://milan.example.org:65536", "https://milan.example.org:",
		"https://milan.example.org/../x", "https://milan.example.org/a/./b", "https://milan.example.org/%2e%2e/x",
		"https://localhost", "https://LOCALHOST:6443", "https://api.localhost", "https://127.0.0.1", "https://127.8.8.8:6443",
		"https://[::1]",
		"https://[::ffff:127.0.0.1]", "https://0.0.0.0", "https://[::]", "https://169.254.169.254", "https://[fe80::1]",
		"https://[fe80::1%25eth0]",
		"https://224.0.0.1", "https://127.1", "https://2130706433", "https://0x7f000001", "https://0x7f.0.0.1",
		"https://017700000001",
		"https://milan_1.example.org", "https://milan example.org", "https://-milan", "https://milan\n.example.org",
		"https://" + strings.Repeat("m", maxURL),
	} {
		if errs := serverURL(bad, path); len(errs) == 0 {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func FuzzServerURL(f *testing.F) {
	for _, seed := range []string{"https://milan.example.org:6443", "https://127.1", "https://[::1]", "https://a@b",
		"https://[fe80::1%25x]/..", "://", "https://%zz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if errs := serverURL(raw, field.NewPath("server")); len(errs) == 0 &&
			!strings.HasPrefix(strings.ToLower(raw), "https://") {
			t.Errorf("%q is accepted", raw)
		}
	})
}

func certificate(t testing.TB) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestCABundle(t *testing.T) {
	path := field.NewPath("caBundle")
	good := string(certificate(t))
	for name, bundle := range map[string]string{"empty": "", "one": good, "two": good + "\n" + good,
		"one with space around": "\n" + good + "\n\n"} {
		if errs := caBundle([]byte(bundle), path); len(errs) > 0 {
			t.Errorf("%s is refused: %v", name, errs)
		}
	}
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("not DER")})
	for name, bundle := range map[string]string{
		"text":                "certificates",
		"text after":          good + "text",
		"a private key after": good + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("key")})),
		"a broken one":        good + string(broken),
		"too many":            strings.Repeat(good, maxCertificates+1),
		"too much":            strings.Repeat("x", maxBundle+1),
	} {
		if errs := caBundle([]byte(bundle), path); len(errs) == 0 {
			t.Errorf("%s is accepted", name)
		}
	}
}
