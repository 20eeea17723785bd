// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"
)

// certificateLife is how long a certificate is good from the start of the agent.
const certificateLife = 10 * 365 * 24 * time.Hour

// Serve answers /livez and /readyz to everybody, and /metrics to those who may
// get it, until the context ends. It does so with TLS and on a loopback address
// only: agents are on their node's network, where anybody else would ask as
// well.
func Serve(ctx context.Context, address string, kube kubernetes.Interface, alive, ready func() error) error {
	if err := loopback(address); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening for probes and metrics: %w", err)
	}
	return serve(ctx, listener, handler(kube, alive, ready))
}

func handler(kube kubernetes.Interface, alive, ready func() error) http.Handler {
	mux := http.NewServeMux()
	for path, check := range map[string]func() error{"GET /livez": alive, "GET /readyz": ready} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if err := check(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte("ok"))
		})
	}
	mux.Handle("GET /metrics", newGuard(kube).protect(legacyregistry.Handler()))
	return mux
}

func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	certificate, err := selfSigned()
	if err != nil {
		return errors.Join(fmt.Errorf("making a serving certificate: %w", err), listener.Close())
	}
	server := &http.Server{
		Handler: handler, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	}
	return nil
}

// selfSigned makes a certificate, as a kubelet without one does: it keeps tokens
// from being read on their way. Signing for each probe costs least with such a
// key.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		// Clocks differ.
		NotBefore:   now.Add(-time.Hour),
		NotAfter:    now.Add(certificateLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// loopback refuses an address that others than this machine reach.
func loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not host:port: %w", address, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%q is not a loopback address: others than this machine would reach it", address)
	}
	return nil
}
