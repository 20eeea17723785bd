// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

// servingPair says what is wrong with the certificate that the server would
// show, and what to do.
func servingPair(certFile, keyFile string) error {
	if certFile == "" || keyFile == "" {
		return errors.New("--tls-cert-file and --tls-private-key-file are required: the certificate must be signed by the authority in the APIService's caBundle")
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return fmt.Errorf("--tls-cert-file %s with --tls-private-key-file %s: %w: give a PEM encoded certificate and the key it was made for", certFile, keyFile, err)
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) {
		return fmt.Errorf("--tls-cert-file %s: the certificate expired on %s: renew it", certFile, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}
