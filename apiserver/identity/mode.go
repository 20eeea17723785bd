// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	// DefaultLifetime is the default lifetime of an identity.
	DefaultLifetime = 24 * time.Hour
	// MinLifetime is the minimum lifetime of an identity.
	MinLifetime = 10 * time.Minute
)

// Reasons of the condition Issued of an IdentityRequest. With one of these reasons, ModeAuto issues tokens of a
// ServiceAccount instead of a certificate.
const (
	// ReasonAwaitingSigner means that no signer issued the certificate within a minute. Start kube-controller-manager
	// with --cluster-signing-cert-file, or set identity.mode to Token.
	ReasonAwaitingSigner = "AwaitingSigner"
	// ReasonSigningFailed means that the signer refused the certificate. See the conditions of its
	// CertificateSigningRequest.
	ReasonSigningFailed = "SigningFailed"
)

// Mode is the kind of identity that a provider issues to its consumers.
type Mode string

const (
	// ModeCertificate issues client certificates, which a signer of certificates.k8s.io signs.
	ModeCertificate Mode = "Certificate"
	// ModeToken issues tokens of a ServiceAccount in the tenant namespace.
	ModeToken Mode = "Token"
	// ModeAuto issues certificates, and tokens instead if the cluster has no signer. The choice is made again at each
	// renewal.
	ModeAuto Mode = "Auto"
)

// ParseMode returns the mode that the value of a flag names. It fails for an unknown value.
func ParseMode(value string) (Mode, error) {
	modes := []Mode{ModeCertificate, ModeToken, ModeAuto}
	if mode := Mode(value); slices.Contains(modes, mode) {
		return mode, nil
	}
	return "", fmt.Errorf("%q must be one of %v", value, modes)
}

// ByToken reports whether a provider with mode m issues tokens of a ServiceAccount, not a certificate, for a request.
// Once the provider has accepted the ServiceAccount or issued the certificate, the result does not change until the
// consumer renews the identity, which increases the generation of the request.
func (m Mode) ByToken(request *v1alpha1.IdentityRequest) bool {
	switch {
	case KnownByAccount(request.Status.Conditions, request.Generation):
		return true
	case Certifies(request.Status.Certificate, request.Spec.Request) != nil:
		return false
	case m != ModeAuto:
		return m == ModeToken
	}
	issued := meta.FindStatusCondition(request.Status.Conditions, v1alpha1.ConditionIssued)
	return issued != nil && issued.ObservedGeneration == request.Generation &&
		(issued.Reason == ReasonAwaitingSigner || issued.Reason == ReasonSigningFailed)
}

// HasCertificate reports whether the consumer of an identity request has a certificate, or can get a
// certificate in mode m.
func (m Mode) HasCertificate(request *v1alpha1.IdentityRequest) bool {
	return m != ModeToken || len(request.Status.Certificate) > 0
}

// HasAccount reports whether the consumer of an identity request has a ServiceAccount as its identity,
// or will get it in mode m.
func (m Mode) HasAccount(request *v1alpha1.IdentityRequest) bool {
	return request.Status.ServiceAccountName != "" || m.ByToken(request)
}

// SetCondition sets a condition of an IdentityRequest for its current generation.
func SetCondition(
	request *v1alpha1.IdentityRequest, kind string, status metav1.ConditionStatus, reason, message string,
) {
	meta.SetStatusCondition(&request.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: request.Generation,
	})
}
