// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
)

// Certifies returns the first certificate of a PEM encoded chain if it is for
// the key of a PEM encoded request, and nil if it is not, or answers none.
func Certifies(chain, request []byte) *x509.Certificate {
	certified, _ := pem.Decode(chain)
	asked, _ := pem.Decode(request)
	if certified == nil || asked == nil {
		return nil
	}
	certificate, err := x509.ParseCertificate(certified.Bytes)
	if err != nil {
		return nil
	}
	parsed, err := x509.ParseCertificateRequest(asked.Bytes)
	if err != nil || !bytes.Equal(certificate.RawSubjectPublicKeyInfo, parsed.RawSubjectPublicKeyInfo) {
		return nil
	}
	return certificate
}
