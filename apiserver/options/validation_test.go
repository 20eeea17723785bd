// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// writePair writes a serving certificate that expires at notAfter, and its key, and returns the paths
// of both files.
func writePair(t *testing.T, notAfter time.Time) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: notAfter.Add(-time.Hour), NotAfter: notAfter, DNSNames: []string{"federation-apiserver.liqo.svc"},
	}
	certDER, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: certDER},
		keyFile:  {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func parse(t *testing.T, args ...string) *Options {
	t.Helper()
	o := New()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	for _, set := range o.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestCertificateAndClusterNameAreTheOnlyRequiredOptions(t *testing.T) {
	certFile, keyFile := writePair(t, time.Now().Add(time.Hour))
	o := parse(t, "--cluster-name=rome", "--tls-cert-file="+certFile, "--tls-private-key-file="+keyFile)
	if errs := o.Validate(); len(errs) > 0 {
		t.Errorf("refused: %v", errs)
	}
	if !o.embedsEtcd() {
		t.Error("does not embed etcd")
	}
}

func TestValidateReturnsAllErrors(t *testing.T) {
	certFile, keyFile := writePair(t, time.Now().Add(time.Hour))
	expiredCert, expiredKey := writePair(t, time.Now().Add(-time.Hour))
	_, otherKey := writePair(t, time.Now().Add(time.Hour))
	junk := filepath.Join(t.TempDir(), "junk")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}

	tests := map[string]struct {
		args []string
		want []string
	}{
		"nothing that is required": {
			args: []string{"--cluster-name=", "--tls-cert-file="},
			want: []string{"--cluster-name is required", "--tls-cert-file and --tls-private-key-file are required"},
		},
		"invalid names": {
			args: []string{"--cluster-name=Rome_1", "--namespace=a.b", "--invitation-namespace=-"},
			want: []string{`--cluster-name "Rome_1"`, `--namespace "a.b"`, `--invitation-namespace "-"`},
		},
		"a cluster name of 41 characters": {
			args: []string{"--cluster-name=" + strings.Repeat("r", 41)},
			want: []string{"at most 40 characters"},
		},
		"invitations in the install namespace": {
			args: []string{"--namespace=liqo", "--invitation-namespace=liqo"},
			want: []string{"must not be --namespace"},
		},
		"a server without TLS":       {args: []string{"--server=http://a:6443"}, want: []string{"must be an https URL"}},
		"a server with a password":   {args: []string{"--server=https://u:p@a:6443"}, want: []string{"must be an https URL"}},
		"a server with a query":      {args: []string{"--server=https://a?b=c"}, want: []string{"must be an https URL"}},
		"a server that is not a URL": {args: []string{"--server=https://a b"}, want: []string{"must be a URL"}},
		"an authority of no server": {
			args: []string{"--server-ca-file=" + certFile},
			want: []string{"requires --server"},
		},
		"an invalid authority": {
			args: []string{"--server=https://a", "--server-ca-file=" + junk},
			want: []string{"--server-ca-file"},
		},
		"a certificate that does not exist": {args: []string{"--tls-cert-file=/nowhere"}, want: []string{"--tls-cert-file /nowhere with"}},
		"an invalid certificate":            {args: []string{"--tls-cert-file=" + junk}, want: []string{"use a PEM encoded certificate"}},
		"the key of another certificate":    {args: []string{"--tls-private-key-file=" + otherKey}, want: []string{"private key does not match"}},
		"a certificate that has expired": {
			args: []string{"--tls-cert-file=" + expiredCert, "--tls-private-key-file=" + expiredKey},
			want: []string{"the certificate expired on"},
		},
		"an old TLS version":               {args: []string{"--tls-min-version=VersionTLS11"}, want: []string{"must be VersionTLS12 or VersionTLS13"}},
		"an invalid port":                  {args: []string{"--secure-port=70000"}, want: []string{"--secure-port 70000"}},
		"no storage":                       {args: []string{"--data-dir="}, want: []string{"set a directory for the embedded etcd"}},
		"credentials for no etcd":          {args: []string{"--etcd-cafile=" + certFile}, want: []string{"require --etcd-servers"}},
		"an etcd server that is not a URL": {args: []string{"--etcd-servers=etcd:2379"}, want: []string{`--etcd-servers "etcd:2379"`}},
		"half a client certificate for etcd": {
			args: []string{"--etcd-servers=https://etcd:2379", "--etcd-certfile=" + certFile},
			want: []string{"must be set together"},
		},
		"broken files for etcd": {
			args: []string{"--etcd-servers=https://etcd:2379", "--etcd-cafile=" + junk, "--etcd-certfile=" + certFile,
				"--etcd-keyfile=" + otherKey},
			want: []string{"--etcd-certfile " + certFile, "--etcd-cafile"},
		},
		"a negative duration of a cache": {
			args: []string{"--authorization-webhook-cache-authorized-ttl=-1s"},
			want: []string{"must not be negative"},
		},
		"an unknown trust": {
			args: []string{"--policy-trust=Friend"},
			want: []string{`--policy-trust "Friend": must be one of [Tenant SameOwner]`},
		},
		"an unknown API access": {
			args: []string{"--policy-api-access=Home"},
			want: []string{`--policy-api-access "Home": must be Consumer, Disabled or empty`},
		},
		"unknown limits of pods": {
			args: []string{"--policy-pods-limits=Some"},
			want: []string{`--policy-pods-limits "Some": must be Any, Required or empty`},
		},
		"no trust":                    {args: []string{"--policy-trust="}, want: []string{`--policy-trust ""`}},
		"an unknown admission plugin": {args: []string{"--enable-admission-plugins=Magic"}, want: []string{`"Magic" is unknown`}},
		"an unknown log format":       {args: []string{"--logging-format=poem"}, want: []string{"poem"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"--cluster-name=rome", "--tls-cert-file=" + certFile, "--tls-private-key-file=" +
				keyFile}, test.args...)
			errs := parse(t, args...).Validate()
			if len(errs) != len(test.want) {
				t.Fatalf("got %d errors %v, want %d", len(errs), errs, len(test.want))
			}
			for i, want := range test.want {
				if got := errs[i].Error(); !strings.Contains(got, want) || strings.Contains(got, "\n") {
					t.Errorf("got %q, want one line with %q", got, want)
				}
			}
		})
	}
}
