// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"

	"liqo.io/federation/apiserver/identity"
)

const (
	// certificateLife is the time from the start of the agent to the end of its
	// certificate, and clockSkew how far clocks of its clients may be behind.
	certificateLife = 10 * 365 * 24 * time.Hour
	clockSkew       = time.Hour
)

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
	// A certificate that no client verifies still keeps tokens from being read in transit.
	now := time.Now()
	certificate, err := identity.SelfSigned(x509.Certificate{
		NotBefore:   now.Add(-clockSkew),
		NotAfter:    now.Add(certificateLife),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	})
	if err != nil {
		return errors.Join(fmt.Errorf("creating a serving certificate: %w", err), listener.Close())
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
