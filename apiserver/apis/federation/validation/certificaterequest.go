// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	maxCertificateRequest = 8 << 10

	certificateRequestType = "CERTIFICATE REQUEST"
)

// ValidateCertificateRequest validates a PEM encoded PKCS #10 certificate signing request of a
// consumer. Its common name must be commonName, the uid of a PeeringToken. It returns the parsed
// request, or nil and the errors.
func ValidateCertificateRequest(
	encoded []byte, commonName string, path *field.Path,
) (*x509.CertificateRequest, field.ErrorList) {
	if len(encoded) == 0 {
		return nil, field.ErrorList{field.Required(path, "must be a PEM encoded PKCS #10 certificate signing request")}
	}
	if len(encoded) > maxCertificateRequest {
		return nil, field.ErrorList{field.TooLong(path, "", maxCertificateRequest)}
	}
	refuse := func(format string, args ...any) (*x509.CertificateRequest, field.ErrorList) {
		return nil, field.ErrorList{field.Invalid(path, fmt.Sprintf("%d bytes", len(encoded)), fmt.Sprintf(format, args...))}
	}
	// pem.Decode would skip text before the block.
	trimmed := bytes.TrimSpace(encoded)
	if !bytes.HasPrefix(trimmed, []byte("-----BEGIN "+certificateRequestType+"-----")) {
		return refuse("must begin with a PEM block of type %q", certificateRequestType)
	}
	block, rest := pem.Decode(trimmed)
	if block == nil || block.Type != certificateRequestType || len(block.Headers) > 0 {
		return refuse("must be a PEM block of type %q without headers", certificateRequestType)
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return refuse("must contain exactly one PEM block")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return refuse("must be a PKCS #10 certificate signing request: %v", err)
	}
	if message := unsuitableKey(request); message != "" {
		return refuse("%s", message)
	}
	if err := request.CheckSignature(); err != nil {
		return refuse("must be signed with its own key: %v", err)
	}
	if errs := certificateSubject(request, commonName, path); len(errs) > 0 {
		return nil, errs
	}
	return request, nil
}

// unsuitableKey returns the reason for which the type of a request's key is refused, or an empty
// string if it is accepted. It is called before the signature is verified, because keys of other
// types can make the verification expensive and the sender is not authenticated.
func unsuitableKey(request *x509.CertificateRequest) string {
	switch key := request.PublicKey.(type) {
	case ed25519.PublicKey:
		return ""
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() || key.Curve == elliptic.P384() {
			return ""
		}
	}
	return "must be for an ECDSA key on P-256 or P-384, or for an Ed25519 key"
}

// certificateSubject validates that a request has only commonName and the organization of peers as
// its subject, and no extensions.
func certificateSubject(request *x509.CertificateRequest, commonName string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	subject := request.Subject
	if subject.CommonName != commonName || commonName == "" {
		errs = append(errs, field.Invalid(path, truncate(subject.CommonName),
			"must have the uid of the invitation's PeeringToken as its common name"))
	}
	if len(subject.Organization) != 1 || subject.Organization[0] != v1alpha1.PeerGroup {
		errs = append(errs, field.Invalid(path, truncate(fmt.Sprint(subject.Organization)),
			fmt.Sprintf("must have %q as its only organization", v1alpha1.PeerGroup)))
	}
	if len(subject.Names) != 2 {
		errs = append(errs, field.Invalid(path, fmt.Sprintf("%d attributes", len(subject.Names)),
			"must have only a common name and an organization in its subject"))
	}
	if len(request.Extensions) > 0 ||
		len(request.DNSNames)+len(request.EmailAddresses)+len(request.IPAddresses)+len(request.URIs) > 0 {
		errs = append(errs, field.Invalid(path, fmt.Sprintf("%d extensions", len(request.Extensions)),
			"must not request names, addresses or other extensions"))
	}
	return errs
}
