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

// PeerREST is the verb peer: POST takes a provider's invitation, DELETE
// unpeers. It commits to the foreign cluster of its name and returns; the
// controllers do the rest.
type PeerREST struct {
	clusters    subresource.Parent
	invitations invitations
	plans       plan.Reader
}

// NewPeerREST makes the verb over the store of foreign clusters, over the
// Secrets of the installation namespace, and over what its plans are made of.
func NewPeerREST(clusters subresource.Parent, secrets corev1client.SecretInterface, plans plan.Reader) *PeerREST {
	return &PeerREST{clusters: clusters, invitations: invitations{secrets: secrets}, plans: plans}
}

// New makes an empty peering.
func (r *PeerREST) New() runtime.Object { return &federation.Peering{} }

// Destroy does nothing: the store belongs to the parent resource.
func (r *PeerREST) Destroy() {}

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate keeps the uid and
// resourceVersion of a POST, which are its preconditions.
func (r *PeerREST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

// Get shows how the peering with the foreign cluster stands.
func (r *PeerREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	cluster, err := r.get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return r.show(cluster), nil
}

// show is the peering, with the way for the other side to let this one in.
func (r *PeerREST) show(cluster *federation.ForeignCluster) *federation.Peering {
	peering := peeringOf(cluster)
	peering.Status.Command = letIn(cluster, r.plans.ClusterName, r.plans.ClusterID)
	return peering
}

// Create takes an invitation, and makes the foreign cluster if there is none.
// The same invitation again changes nothing; another one is a conflict.
func (r *PeerREST) Create(
	ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc,
	options *metav1.CreateOptions,
) (runtime.Object, error) {
	peering, ok := obj.(*federation.Peering)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("a Peering is expected here, not a %T", obj))
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
		return r.take(ctx, name, peering, options)
	})
	if err != nil {
		return nil, err
	}
	return r.answer(ctx, change, options.DryRun)
}

// change is what a request made of a foreign cluster.
type change struct {
	// is and wanted are the cluster before and after; nil stands for none.
	is, wanted *federation.ForeignCluster
	// token tells whether an invitation is kept that was not before.
	token bool
}

// answer shows the peering, in a dry run with the plan.
func (r *PeerREST) answer(ctx context.Context, change change, dryRun []string) (*federation.Peering, error) {
	shown := change.wanted
	if shown == nil {
		shown = change.is
	}
	peering := r.show(shown)
	if !dryrun.IsDryRun(dryRun) {
		return peering, nil
	}
	var err error
	peering.Status.Plan, err = r.plans.Peer(ctx, change.is, change.wanted, change.token)
	return peering, err
}

// take commits to an invitation: first its token, then the foreign cluster.
func (r *PeerREST) take(
	ctx context.Context, name string, peering *federation.Peering, options *metav1.CreateOptions,
) (change, error) {
	cluster, err := r.get(ctx, name, &metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if err := subresource.CheckPreconditions(peerResource, name, peering, nil); err != nil {
			return change{}, err
		}
		return r.takeNew(ctx, name, peering, options)
	}
	if err != nil {
		return change{}, err
	}
	if err := subresource.CheckPreconditions(peerResource, name, peering, cluster); err != nil {
		return change{}, err
	}
	return r.takeMore(ctx, cluster, peering, options)
}

// takeNew makes the foreign cluster that an invitation is about.
func (r *PeerREST) takeNew(
	ctx context.Context, name string, peering *federation.Peering, options *metav1.CreateOptions,
) (change, error) {
	cluster := &federation.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	cluster.Spec.Outgoing, cluster.Spec.Incoming = federation.PeeringDisabled, federation.PeeringDisabled
	extend(cluster, peering)
	if peering.Spec.Outgoing == federation.PeeringDisabled {
		created, err := r.clusters.Create(ctx, cluster, rest.ValidateAllObjectFunc, options)
		if apierrors.IsAlreadyExists(err) {
			return change{}, subresource.LostRace(err)
		}
		if err != nil {
			return change{}, err
		}
		return change{wanted: created.(*federation.ForeignCluster)}, nil
	}
	if peering.Spec.Token == "" {
		return change{}, tokenRequired(name)
	}

	undo, err := r.invitations.keep(ctx, name, peering.Spec.Token, false, options.DryRun)
	if err != nil {
		return change{}, err
	}
	created, err := r.clusters.Create(ctx, cluster, rest.ValidateAllObjectFunc, options)
	if apierrors.IsAlreadyExists(err) {
		// Whoever made it meanwhile may count on this Secret.
		return change{}, subresource.LostRace(err)
	}
	if err != nil {
		return change{}, takeBack(ctx, undo, err)
	}
	return change{wanted: created.(*federation.ForeignCluster), token: true}, nil
}

