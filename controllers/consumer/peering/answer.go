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
	"liqo.io/federation/controllers/link/foreigncluster"
	"liqo.io/federation/controllers/remote"
)

// deny reports that the outgoing peering cannot begin or continue, and waits for an
// administrator.
func deny(
	p *foreigncluster.Pass, phase v1alpha1.PeeringPhase, reason, format string, args ...any,
) foreigncluster.Outcome {
	message := fmt.Sprintf(format, args...)
	p.Identity = &foreigncluster.Verdict{Phase: phase, Reason: reason, Message: message}
	foreigncluster.Outgoing.Set(p.ForeignCluster, phase, reason, "%s", message)
	return foreigncluster.WaitAtMost(deniedRetry)
}

// pend reports that the outgoing peering is not established yet.
func pend(p *foreigncluster.Pass, reason, format string, args ...any) {
	deny(p, v1alpha1.PeeringPending, reason, format, args...)
}

// refused reports an error of a provider to the request for an identity. It returns the
// error if the request is retried with back-off.
func refused(p *foreigncluster.Pass, err error) (foreigncluster.Outcome, error) {
	server := p.ForeignCluster.Spec.Server
	switch why := remote.Describe(err); {
	case remote.Unreachable(err):
		pend(p, foreigncluster.ReasonProviderUnreachable,
			"The provider at %s cannot be reached: %s. The request is retried.", server, why)
	case apierrors.IsNotFound(err):
		return deny(p, v1alpha1.PeeringDenied, foreigncluster.ReasonVersionsDiffer,
			"The cluster at %s does not serve %s: the federation is not installed on it, or in a version that is not "+
				"compatible with this one. Install or upgrade it. Response of the cluster: %s",
			server, v1alpha1.SchemeGroupVersion, why), nil
	case remote.Rejected(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsGone(err):
		return deny(p, v1alpha1.PeeringDenied, foreigncluster.ReasonInvitationRejected,
			"The provider does not accept the invitation: it has expired, was used or was withdrawn. Request a new one from "+
				"the provider's administrator, and POST it to the verb peer. Response of the provider: %s", why), nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return deny(p, v1alpha1.PeeringDenied, foreigncluster.ReasonIdentityRefused,
			"The provider refuses the request for an identity: %s", why), nil
	default:
		pend(p, foreigncluster.ReasonProviderFailing,
			"The provider at %s cannot answer at the moment: %s. The request is retried.", server, why)
	}
	return foreigncluster.Continue, fmt.Errorf("requesting an identity at %s: %w", server, err)
}

// unanswered reports whether the provider's answer has no identity, because it is refused or not
// issued yet.
func unanswered(p *foreigncluster.Pass, answer *v1alpha1.IdentityRequest) (foreigncluster.Outcome, bool) {
	issued := len(answer.Status.Certificate) > 0 || answer.Status.ServiceAccountName != ""
	for _, refusal := range []struct {
		kind  string
		retry time.Duration
	}{
		{v1alpha1.ConditionAccepted, deniedRetry},
		// A request that cannot be signed may soon be answered with an account.
		{v1alpha1.ConditionIssued, renewalRetry},
	} {
		condition := meta.FindStatusCondition(answer.Status.Conditions, refusal.kind)
		if condition == nil || condition.Status != metav1.ConditionFalse ||
			issued && refusal.kind == v1alpha1.ConditionIssued {
			continue
		}
		deny(p, v1alpha1.PeeringDenied, foreigncluster.ReasonIdentityRefused,
			"The provider refuses an identity (%s): %s", remote.Text(condition.Reason), remote.Text(condition.Message))
		return foreigncluster.WaitAtMost(refusal.retry), true
	}
	if !issued {
		pend(p, foreigncluster.ReasonIdentityPending, "The provider has not issued the certificate yet.")
		return foreigncluster.WaitAtMost(answerPoll), true
	}
	return foreigncluster.Continue, false
}

var uuid = regexp.MustCompile("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

// issuedAccount returns the account of an answer; empty if it has a certificate.
func issuedAccount(answer *v1alpha1.IdentityRequest, request []byte) string {
	if identity.Certifies(answer.Status.Certificate, request) != nil {
		return ""
	}
	return answer.Status.ServiceAccountName
}

// validate returns an error if the identity that a provider issued for a key is invalid. Answers
// of providers are not trusted.
func (c *Config) validate(answer *v1alpha1.IdentityRequest, peering types.UID, key, request []byte) error {
	if account := issuedAccount(answer, request); account == "" {
		if err := validateCertificate(answer.Status.Certificate, peering, key); err != nil {
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
	if answer.Status.ClusterID == c.ClusterID {
		return errors.New("the provider has the ID of this cluster")
	}
	return nil
}

func validateCertificate(chain []byte, peering types.UID, key []byte) error {
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
