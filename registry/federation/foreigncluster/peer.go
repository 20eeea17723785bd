// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/subresource"
	"liqo.io/federation/registry/federation/subresource/plan"
)

// PeerREST serves the subresource peer: POST accepts a provider's invitation, DELETE ends the outgoing peering. A
// request only writes the ForeignCluster of the same name. Controllers establish and end the peering later.
type PeerREST struct {
	clusters    subresource.Parent
	invitations invitations
	plans       plan.Reader
}

// NewPeerREST returns the subresource peer. clusters is the store of ForeignClusters, secrets are the Secrets of the
// invitation namespace, and plans computes the plans of dry runs.
func NewPeerREST(clusters subresource.Parent, secrets corev1client.SecretInterface, plans plan.Reader) *PeerREST {
	return &PeerREST{clusters: clusters, invitations: invitations{secrets: secrets}, plans: plans}
}

// New returns an empty Peering.
func (r *PeerREST) New() runtime.Object { return &federation.Peering{} }

// Destroy does nothing: the store belongs to the parent resource.
func (r *PeerREST) Destroy() {}

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate returns true: the API server must not drop uid and
// resourceVersion from the body of a POST, because they are preconditions.
func (r *PeerREST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

// Get returns the Peering of a ForeignCluster.
func (r *PeerREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	cluster, err := r.get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return r.show(cluster), nil
}

// show returns the Peering of a ForeignCluster, with status.command: the shell command with which an administrator of
// the provider admits this cluster, or empty (see admissionCommand).
func (r *PeerREST) show(cluster *federation.ForeignCluster) *federation.Peering {
	peering := peeringOf(cluster)
	peering.Status.Command = admissionCommand(cluster, r.plans.ClusterName, r.plans.ClusterID)
	return peering
}

// Create accepts an invitation, and creates the ForeignCluster if it does not exist. A repeated request changes
// nothing. Create fails with Conflict if the invitation contradicts the ForeignCluster, for example because the
// outgoing peering uses the token of another invitation.
func (r *PeerREST) Create(
	ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc,
	options *metav1.CreateOptions,
) (runtime.Object, error) {
	peering, ok := obj.(*federation.Peering)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected a Peering, got a %T", obj))
	}
	if err := subresource.CheckName(name, peering); err != nil {
		return nil, err
	}
	if peering.Spec.Outgoing == "" {
		peering.Spec.Outgoing = federation.PeeringEnabled
	}
	if errs := validation.ValidateNewPeering(peering, name); len(errs) > 0 {
		return nil, apierrors.NewInvalid(peeringKind, name, errs)
	}
	if createValidation != nil {
		shown := peering.DeepCopy()
		shown.Spec.Token = ""
		if err := createValidation(ctx, shown); err != nil {
			return nil, err
		}
	}
	change, err := subresource.Settle(peerResource, name, func() (change,
		error) {
		return r.accept(ctx, name, peering, options)
	})
	if err != nil {
		return nil, err
	}
	return r.answer(ctx, change, options.DryRun)
}

// change is the effect of a request on a ForeignCluster.
type change struct {
	// current is the ForeignCluster before the request, nil if none existed. requested is the ForeignCluster after the
	// request. If the request deletes the ForeignCluster, requested is nil, and current is the object that is being
	// deleted.
	current, requested *federation.ForeignCluster
	// token is true if the request stores a new invitation token.
	token bool
}

// answer returns the Peering of change.requested, or of change.current if the request deletes the ForeignCluster. In a
// dry run, its status has the plan.
func (r *PeerREST) answer(ctx context.Context, change change, dryRun []string) (*federation.Peering, error) {
	shown := change.requested
	if shown == nil {
		shown = change.current
	}
	peering := r.show(shown)
	if !dryrun.IsDryRun(dryRun) {
		return peering, nil
	}
	var err error
	peering.Status.Plan, err = r.plans.Peer(ctx, change.current, change.requested, change.token)
	return peering, err
}

// accept stores the token of an invitation, if it has one, and then creates or updates the ForeignCluster. It fails if
// the preconditions of the request are not met.
func (r *PeerREST) accept(
	ctx context.Context, name string, peering *federation.Peering, options *metav1.CreateOptions,
) (change, error) {
	cluster, err := r.get(ctx, name, &metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if err := subresource.CheckPreconditions(peerResource, name, peering, nil); err != nil {
			return change{}, err
		}
		return r.acceptNew(ctx, name, peering, options)
	}
	if err != nil {
		return change{}, err
	}
	if err := subresource.CheckPreconditions(peerResource, name, peering, cluster); err != nil {
		return change{}, err
	}
	return r.acceptExisting(ctx, cluster, peering, options)
}

