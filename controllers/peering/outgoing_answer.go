// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/remote"
)

// deny says that borrowing cannot begin or go on, and waits for people.
func (p *pass) deny(phase v1alpha1.PeeringPhase, reason, format string, args ...any) outcome {
	message := fmt.Sprintf(format, args...)
	p.identity = &verdict{phase, reason, message}
	outgoingAspect.set(p.fc, phase, reason, "%s", message)
	return waitAtMost(deniedRetry)
}

// pend says that borrowing has not come about yet.
func (p *pass) pend(reason, format string, args ...any) {
	p.deny(v1alpha1.PeeringPending, reason, format, args...)
}

// refused reads an error of a provider that was asked for an identity.
func (s *identityStep) refused(p *pass, err error) (outcome, error) {
	switch why := remote.Describe(err); {
	case remote.Unreachable(err):
		p.pend(ReasonProviderUnreachable, "The provider at %s cannot be reached: %s. It is tried again.", p.fc.Spec.Server, why)
	case apierrors.IsNotFound(err):
		return p.deny(v1alpha1.PeeringDenied, ReasonVersionsDiffer,
			"The cluster at %s does not serve %s: either the federation is not installed there, or its version and this one's do not go together. Install or upgrade it there. The cluster says: %s",
			p.fc.Spec.Server, v1alpha1.SchemeGroupVersion, why), nil
	case remote.Rejected(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsGone(err):
		return p.deny(v1alpha1.PeeringDenied, ReasonInvitationRejected,
			"The provider does not accept the invitation: it has expired, was used or was taken back. Ask the provider's administrator for a new one, and POST it to the verb peer. The provider says: %s", why), nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return p.deny(v1alpha1.PeeringDenied, ReasonIdentityRefused, "The provider refuses the request for an identity: %s", why), nil
	default:
		p.pend(ReasonProviderFailing, "The provider at %s cannot answer now: %s. It is tried again.", p.fc.Spec.Server, why)
	}
	return goOn, fmt.Errorf("ask %s for an identity: %w", p.fc.Spec.Server, err)
}

// answered tells whether the provider's answer is a no, or not there yet.
func (s *identityStep) answered(p *pass, answer *v1alpha1.IdentityRequest) (outcome, bool) {
	given := len(answer.Status.Certificate) > 0 || answer.Status.ServiceAccountName != ""
	for _, refusal := range []struct {
		kind  string
		retry time.Duration
	}{
		{v1alpha1.ConditionAccepted, deniedRetry},
		// What cannot be signed may be answered with an account in a moment.
		{v1alpha1.ConditionIssued, renewalRetry},
	} {
		condition := meta.FindStatusCondition(answer.Status.Conditions, refusal.kind)
		if condition == nil || condition.Status != metav1.ConditionFalse || given && refusal.kind == v1alpha1.ConditionIssued {
			continue
		}
		p.deny(v1alpha1.PeeringDenied, ReasonIdentityRefused,
			"The provider refuses an identity (%s): %s", remote.Text(condition.Reason), remote.Text(condition.Message))
		return waitAtMost(refusal.retry), true
	}
	if !given {
		p.pend(ReasonIdentityPending, "The provider is making the certificate.")
		return waitAtMost(answerPoll), true
	}
	return goOn, false
}

var uuid = regexp.MustCompile("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

// givenAccount is the account that a request is answered with, unless there is
// a certificate.
func givenAccount(answer *v1alpha1.IdentityRequest, request []byte) string {
	if identity.Certifies(answer.Status.Certificate, request) != nil {
		return ""
	}
	return answer.Status.ServiceAccountName
}

// checkAnswer tells what is wrong with an identity that a provider gave for a
// key: it is input from a stranger.
func (s *identityStep) checkAnswer(answer *v1alpha1.IdentityRequest, peering types.UID, key, request []byte) error {
	if account := givenAccount(answer, request); account == "" {
		if err := checkCertificate(answer.Status.Certificate, peering, key); err != nil {
			return err
		}
	} else if len(validation.IsDNS1123Subdomain(account)) > 0 {
		return fmt.Errorf("%q is not the name of a service account", account)
	}
	namespace := answer.Status.TenantNamespace
	if !naming.IsTenantNamespace(namespace) || len(validation.IsDNS1123Label(namespace)) > 0 {
		return fmt.Errorf("%q is not a tenant namespace", namespace)
	}
	if !uuid.MatchString(answer.Status.ClusterID) {
		return fmt.Errorf("%q is not a cluster id", answer.Status.ClusterID)
	}
	if answer.Status.ClusterID == s.clusterID {
		return errors.New("it is this very cluster")
	}
	return nil
}

func checkCertificate(chain []byte, peering types.UID, key []byte) error {
	certificate, err := remote.CheckCertificate(chain, key)
	if err != nil {
		return err
	}
	if certificate.Subject.CommonName != string(peering) {
		return fmt.Errorf("the certificate is for %q, not for %q", certificate.Subject.CommonName, peering)
	}
	if !slices.Contains(certificate.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		return errors.New("the certificate is not one of a client")
	}
	return nil
}
