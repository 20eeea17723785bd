// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// reachTimeout is the timeout of a connection to one etcd server.
const reachTimeout = 5 * time.Second

// Empty reports whether etcd has no key with the prefix. It fails if etcd does not respond.
func Empty(ctx context.Context, config storagebackend.TransportConfig, prefix string) (bool, error) {
	var tlsConfig *tls.Config
	if config.TrustedCAFile != "" || config.CertFile != "" {
		// The client would use a TLS configuration for the unix socket of the embedded etcd too, which
		// does not support TLS.
		var err error
		if tlsConfig, err = clientTLS(config); err != nil {
			return false, err
		}
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: config.ServerList, TLS: tlsConfig, DialTimeout: dialTimeout, Logger: zap.NewNop(),
	})
	if err != nil {
		return false, fmt.Errorf("creating a client of etcd: %w", err)
	}
	defer client.Close()
	found, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(1))
	if err != nil {
		return false, fmt.Errorf("reading keys of etcd: %w", err)
	}
	return len(found.Kvs) == 0, nil
}

// clientTLS returns the TLS configuration for etcd servers with https URLs. It fails if a file of
// config cannot be read.
func clientTLS(config storagebackend.TransportConfig) (*tls.Config, error) {
	info := transport.TLSInfo{CertFile: config.CertFile, KeyFile: config.KeyFile, TrustedCAFile: config.TrustedCAFile}
	tlsConfig, err := info.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the credentials for etcd: %w", err)
	}
	return tlsConfig, nil
}

// Reach returns an error unless at least one etcd server accepts a connection and has a trusted
// certificate. The error contains the reason for each server.
func Reach(ctx context.Context, config storagebackend.TransportConfig) error {
	tlsConfig, err := clientTLS(config)
	if err != nil {
		return err
	}
	var errs []error
	for _, server := range config.ServerList {
		if err := reach(ctx, server, tlsConfig); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", server, err))
			continue
		}
		return nil
	}
	return errors.Join(errs...)
}

func reach(ctx context.Context, server string, tlsConfig *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	address, err := url.Parse(server)
	if err != nil {
		return err
	}
	var connection net.Conn
	if address.Scheme == "https" {
		connection, err = (&tls.Dialer{Config: tlsConfig}).DialContext(ctx, "tcp", address.Host)
	} else {
		connection, err = (&net.Dialer{}).DialContext(ctx, "tcp", address.Host)
	}
	if err != nil {
		return err
	}
	return connection.Close()
}
