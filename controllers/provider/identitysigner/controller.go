// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identitysigner obtains certificates for accepted consumers from the cluster's signer. It runs
// in a process of its own, so that the ServiceAccount of the other controllers cannot approve certificates.
package identitysigner

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
)

// Name is the name of the controller in --controllers, logs and metrics.
const Name = "identity-signer"

// Reasons of the condition Issued of an IdentityRequest. Package identity has further ones.
const (
	// ReasonIssued means that the status has the certificate.
	ReasonIssued = "Issued"
	// ReasonRequestInvalid means that the signing request contains something that no peer may have, for example another
	// name or group. The message names it.
	ReasonRequestInvalid = "RequestInvalid"
)

// Reconciler obtains the certificate of each accepted IdentityRequest. It validates the certificate
// signing request again, and so does not rely on the validation by the API server.
type Reconciler struct {
	// Client reads the cache of the manager, Live the API server.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	// Lifetime is the lifetime of the certificates.
	Lifetime time.Duration
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.IdentityRequest{}).
		WithOptions(kit.Options(1)).
		Complete(r)
}

// Reconcile obtains the certificate of an IdentityRequest whose current generation is accepted and has no
// certificate yet.
func (r *Reconciler) Reconcile(ctx context.Context, key ctrl.Request) (ctrl.Result, error) {
	var request v1alpha1.IdentityRequest
	if err := r.Client.Get(ctx, key.NamespacedName, &request); err != nil {
		return kit.Result(0, client.IgnoreNotFound(err))
	}
	return kit.Result(r.reconcile(ctx, &request))
}

func (r *Reconciler) reconcile(ctx context.Context, request *v1alpha1.IdentityRequest) (time.Duration, error) {
	accepted := meta.FindStatusCondition(request.Status.Conditions, v1alpha1.ConditionAccepted)
	if request.DeletionTimestamp != nil || request.Status.TenantNamespace == "" ||
		accepted == nil || accepted.Status != metav1.ConditionTrue || accepted.ObservedGeneration != request.Generation {
		return 0, nil
	}
	if identity.KnownByAccount(request.Status.Conditions, request.Generation) ||
		identity.Certifies(request.Status.Certificate, request.Spec.Request) != nil {
		return 0, r.cleanUp(ctx, signingName(request))
	}
	uid, _ := naming.InvitationOfAccount(request.Name)
	parsed, problems := validation.ValidateCertificateRequest(
		request.Spec.Request, string(uid), field.NewPath("spec", "request"))
	if len(problems) > 0 {
		return 0, r.report(ctx, request, nil, ReasonRequestInvalid, problems.ToAggregate().Error())
	}
	return r.sign(ctx, request, parsed)
}

// report writes the condition Issued, and the certificate if there is one.
func (r *Reconciler) report(
	ctx context.Context, request *v1alpha1.IdentityRequest, certificate []byte, reason, message string,
) error {
	reported := request.DeepCopy()
	status := metav1.ConditionFalse
	if len(certificate) > 0 {
		reported.Status.Certificate = certificate
		status = metav1.ConditionTrue
	}
	identity.SetCondition(reported, v1alpha1.ConditionIssued, status, reason, message)
	_, err := kit.Commit(ctx, r.Client, request, reported)
	return err
}
