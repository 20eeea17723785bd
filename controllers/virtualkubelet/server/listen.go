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
	// stopTimeout is how long open streams have when the server stops.
	stopTimeout = 2 * time.Second
	// certificateLife is the time from the start of the process to the end of a
	// certificate that it created, and clockSkew how far clocks of its clients may be
	// behind.
	certificateLife = 365 * 24 * time.Hour
	clockSkew       = time.Hour
)

// Certificate returns the serving certificate: that of the files, or a new self-signed one
// for the host, as a kubelet without a certificate has. It fails if the files cannot be read.
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

// Serve serves on a listener until the context ends.
func Serve(ctx context.Context, listener net.Listener, certificate tls.Certificate, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{certificate},
			// Whose certificate it is, is for the authenticator to find out.
			ClientAuth: tls.RequestClientCert,
			MinVersion: tls.VersionTLS12,
			// Connections are upgraded, which HTTP/2 does not know.
			NextProtos: []string{"http/1.1"},
		},
	}
	var stopping wait.Group
	stopping.StartWithContext(ctx, func(ctx context.Context) {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if err := server.Shutdown(grace); err != nil {
			klog.FromContext(ctx).V(2).Info("Streams were cut", "err", err)
		}
	})
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	}
	stopping.Wait()
	return nil
}
