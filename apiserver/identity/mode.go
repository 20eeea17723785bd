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
	// MinLifetime is the shortest lifetime of an identity.
	MinLifetime = 10 * time.Minute
)

// Reasons of the condition Issued of an IdentityRequest for which a consumer may get an
// account in place of a certificate.
const (
	// ReasonAwaitingSigner means that no signer has issued the certificate yet.
	ReasonAwaitingSigner = "AwaitingSigner"
	// ReasonSigningFailed means that the signer refused the certificate.
	ReasonSigningFailed = "SigningFailed"
)

// Mode is how a provider identifies its consumers.
type Mode string

const (
	// ModeCertificate has certificates signed by certificates.k8s.io.
	ModeCertificate Mode = "Certificate"
	// ModeToken issues tokens of a service account in the tenant namespace.
	ModeToken Mode = "Token"
	// ModeAuto has certificates signed, and issues tokens in a cluster without a signer.
	// Each renewal is decided again.
	ModeAuto Mode = "Auto"
)

// ParseMode returns the mode of a flag's value. Any other value is an error.
func ParseMode(value string) (Mode, error) {
	modes := []Mode{ModeCertificate, ModeToken, ModeAuto}
	if mode := Mode(value); slices.Contains(modes, mode) {
		return mode, nil
	}
	return "", fmt.Errorf("%q must be one of %v", value, modes)
}

// ByToken reports whether the identity of a request is a service account. The decision holds until the
// identity is renewed, which increases the generation of the request.
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

// HasCertificate reports whether the consumer of an identity request has a certificate, or may get one in mode m.
func (m Mode) HasCertificate(request *v1alpha1.IdentityRequest) bool {
	return m != ModeToken || len(request.Status.Certificate) > 0
}

// HasAccount reports whether the consumer of an identity request has a ServiceAccount, or gets one in mode m.
func (m Mode) HasAccount(request *v1alpha1.IdentityRequest) bool {
	return request.Status.ServiceAccountName != "" || m.ByToken(request)
}

// SetCondition sets a condition of an IdentityRequest.
func SetCondition(
	request *v1alpha1.IdentityRequest, kind string, status metav1.ConditionStatus, reason, message string,
) {
	meta.SetStatusCondition(&request.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: request.Generation,
	})
}
