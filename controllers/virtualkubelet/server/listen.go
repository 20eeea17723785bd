// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

const (
	headerTimeout  = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	// stopTimeout is how long open streams have when the server stops.
	stopTimeout = 2 * time.Second
	// certificateLife is how long a certificate is good that was made here, when
	// it was started last.
	certificateLife = 365 * 24 * time.Hour
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
	certificate, err := selfSigned(host, ip)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making a serving certificate: %w", err)
	}
	return certificate, nil
}

// selfSigned makes a certificate for a host. Its key is none of RSA: each probe
// begins a connection, and signing for them would be most of what an idle virtual
// kubelet does.
func selfSigned(host string, ip net.IP) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: host},
		// Clocks differ.
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(certificateLife),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              []string{host},
		IPAddresses:           []net.IP{ip},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
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