// acceptNew creates the ForeignCluster. Before that it stores the token, unless only an incoming peering is requested.
// It fails with Invalid if an outgoing peering is requested without a token.
func (r *PeerREST) acceptNew(
	ctx context.Context, name string, peering *federation.Peering, options *metav1.CreateOptions,
) (change, error) {
	cluster := &federation.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	cluster.Spec.Outgoing, cluster.Spec.Incoming = federation.PeeringDisabled, federation.PeeringDisabled
	apply(cluster, peering)
	if peering.Spec.Outgoing == federation.PeeringDisabled {
		created, err := r.clusters.Create(ctx, cluster, rest.ValidateAllObjectFunc, options)
		if apierrors.IsAlreadyExists(err) {
			return change{}, subresource.LostRace(err)
		}
		if err != nil {
			return change{}, err
		}
		return change{requested: created.(*federation.ForeignCluster)}, nil
	}
	if peering.Spec.Token == "" {
		return change{}, tokenRequired(name)
	}

	undo, err := r.invitations.store(ctx, name, peering.Spec.Token, false, options.DryRun)
	if err != nil {
		return change{}, err
	}
	created, err := r.clusters.Create(ctx, cluster, rest.ValidateAllObjectFunc, options)
	if apierrors.IsAlreadyExists(err) {
		// The token stays: the concurrent request that created the ForeignCluster may depend on it.
		return change{}, subresource.LostRace(err)
	}
	if err != nil {
		return change{}, rollBack(ctx, undo, err)
	}
	return change{requested: created.(*federation.ForeignCluster), token: true}, nil
}

// acceptExisting accepts an invitation for an existing ForeignCluster. A repeated request changes nothing. It fails
// with Conflict if the invitation contradicts the ForeignCluster, or if the outgoing peering uses the token of another
// invitation.
func (r *PeerREST) acceptExisting(
	ctx context.Context, cluster *federation.ForeignCluster, peering *federation.Peering, options *metav1.CreateOptions,
) (change, error) {
	if cluster.DeletionTimestamp != nil {
		return change{}, subresource.Deleting(peerResource, cluster.Name)
	}
	found := differences(cluster, peering)
	outgoing := cluster.Spec.Outgoing == federation.PeeringEnabled
	token := peering.Spec.Token
	incomingOnly := peering.Spec.Outgoing == federation.PeeringDisabled
	if token == "" && !incomingOnly && !outgoing && cluster.Spec.InvitationSecretName == "" {
		return change{}, tokenRequired(cluster.Name)
	}
	keep := false
	if token != "" {
		kept, err := r.invitations.compare(ctx, cluster.Name, token)
		if err != nil {
			return change{}, err
		}
		if kept == different && outgoing {
			found = append(found, subresource.Difference{Field: "spec.token",
				Message: "is the token of another invitation"})
		}
		// A controller deletes the Secret once the provider accepted the identity. A missing Secret then does not mean that
		// the token differs.
		accepted := outgoing && cluster.Status.Authentication == federation.PeeringEstablished
		keep = kept != same && !(kept == absent && accepted)
	}
	if len(found) > 0 {
		return change{}, subresource.Contradiction(peerResource, cluster.Name, found, subresource.ByUpdate)
	}
	requested := cluster.DeepCopy()
	apply(requested, peering)
	if !keep && (outgoing || incomingOnly) &&
		requested.Spec.Incoming == cluster.Spec.Incoming && requested.Spec.Mode == cluster.Spec.Mode {
		return change{current: cluster, requested: cluster}, nil
	}
	if err := checkManagers(options.FieldManager, cluster, requested); err != nil {
		return change{}, err
	}
	undo := undoFunc(nothingToUndo)
	if keep {
		var err error
		if undo, err = r.invitations.store(ctx, cluster.Name, token, !outgoing, options.DryRun); err != nil {
			return change{}, err
		}
	}
	// requested has the resourceVersion that this decision was based on: the update fails if the object changed.
	updated, _, err := r.clusters.Update(ctx, cluster.Name, rest.DefaultUpdatedObjectInfo(requested),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{DryRun: options.DryRun,
			FieldManager: options.FieldManager})
	if err != nil {
		return change{}, rollBack(ctx, undo, subresource.LostRace(err))
	}
	return change{current: cluster, requested: updated.(*federation.ForeignCluster), token: keep}, nil
}

// Update changes the spec of the ForeignCluster. A token in the request replaces the stored token.
func (r *PeerREST) Update(
	ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	if forceAllowCreate {
		return nil, false, subresource.RefuseApply(peerResource, name, "ForeignCluster")
	}
	cluster, err := r.get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	update := peeringUpdate{UpdatedObjectInfo: objInfo, manager: options.FieldManager}
	peering, err := update.peering(ctx, cluster)
	if err != nil {
		return nil, false, err
	}
	undo, newToken := undoFunc(nothingToUndo), false
	if token := peering.Spec.Token; token != "" {
		kept, err := r.invitations.compare(ctx, name, token)
		if err != nil {
			return nil, false, err
		}
		newToken = kept != same
		if undo, err = subresource.Settle(peerResource, name,
			func() (undoFunc, error) { return r.invitations.store(ctx, name, token, true, options.DryRun) }); err != nil {
			return nil, false, err
		}
	}
	validate := func(ctx context.Context, obj, old runtime.Object) error {
		if updateValidation == nil {
			return nil
		}
		return updateValidation(ctx, peeringOf(obj.(*federation.ForeignCluster)), peeringOf(old.(*federation.ForeignCluster)))
	}
	updated, _, err := r.clusters.Update(ctx, name, update, rest.ValidateAllObjectFunc, validate, false, options)
	if err != nil {
		return nil, false, rollBack(ctx, undo, err)
	}
	answer, err := r.answer(ctx, change{current: cluster, requested: updated.(*federation.ForeignCluster),
		token: newToken}, options.DryRun)
	return answer, false, err
}

