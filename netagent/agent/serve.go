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
	// certificateLife is the validity of the serving certificate, and clockSkew the tolerated lag of clients'
	// clocks.
	certificateLife = 10 * 365 * 24 * time.Hour
	clockSkew       = time.Hour
)

// Serve serves /livez and /readyz without authentication, and /metrics to clients whose token permits GET
// requests for this path, until the context ends. /livez and /readyz respond with the errors of live and ready. It
// uses TLS with a self-signed certificate. Because agents run in the host network, it serves on loopback addresses
// only. It fails if the address is not a loopback address or is in use.
func Serve(ctx context.Context, address string, kube kubernetes.Interface, live, ready func() error) error {
	if err := loopback(address); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening for probes and metrics: %w", err)
	}
	return serve(ctx, listener, handler(kube, live, ready))
}

func handler(kube kubernetes.Interface, live, ready func() error) http.Handler {
	mux := http.NewServeMux()
	for path, check := range map[string]func() error{"GET /livez": live, "GET /readyz": ready} {
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
	// Clients do not verify the certificate; TLS keeps tokens from being read in transit.
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
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	}
	return nil
}

// loopback returns an error unless the address is host:port with a loopback IP address.
func loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q: must be host:port: %w", address, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%q: must be a loopback address, which other machines cannot reach", address)
	}
	return nil
}
