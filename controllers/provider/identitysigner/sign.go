// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package identitysigner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/controllers/kit"
)

const (
	// pollInterval is the time between two reads of a CertificateSigningRequest whose
	// certificate is expected within seconds.
	pollInterval = 200 * time.Millisecond
	// signerTimeout is the time after which a missing certificate is reported in the condition, and the
	// CertificateSigningRequest is read only every retryInterval.
	signerTimeout = time.Minute
	retryInterval = 15 * time.Second

	// reasonPeeringAccepted of the condition Approved of a CertificateSigningRequest means that the certificate is
	// approved because the IdentityRequest is accepted.
	reasonPeeringAccepted = "PeeringAccepted"
)

// identityUsages are the usages of a consumer's certificate.
var identityUsages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}

// sign creates and approves the CertificateSigningRequest of an IdentityRequest, and writes the certificate to the
// status of the IdentityRequest. It returns the time after which to reconcile again, or zero. parsed is the decoded
// signing request.
func (r *Reconciler) sign(
	ctx context.Context, request *v1alpha1.IdentityRequest, parsed *x509.CertificateRequest,
) (time.Duration, error) {
	name := signingName(request)
	csr := &certificatesv1.CertificateSigningRequest{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: name}, csr)
	if apierrors.IsNotFound(err) {
		csr = newSigningRequest(name, request, r.Lifetime)
		err = r.Client.Create(ctx, csr)
	}
	if err != nil {
		return 0, fmt.Errorf("creating the CertificateSigningRequest of %s: %w", request.Name, err)
	}
	if !bytes.Equal(csr.Spec.Request, request.Spec.Request) ||
		csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName ||
		!slices.Equal(csr.Spec.Usages, identityUsages) {
		return 0, r.report(ctx, request, nil, identity.ReasonSigningFailed,
			fmt.Sprintf("CertificateSigningRequest %s was created by another client: delete it, and peer again.", name))
	}
	if failed := conditionOf(csr, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed); failed != nil {
		return 0, r.report(ctx, request, nil, identity.ReasonSigningFailed,
			fmt.Sprintf("The cluster's signer refused the certificate (%s): %s", failed.Reason, failed.Message))
	}
	if conditionOf(csr, certificatesv1.CertificateApproved) == nil {
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: reasonPeeringAccepted,
			Message: "The certificate identifies an invited consumer.",
		})
		if err := r.Client.SubResource("approval").Update(ctx, csr); err != nil {
			return 0, fmt.Errorf("approving CertificateSigningRequest %s: %w", name, err)
		}
		return pollInterval, nil
	}
	if len(csr.Status.Certificate) == 0 {
		return r.await(ctx, request, csr)
	}
	if err := checkSigned(csr.Status.Certificate, parsed); err != nil {
		return 0, r.report(ctx, request, nil, identity.ReasonSigningFailed,
			fmt.Sprintf("The certificate that the cluster's signer issued does not match the request: %v.", err))
	}
	if err := r.report(ctx, request, csr.Status.Certificate, ReasonIssued, "The certificate is issued."); err != nil {
		return 0, err
	}
	return 0, kit.Delete(ctx, r.Client, csr)
}

// cleanUp deletes the CertificateSigningRequest of an issued certificate, in case an earlier process
// ended before it could.
func (r *Reconciler) cleanUp(ctx context.Context, name string) error {
	var csr certificatesv1.CertificateSigningRequest
	if err := r.Live.Get(ctx, client.ObjectKey{Name: name}, &csr); err != nil {
		return client.IgnoreNotFound(err)
	}
	return kit.Delete(ctx, r.Client, &csr)
}

// await handles a CertificateSigningRequest that has no certificate yet, and returns the time after which to
// read it again. If the CertificateSigningRequest is older than signerTimeout, await reports that in the
// condition Issued.
func (r *Reconciler) await(
	ctx context.Context, request *v1alpha1.IdentityRequest, csr *certificatesv1.CertificateSigningRequest,
) (time.Duration, error) {
	if r.Clock.Since(csr.CreationTimestamp.Time) < signerTimeout {
		return pollInterval, nil
	}
	waiting := request.DeepCopy()
	identity.SetCondition(waiting, v1alpha1.ConditionIssued, metav1.ConditionUnknown, identity.ReasonAwaitingSigner,
		fmt.Sprintf("No signer has signed CertificateSigningRequest %s for %s: "+
			"check --cluster-signing-cert-file of kube-controller-manager.", csr.Name, csr.Spec.SignerName))
	_, err := kit.Commit(ctx, r.Client, request, waiting)
	return retryInterval, err
}

// signingName returns the name of the CertificateSigningRequest of an IdentityRequest. It contains a hash
// of the signing request, so that each renewal has another name.
func signingName(request *v1alpha1.IdentityRequest) string {
	sum := sha256.Sum256(request.Spec.Request)
	return "federation-" + request.Name + "-" + hex.EncodeToString(sum[:8])
}

func newSigningRequest(
	name string, request *v1alpha1.IdentityRequest, lifetime time.Duration,
) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:           request.Spec.Request,
			SignerName:        certificatesv1.KubeAPIServerClientSignerName,
			ExpirationSeconds: ptr.To(int32(lifetime.Seconds())),
			Usages:            identityUsages,
		},
	}
}

func conditionOf(csr *certificatesv1.CertificateSigningRequest, kinds ...certificatesv1.RequestConditionType,
) *certificatesv1.CertificateSigningRequestCondition {
	for i, condition := range csr.Status.Conditions {
		if slices.Contains(kinds, condition.Type) {
			return &csr.Status.Conditions[i]
		}
	}
	return nil
}

// checkSigned returns an error if the certificate has another key or subject than the signing request, or
// is a certificate authority.
func checkSigned(chain []byte, request *x509.CertificateRequest) error {
	block, _ := pem.Decode(chain)
	if block == nil {
		return errors.New("the certificate is not PEM encoded")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	if !bytes.Equal(certificate.RawSubjectPublicKeyInfo, request.RawSubjectPublicKeyInfo) {
		return errors.New("the certificate has another key than the signing request")
	}
	if certificate.Subject.String() != request.Subject.String() {
		return fmt.Errorf("the certificate has the subject %q instead of %q", certificate.Subject, request.Subject)
	}
	if certificate.IsCA {
		return errors.New("the certificate is that of a certificate authority")
	}
	return nil
}
