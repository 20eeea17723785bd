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

// unreachableMessage has the URL of the provider and the reason.
const unreachableMessage = "The provider at %s cannot be reached: %s. The request is retried. If the provider runs, " +
	"correct spec.server, or the network between the clusters."

// deny sets the phase, reason and message of the outgoing direction and of the consumer's identity,
// for an obstacle that an administrator has to remove. Its outcome stops the steps and retries after
// deniedRetry.
func deny(
	p *foreigncluster.Pass, phase v1alpha1.PeeringPhase, reason, format string, args ...any,
) foreigncluster.Outcome {
	message := fmt.Sprintf(format, args...)
	p.Identity = &foreigncluster.Verdict{Phase: phase, Reason: reason, Message: message}
	foreigncluster.Outgoing.Set(p.ForeignCluster, phase, reason, "%s", message)
	return foreigncluster.WaitAtMost(deniedRetry)
}

// pend sets the phase Pending, with reason and message, for the outgoing direction and for the
// consumer's identity.
func pend(p *foreigncluster.Pass, reason, format string, args ...any) {
	deny(p, v1alpha1.PeeringPending, reason, format, args...)
}

// refused reports a failed request for an identity in the conditions. It returns the error if the
// request is to be retried with back-off, and nil if it is retried after deniedRetry.
func refused(p *foreigncluster.Pass, err error) (foreigncluster.Outcome, error) {
	server := p.ForeignCluster.Spec.Server
	switch why := remote.Describe(err); {
	case remote.Unreachable(err):
		pend(p, foreigncluster.ReasonProviderUnreachable, unreachableMessage, server, why)
	case apierrors.IsNotFound(err):
		return deny(p, v1alpha1.PeeringDenied, foreigncluster.ReasonVersionsDiffer,
			"The cluster at %s does not serve %s: Liqo Federation is not installed on it, or its version is not "+
				"compatible with the version of this cluster. Install or upgrade it there. Response of the cluster: %s",
			server, v1alpha1.SchemeGroupVersion, why), nil
	case remote.Rejected(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsGone(err):
		return deny(p, v1alpha1.PeeringDenied, foreigncluster.ReasonInvitationRejected,
			"The provider does not accept the invitation: it has expired, was used or was withdrawn. Request a new one from "+
				"the provider's administrator, and POST it to the subresource peer of this ForeignCluster. "+
				"Response of the provider: %s", why), nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return deny(p, v1alpha1.PeeringDenied, foreigncluster.ReasonIdentityRefused,
			"The provider refuses the request for an identity: %s", why), nil
	default:
		pend(p, foreigncluster.ReasonProviderFailing,
			"The provider at %s responded with an error: %s. The request is retried.", server, why)
	}
	return foreigncluster.Continue, fmt.Errorf("requesting an identity at %s: %w", server, err)
}

// unanswered reports whether the provider's answer has no identity, because the provider refused it
// or has not issued it yet. If so, it sets the conditions, and returns the outcome with the time
// after which to repeat the request.
func unanswered(p *foreigncluster.Pass, answer *v1alpha1.IdentityRequest) (foreigncluster.Outcome, bool) {
	issued := len(answer.Status.Certificate) > 0 || answer.Status.ServiceAccountName != ""
	for _, refusal := range []struct {
		kind  string
		retry time.Duration
	}{
		{v1alpha1.ConditionAccepted, deniedRetry},
		// If signing fails, the provider may soon issue a ServiceAccount instead of a certificate.
		{v1alpha1.ConditionIssued, renewalRetry},
	} {
		condition := meta.FindStatusCondition(answer.Status.Conditions, refusal.kind)
		if condition == nil || condition.Status != metav1.ConditionFalse ||
			issued && refusal.kind == v1alpha1.ConditionIssued {
			continue
		}
		deny(p, v1alpha1.PeeringDenied, foreigncluster.ReasonIdentityRefused,
			"The provider refuses to issue an identity (%s): %s",
			remote.Text(condition.Reason), remote.Text(condition.Message))
		return foreigncluster.WaitAtMost(refusal.retry), true
	}
	if !issued {
		pend(p, foreigncluster.ReasonIdentityPending, "The provider has not issued the certificate yet.")
		return foreigncluster.WaitAtMost(answerPoll), true
	}
	return foreigncluster.Continue, false
}

var uuid = regexp.MustCompile("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

// issuedAccount returns the name of the ServiceAccount that the provider issued in its answer; empty
// if the answer has a certificate for the key of request.
func issuedAccount(answer *v1alpha1.IdentityRequest, request []byte) string {
	if identity.Certifies(answer.Status.Certificate, request) != nil {
		return ""
	}
	return answer.Status.ServiceAccountName
}

// validate returns an error if the provider's answer has neither a valid certificate for the key
// and the peering nor a valid name of a ServiceAccount, or if its tenant namespace or cluster ID is
// invalid. A provider is not trusted to send valid answers.
func (c *Config) validate(answer *v1alpha1.IdentityRequest, peering types.UID, key, request []byte) error {
	if account := issuedAccount(answer, request); account == "" {
		if err := validateCertificate(answer.Status.Certificate, peering, key); err != nil {
			return err
		}
	} else if len(validation.IsDNS1123Subdomain(account)) > 0 {
		return fmt.Errorf("%q is not a valid name of a ServiceAccount", account)
	}
	namespace := answer.Status.TenantNamespace
	if !naming.IsTenantNamespace(namespace) || len(validation.IsDNS1123Label(namespace)) > 0 {
		return fmt.Errorf("%q is not a valid name of a tenant namespace", namespace)
	}
	if !uuid.MatchString(answer.Status.ClusterID) {
		return fmt.Errorf("the cluster ID %q is not a UUID", answer.Status.ClusterID)
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
		return errors.New("the certificate does not permit client authentication")
	}
	return nil
}
