// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/queue"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/informers/externalversions"
)

// Reasons of the condition Issued of an IdentityRequest.
const (
	ReasonIssued          = "Issued"
	ReasonRequestInvalid  = "RequestInvalid"
	reasonPeeringAccepted = "PeeringAccepted"
)

const (
	// signerPoll is how often the certificate is looked for; it takes a second.
	signerPoll = 200 * time.Millisecond
	// signerPatience is how long the cluster's signer may be silent before
	// somebody should look for it.
	signerPatience = time.Minute
	// signerRetry is how often it is asked for after that.
	signerRetry = 15 * time.Second
)

// identityUsages are what the certificate of a peer may be used for.
var identityUsages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}

// signer has the certificates of accepted peers signed by the cluster. It
// trusts nobody: it checks a request again that was checked when it came in.
type signer struct {
	clock    clock.PassiveClock
	lifetime time.Duration
	get      func(name string) (*v1alpha1.IdentityRequest, error)
	commit   func(ctx context.Context, old, wanted *v1alpha1.IdentityRequest) (bool, error)
	getCSR   func(ctx context.Context, name string) (*certificatesv1.CertificateSigningRequest, error)
	create   func(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error)
	approve  func(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error
	remove   func(ctx context.Context, name string) error
}

// NewSigner makes the controller that has identities signed for a lifetime. It
// runs under a service account of its own.
func NewSigner(kube kubernetes.Interface, federation versioned.Interface, informers externalversions.SharedInformerFactory, clock clock.PassiveClock, lifetime time.Duration) (*queue.Controller[cache.ObjectName], error) {
	requests := informers.Federation().V1alpha1().IdentityRequests()
	csrs := kube.CertificatesV1().CertificateSigningRequests()
	s := &signer{
		clock: clock, lifetime: lifetime,
		get: requests.Lister().Get,
		commit: func(ctx context.Context, old, wanted *v1alpha1.IdentityRequest) (bool, error) {
			return commit.Commit(ctx, federation.FederationV1alpha1().IdentityRequests(), old, wanted)
		},
		getCSR: func(ctx context.Context, name string) (*certificatesv1.CertificateSigningRequest, error) {
			return csrs.Get(ctx, name, getOptions)
		},
		create: func(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error) {
			return csrs.Create(ctx, csr, createOptions)
		},
		approve: func(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
			_, err := csrs.UpdateApproval(ctx, csr.Name, csr, updateOptions)
			return err
		},
		remove: func(ctx context.Context, name string) error { return csrs.Delete(ctx, name, metav1.DeleteOptions{}) },
	}
	controller := queue.New("identity-signer", 1, s.reconcile)
	if _, err := requests.Informer().AddEventHandler(controller.Handle(queue.ObjectKeys)); err != nil {
		return nil, fmt.Errorf("watch for the signer: %w", err)
	}
	return controller, nil
}

func (s *signer) reconcile(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	request, err := s.get(key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	accepted := meta.FindStatusCondition(request.Status.Conditions, v1alpha1.ConditionAccepted)
	if request.DeletionTimestamp != nil || request.Status.TenantNamespace == "" ||
		accepted == nil || accepted.Status != metav1.ConditionTrue || accepted.ObservedGeneration != request.Generation {
		return 0, nil
	}
	if identity.KnownByAccount(request.Status.Conditions, request.Generation) || identity.Certifies(request.Status.Certificate, request.Spec.Request) != nil {
		return 0, s.tidy(ctx, signingName(request))
	}
	uid, _ := naming.InvitationOfAccount(request.Name)
	parsed, problems := validation.ValidateCertificateRequest(request.Spec.Request, string(uid), field.NewPath("spec", "request"))
	if len(problems) > 0 {
		return 0, s.answer(ctx, request, nil, ReasonRequestInvalid, problems.ToAggregate().Error())
	}
	return s.sign(ctx, request, parsed)
}

func (s *signer) sign(ctx context.Context, request *v1alpha1.IdentityRequest, parsed *x509.CertificateRequest) (time.Duration, error) {
	name := signingName(request)
	csr, err := s.getCSR(ctx, name)
	if apierrors.IsNotFound(err) {
		csr, err = s.create(ctx, newSigningRequest(name, request, s.lifetime))
	}
	if err != nil {
		return 0, fmt.Errorf("have the identity of %s signed: %w", request.Name, err)
	}
	if !bytes.Equal(csr.Spec.Request, request.Spec.Request) || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName ||
		!slices.Equal(csr.Spec.Usages, identityUsages) {
		return 0, s.answer(ctx, request, nil, identity.ReasonSigningFailed, fmt.Sprintf("CertificateSigningRequest %s is not ours: delete it, and peer again.", name))
	}
	if failed := conditionOf(csr, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed); failed != nil {
		return 0, s.answer(ctx, request, nil, identity.ReasonSigningFailed, fmt.Sprintf("The cluster's signer says no (%s): %s", failed.Reason, failed.Message))
	}
	if conditionOf(csr, certificatesv1.CertificateApproved) == nil {
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: reasonPeeringAccepted,
			Message: "The identity of a consumer that was invited.",
		})
		if err := s.approve(ctx, csr); err != nil {
			return 0, fmt.Errorf("approve the identity of %s: %w", request.Name, err)
		}
		return signerPoll, nil
	}
	if len(csr.Status.Certificate) == 0 {
		return s.patience(ctx, request, csr)
	}
	if err := checkSigned(csr.Status.Certificate, parsed); err != nil {
		return 0, s.answer(ctx, request, nil, identity.ReasonSigningFailed, fmt.Sprintf("The cluster's signer made another certificate than was asked for: %v.", err))
	}
	if err := s.answer(ctx, request, csr.Status.Certificate, ReasonIssued, "The certificate is signed."); err != nil {
		return 0, err
	}
	return 0, ignoreNotFound(s.remove(ctx, name))
}

