// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
)

const (
	headerTimeout  = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	// stopTimeout is how long open streams have when the server stops.
	stopTimeout = 2 * time.Second
)

// Certificate is the one to serve with: that of the files, or a new one of
// its own for the host, as a kubelet without a certificate does.
func Certificate(certFile, keyFile, host string, ip net.IP) (tls.Certificate, error) {
	if certFile != "" {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return tls.Certificate{}, fmt.Errorf("reading the serving certificate: %w", err)
		}
		return pair, nil
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey(host, []net.IP{ip}, nil)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making a serving certificate: %w", err)
	}
	return tls.X509KeyPair(cert, key)
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
