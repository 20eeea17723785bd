// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/identity"
)

const (
	headerTimeout  = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	// stopTimeout is the time for which Serve waits for open streams after the context has ended.
	stopTimeout = 2 * time.Second
	// certificateLife is the lifetime of a self-signed certificate. clockSkew is the time by which clocks of clients
	// may be slow.
	certificateLife = 365 * 24 * time.Hour
	clockSkew       = time.Hour
)

// Certificate returns the serving certificate from the files. If certFile is empty, it creates a self-signed
// certificate for the host and the IP address, as a kubelet does. It fails if the files cannot be read or the
// certificate cannot be created.
func Certificate(certFile, keyFile, host string, ip net.IP) (tls.Certificate, error) {
	if certFile != "" {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return tls.Certificate{}, fmt.Errorf("reading the serving certificate: %w", err)
		}
		return pair, nil
	}
	now := time.Now()
	certificate, err := identity.SelfSigned(x509.Certificate{
		Subject:     pkix.Name{CommonName: host},
		NotBefore:   now.Add(-clockSkew),
		NotAfter:    now.Add(certificateLife),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{host},
		IPAddresses: []net.IP{ip},
	})
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("creating a serving certificate: %w", err)
	}
	return certificate, nil
}

// Serve serves the handler over TLS until the context ends. It fails if the listener fails.
func Serve(ctx context.Context, listener net.Listener, certificate tls.Certificate, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{certificate},
			// Auth verifies client certificates.
			ClientAuth: tls.RequestClientCert,
			MinVersion: tls.VersionTLS12,
			// Streams upgrade their connections, which HTTP/2 does not support.
			NextProtos: []string{"http/1.1"},
		},
	}
	var stopping wait.Group
	stopping.StartWithContext(ctx, func(ctx context.Context) {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if err := server.Shutdown(grace); err != nil {
			klog.FromContext(ctx).V(2).Info("Stopping with open streams, which end with the process", "err", err)
		}
	})
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	}
	stopping.Wait()
	return nil
}
