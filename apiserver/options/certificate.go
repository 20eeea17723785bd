// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

// servingPair returns an error unless the files contain a certificate that is not expired and its
// private key.
func servingPair(certFile, keyFile string) error {
	if certFile == "" || keyFile == "" {
		return errors.New("--tls-cert-file and --tls-private-key-file are required: the certificate must be signed by an " +
			"authority in the caBundle of the APIService")
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return fmt.Errorf("--tls-cert-file %s with --tls-private-key-file %s: %w: "+
			"use a PEM encoded certificate and its private key", certFile, keyFile, err)
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) {
		return fmt.Errorf("--tls-cert-file %s: the certificate expired on %s: renew it", certFile,
			pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}
