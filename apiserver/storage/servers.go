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
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// reachTimeout is how long one etcd server may take to accept a connection.
const reachTimeout = 5 * time.Second

// Reach makes sure that at least one etcd server accepts a connection, and
// shows a certificate that is trusted. Otherwise the error tells of each of
// them.
func Reach(ctx context.Context, config storagebackend.TransportConfig) error {
	info := transport.TLSInfo{CertFile: config.CertFile, KeyFile: config.KeyFile, TrustedCAFile: config.TrustedCAFile}
	tlsConfig, err := info.ClientConfig()
	if err != nil {
		return fmt.Errorf("reading the credentials for etcd: %w", err)
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