// Delete requests the end of the outgoing peering and does not wait for it. If an incoming peering is enabled, it
// disables only the outgoing one; otherwise it deletes the ForeignCluster. The gracePeriodSeconds of the request become
// spec.disconnectTimeoutSeconds.
func (r *PeerREST) Delete(
	ctx context.Context, name string, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	cluster, err := r.get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	if err := subresource.CheckDeletePreconditions(peerResource, options, cluster); err != nil {
		return nil, false, err
	}
	if deleteValidation != nil {
		if err := deleteValidation(ctx, peeringOf(cluster)); err != nil {
			return nil, false, err
		}
	}
	incoming := cluster.Spec.Incoming == federation.PeeringEnabled
	left, err := r.leave(ctx, cluster, incoming, options)
	if err != nil {
		return nil, false, err
	}
	if incoming {
		answer, err := r.answer(ctx, change{current: cluster, requested: left}, options.DryRun)
		return answer, true, err
	}
	parentOptions := &metav1.DeleteOptions{DryRun: options.DryRun, PropagationPolicy: options.PropagationPolicy,
		Preconditions: &metav1.Preconditions{UID: &cluster.UID}}
	deleted, gone, err := r.clusters.Delete(ctx, name, rest.ValidateAllObjectFunc, parentOptions)
	if err != nil {
		return nil, false, err
	}
	if terminating, ok := deleted.(*federation.ForeignCluster); ok {
		left = terminating
	}
	answer, err := r.answer(ctx, change{current: left}, options.DryRun)
	return answer, gone, err
}

// leave sets spec.disconnectTimeoutSeconds to the grace period of the request, if any, and returns the changed
// ForeignCluster. incoming is true if the incoming peering is enabled: then leave also disables the outgoing peering,
// because the caller does not delete the ForeignCluster.
func (r *PeerREST) leave(
	ctx context.Context, cluster *federation.ForeignCluster, incoming bool, options *metav1.DeleteOptions,
) (*federation.ForeignCluster, error) {
	if !incoming && options.GracePeriodSeconds == nil {
		return cluster, nil
	}
	updated, _, err := r.clusters.Update(ctx, cluster.Name,
		rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			requested := old.DeepCopyObject().(*federation.ForeignCluster)
			if err := subresource.CheckDeletePreconditions(peerResource, options, requested); err != nil {
				return nil, err
			}
			if incoming {
				requested.Spec.Outgoing = federation.PeeringDisabled
			}
			if seconds := options.GracePeriodSeconds; seconds != nil {
				timeout, err := disconnectTimeout(cluster.Name, *seconds)
				if err != nil {
					return nil, err
				}
				requested.Spec.DisconnectTimeoutSeconds = &timeout
			}
			// DeleteOptions have no field manager.
			return requested, checkManagers("", old.(*federation.ForeignCluster), requested)
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false,
		&metav1.UpdateOptions{DryRun: options.DryRun})
	if err != nil {
		return nil, err
	}
	return updated.(*federation.ForeignCluster), nil
}

func (r *PeerREST) get(
	ctx context.Context, name string, options *metav1.GetOptions,
) (*federation.ForeignCluster, error) {
	obj, err := r.clusters.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return obj.(*federation.ForeignCluster), nil
}

// disconnectTimeout returns the gracePeriodSeconds of a DELETE as a value for spec.disconnectTimeoutSeconds. It fails
// with Invalid if the value does not fit into 32 bits. name is the name of the ForeignCluster, for the error.
func disconnectTimeout(name string, seconds int64) (int32, error) {
	if timeout := int32(seconds); int64(timeout) == seconds {
		return timeout, nil
	}
	return 0, apierrors.NewInvalid(peeringKind, name, field.ErrorList{field.Invalid(field.NewPath("gracePeriodSeconds"),
		seconds, fmt.Sprintf("must be 0 to %d", validation.MaxDisconnectSeconds))})
}

func tokenRequired(name string) error {
	return apierrors.NewInvalid(peeringKind, name, field.ErrorList{
		field.Required(field.NewPath("spec", "token"),
			"must be the token of an invitation; the provider's administrator gets one by a POST to the subresource "+
				"invitation of a PeeringToken")})
}

// ConvertToTable returns the table of a Peering.
func (r *PeerREST) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return peeringTable.ConvertToTable(ctx, object, options)
}

var (
	_ rest.NamedCreater                   = &PeerREST{}
	_ rest.Patcher                        = &PeerREST{}
	_ rest.GracefulDeleter                = &PeerREST{}
	_ rest.TableConvertor                 = &PeerREST{}
	_ rest.SubresourceObjectMetaPreserver = &PeerREST{}
)