// tidy removes what a signer left that ended between its answer and this.
func (s *signer) tidy(ctx context.Context, name string) error {
	if _, err := s.getCSR(ctx, name); err != nil {
		return ignoreNotFound(err)
	}
	return ignoreNotFound(s.remove(ctx, name))
}

// patience waits for the cluster's signer, and complains after a while.
func (s *signer) patience(ctx context.Context, request *v1alpha1.IdentityRequest, csr *certificatesv1.CertificateSigningRequest) (time.Duration, error) {
	if s.clock.Since(csr.CreationTimestamp.Time) < signerPatience {
		return signerPoll, nil
	}
	waiting := request.DeepCopy()
	identity.SetCondition(waiting, v1alpha1.ConditionIssued, metav1.ConditionUnknown, identity.ReasonAwaitingSigner, fmt.Sprintf(
		"No one signs CertificateSigningRequest %s for %s: check --cluster-signing-cert-file of kube-controller-manager.", csr.Name, csr.Spec.SignerName))
	_, err := s.commit(ctx, request, waiting)
	return signerRetry, err
}

func (s *signer) answer(ctx context.Context, request *v1alpha1.IdentityRequest, certificate []byte, reason, message string) error {
	answered := request.DeepCopy()
	status := metav1.ConditionFalse
	if len(certificate) > 0 {
		answered.Status.Certificate = certificate
		status = metav1.ConditionTrue
	}
	identity.SetCondition(answered, v1alpha1.ConditionIssued, status, reason, message)
	_, err := s.commit(ctx, request, answered)
	return err
}

// signingName is the same for the same request, so that a crash leads back to
// it, and another one for another.
func signingName(request *v1alpha1.IdentityRequest) string {
	sum := sha256.Sum256(request.Spec.Request)
	return "federation-" + request.Name + "-" + hex.EncodeToString(sum[:8])
}

func newSigningRequest(name string, request *v1alpha1.IdentityRequest, lifetime time.Duration) *certificatesv1.CertificateSigningRequest {
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

func conditionOf(csr *certificatesv1.CertificateSigningRequest, kinds ...certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequestCondition {
	for i, condition := range csr.Status.Conditions {
		if slices.Contains(kinds, condition.Type) {
			return &csr.Status.Conditions[i]
		}
	}
	return nil
}

// checkSigned tells whether a certificate is for the key and the subject that
// were asked for, and cannot sign others.
func checkSigned(chain []byte, request *x509.CertificateRequest) error {
	block, _ := pem.Decode(chain)
	if block == nil {
		return errors.New("it is not PEM encoded")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	if !bytes.Equal(certificate.RawSubjectPublicKeyInfo, request.RawSubjectPublicKeyInfo) {
		return errors.New("it is for another key")
	}
	if certificate.Subject.String() != request.Subject.String() {
		return fmt.Errorf("it is for %s", certificate.Subject)
	}
	if certificate.IsCA {
		return errors.New("it is one of an authority")
	}
	return nil
}
