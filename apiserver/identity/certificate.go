// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity has the rules for identities of consumers at their providers that several components
// share: certificates, tokens of ServiceAccounts, and their revocation.
package identity

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// ReasonKnownByAccount of the condition Accepted of an IdentityRequest means that the consumer is accepted with tokens
// of a ServiceAccount instead of a certificate.
const ReasonKnownByAccount = "KnownByAccount"

// KnownByAccount reports whether conditions of an IdentityRequest state that its identity is a
// ServiceAccount, for the given generation of the request. A renewal increases the generation, and the
// provider decides again.
func KnownByAccount(conditions []metav1.Condition, generation int64) bool {
	accepted := meta.FindStatusCondition(conditions, v1alpha1.ConditionAccepted)
	return accepted != nil && accepted.Status == metav1.ConditionTrue &&
		accepted.Reason == ReasonKnownByAccount && accepted.ObservedGeneration == generation
}

// RequestedName returns the common name in a PEM encoded certificate signing request, or an empty
// string if the request is malformed.
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

// Certifies returns the first certificate of a PEM encoded chain if it has the public key of a PEM
// encoded certificate signing request. Otherwise it returns nil.
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