// takeMore lets an existing foreign cluster take an invitation, unless it has
// taken it already, or another one.
func (r *PeerREST) takeMore(
	ctx context.Context, cluster *federation.ForeignCluster, peering *federation.Peering, options *metav1.CreateOptions,
) (change, error) {
	if cluster.DeletionTimestamp != nil {
		return change{}, subresource.Deleting(peerResource, cluster.Name)
	}
	found := differences(cluster, peering)
	borrows := cluster.Spec.Outgoing == federation.PeeringEnabled
	token := peering.Spec.Token
	if letIn := peering.Spec.Outgoing == federation.PeeringDisabled; token == "" && !letIn && !borrows &&
		cluster.Spec.InvitationSecretName == "" {
		return change{}, tokenRequired(cluster.Name)
	}
	keep := false
	if token != "" {
		kept, err := r.invitations.compare(ctx, cluster.Name, token)
		if err != nil {
			return change{}, err
		}
		if kept == different && borrows {
			found = append(found, subresource.Difference{Field: "spec.token", Message: "is not the invitation that was taken"})
		}
		// The Secret goes once the provider has accepted our identity.
		accepted := borrows && cluster.Status.Authentication == federation.PeeringEstablished
		keep = kept != same && !(kept == absent && accepted)
	}
	if len(found) > 0 {
		return change{}, subresource.Contradiction(peerResource, cluster.Name, found, subresource.ByUpdate)
	}
	wanted := cluster.DeepCopy()
	extend(wanted, peering)
	if !keep && (borrows || peering.Spec.Outgoing == federation.PeeringDisabled) &&
		wanted.Spec.Incoming == cluster.Spec.Incoming && wanted.Spec.Mode == cluster.Spec.Mode {
		return change{is: cluster, wanted: cluster}, nil
	}
	if err := checkManagers(options.FieldManager, cluster, wanted); err != nil {
		return change{}, err
	}
	undo := undoing(nothingToUndo)
	if keep {
		var err error
		if undo, err = r.invitations.keep(ctx, cluster.Name, token, !borrows, options.DryRun); err != nil {
			return change{}, err
		}
	}
	// What was decided above holds for this state only, whose resourceVersion
	// the object carries.
	updated, _, err := r.clusters.Update(ctx, cluster.Name, rest.DefaultUpdatedObjectInfo(wanted),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{DryRun: options.DryRun,
			FieldManager: options.FieldManager})
	if err != nil {
		return change{}, takeBack(ctx, undo, subresource.LostRace(err))
	}
	return change{is: cluster, wanted: updated.(*federation.ForeignCluster), token: keep}, nil
}

// Update changes what is wanted of the foreign cluster. A token replaces the
// one that is held.
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
	undo := undoing(nothingToUndo)
	if token := peering.Spec.Token; token != "" {
		if undo, err = subresource.Settle(peerResource, name,
			func() (undoing, error) { return r.invitations.keep(ctx, name, token, true, options.DryRun) }); err != nil {
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
		return nil, false, takeBack(ctx, undo, err)
	}
	answer, err := r.answer(ctx, change{is: cluster, wanted: updated.(*federation.ForeignCluster),
		token: peering.Spec.Token != ""}, options.DryRun)
	return answer, false, err
}

// Delete ends the borrowing: a foreign cluster that is lent to stays without
// it, any other goes. The grace period is how many seconds the other side has
// to take part. It returns before that.
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
	lends := cluster.Spec.Incoming == federation.PeeringEnabled
	left, err := r.leave(ctx, cluster, lends, options)
	if err != nil {
		return nil, false, err
	}
	if lends {
		answer, err := r.answer(ctx, change{is: cluster, wanted: left}, options.DryRun)
		return answer, true, err
	}
	parentOptions := &metav1.DeleteOptions{DryRun: options.DryRun, PropagationPolicy: options.PropagationPolicy,
		Preconditions: &metav1.Preconditions{UID: &cluster.UID}}
	deleted, gone, err := r.clusters.Delete(ctx, name, rest.ValidateAllObjectFunc, parentOptions)
	if err != nil {
		return nil, false, err
	}
	if going, ok := deleted.(*federation.ForeignCluster); ok {
		left = going
	}
	answer, err := r.answer(ctx, change{is: left}, options.DryRun)
	return answer, gone, err
}

// leave notes in the cluster how it is to be left, before it is.
func (r *PeerREST) leave(
	ctx context.Context, cluster *federation.ForeignCluster, lends bool, options *metav1.DeleteOptions,
) (*federation.ForeignCluster, error) {
	if !lends && options.GracePeriodSeconds == nil {
		return cluster, nil
	}
	updated, _, err := r.clusters.Update(ctx, cluster.Name,
		rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			wanted := old.DeepCopyObject().(*federation.ForeignCluster)
			if err := subresource.CheckDeletePreconditions(peerResource, options, wanted); err != nil {
				return nil, err
			}
			if lends {
				wanted.Spec.Outgoing = federation.PeeringDisabled
			}
			if seconds := options.GracePeriodSeconds; seconds != nil {
				timeout, err := disconnectTimeout(cluster.Name, *seconds)
				if err != nil {
					return nil, err
				}
				wanted.Spec.DisconnectTimeoutSeconds = &timeout
			}
			// The options of a DELETE name no manager.
			return wanted, checkManagers("", old.(*federation.ForeignCluster), wanted)
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{DryRun: options.DryRun})
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

// disconnectTimeout is a grace period as the spec has it.
func disconnectTimeout(name string, seconds int64) (int32, error) {
	if timeout := int32(seconds); int64(timeout) == seconds {
		return timeout, nil
	}
	return 0, apierrors.NewInvalid(peeringKind, name, field.ErrorList{field.Invalid(field.NewPath("gracePeriodSeconds"),
		seconds, "is too long")})
}

func tokenRequired(name string) error {
	return apierrors.NewInvalid(peeringKind, name, field.ErrorList{
		field.Required(field.NewPath("spec", "token"),
			"is the invitation; the provider's administrator gets one by a POST to the subresource invitation of a PeeringToken")})
}

// ConvertToTable prints the peering.
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
