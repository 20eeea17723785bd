// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity validates the identities that consumers have at their providers:
// certificates, accounts, and whether they were revoked.
package identity

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// ReasonKnownByAccount is the reason of the condition Accepted of an IdentityRequest whose identity is
// a service account, and no certificate.
const ReasonKnownByAccount = "KnownByAccount"

// KnownByAccount reports whether the identity of an IdentityRequest of that generation is a service
// account, by its conditions. A renewal is another generation, which is decided again.
func KnownByAccount(conditions []metav1.Condition, generation int64) bool {
	accepted := meta.FindStatusCondition(conditions, v1alpha1.ConditionAccepted)
	return accepted != nil && accepted.Status == metav1.ConditionTrue &&
		accepted.Reason == ReasonKnownByAccount && accepted.ObservedGeneration == generation
}

// RequestedName returns the common name of a PEM encoded signing request, and an empty string if it is
// malformed.
func RequestedName(request []byte) string {
	block, _ := pem.Decode(request)
	if block == nil {
		return ""
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return ""
	}
	return parsed.Subject.CommonName
}

// Certifies returns the first certificate of a PEM encoded chain if it is for the key of a PEM encoded
// signing request, and nil otherwise.
func Certifies(chain, request []byte) *x509.Certificate {
	certified, _ := pem.Decode(chain)
	requested, _ := pem.Decode(request)
	if certified == nil || requested == nil {
		return nil
	}
	certificate, err := x509.ParseCertificate(certified.Bytes)
	if err != nil {
		return nil
	}
	parsed, err := x509.ParseCertificateRequest(requested.Bytes)
	if err != nil || !bytes.Equal(certificate.RawSubjectPublicKeyInfo, parsed.RawSubjectPublicKeyInfo) {
		return nil
	}
	return certificate
}
