// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/queue"
)

// Reasons of the condition Accepted of an IdentityRequest.
const (
	ReasonAccepted             = "Accepted"
	ReasonClusterAlreadyPeered = "ClusterAlreadyPeered"
	ReasonNameTaken            = "NameTaken"
	ReasonInvitationWithdrawn  = "InvitationWithdrawn"
	ReasonInvitationOfAnother  = "InvitationOfAnother"
)

// identityRequests gives each consumer that was invited a ForeignCluster, and
// says when its tenant namespace is there.
type identityRequests struct {
	clusterID string

	mode identity.Mode

	get             func(name string) (*v1alpha1.IdentityRequest, error)
	list            func(labels.Selector) ([]*v1alpha1.IdentityRequest, error)
	foreignClusters func(labels.Selector) ([]*v1alpha1.ForeignCluster, error)
	// known reads what there is from the API server: caches may be behind, and
	// two requests of one cluster must not both be the first.
	known                func(ctx context.Context) (*acquaintances, error)
	createForeignCluster func(ctx context.Context, fc *v1alpha1.ForeignCluster) (*v1alpha1.ForeignCluster, error)
	commitForeignCluster func(ctx context.Context, old, wanted *v1alpha1.ForeignCluster) (bool, error)
	commit               func(ctx context.Context, old, wanted *v1alpha1.IdentityRequest) (bool, error)
	remove               func(ctx context.Context, request *v1alpha1.IdentityRequest) error
	getNamespace         func(name string) (*corev1.Namespace, error)
	getBinding           func(namespace, name string) (*rbacv1.RoleBinding, error)
	createAccount        func(ctx context.Context, account *corev1.ServiceAccount) error
}

// NewIdentityRequests makes the controller that lets invited consumers in.
func NewIdentityRequests(config *Config) (*queue.Controller[cache.ObjectName], error) {
	informers := config.FederationInformers.Federation().V1alpha1()
	federation := config.Federation.FederationV1alpha1()
	lister := informers.IdentityRequests().Lister()
	r := &identityRequests{
		clusterID:       config.ClusterID,
		mode:            config.IdentityMode,
		get:             lister.Get,
		list:            lister.List,
		foreignClusters: informers.ForeignClusters().Lister().List,
		known:           config.known,
		createForeignCluster: func(ctx context.Context, fc *v1alpha1.ForeignCluster) (*v1alpha1.ForeignCluster, error) {
			return federation.ForeignClusters().Create(ctx, fc, createOptions)
		},
		commitForeignCluster: func(ctx context.Context, old, wanted *v1alpha1.ForeignCluster) (bool, error) {
			return commit.Commit(ctx, federation.ForeignClusters(), old, wanted)
		},
		commit: func(ctx context.Context, old, wanted *v1alpha1.IdentityRequest) (bool, error) {
			return commit.Commit(ctx, federation.IdentityRequests(), old, wanted)
		},
		remove: func(ctx context.Context, request *v1alpha1.IdentityRequest) error {
			return federation.IdentityRequests().Delete(ctx, request.Name, exactly(request))
		},
		getNamespace: config.getNamespace,
		getBinding:   config.getBinding,
		createAccount: func(ctx context.Context, account *corev1.ServiceAccount) error {
			_, err := config.Kube.CoreV1().ServiceAccounts(account.Namespace).Create(ctx, account, createOptions)
			return err
		},
	}
	// One at a time: two requests of one cluster must not both be the first.
	controller := queue.New("identityrequest", 1, r.reconcile)
	ofForeignCluster := func(keys func(any) []cache.ObjectName) func(any) []cache.ObjectName {
		return func(object any) []cache.ObjectName { return r.keysFor(keys(object)) }
	}
	for _, watched := range []struct {
		informer cache.SharedIndexInformer
		keys     func(any) []cache.ObjectName
	}{
		{informers.IdentityRequests().Informer(), queue.ObjectKeys},
		{informers.ForeignClusters().Informer(), ofForeignCluster(queue.ObjectKeys)},
		{config.KubeInformers.Core().V1().Namespaces().Informer(), ofForeignCluster(labelKeys)},
		{config.ManagedInformers.Rbac().V1().RoleBindings().Informer(), ofForeignCluster(labelKeys)},
	} {
		if _, err := watched.informer.AddEventHandler(controller.Handle(watched.keys)); err != nil {
			return nil, fmt.Errorf("watch for the identity requests: %w", err)
		}
	}
	return controller, nil
}

// keysFor lists the requests that belong to the foreign clusters, and those
// that belong to none yet.
func (r *identityRequests) keysFor(foreignClusters []cache.ObjectName) []cache.ObjectName {
	if len(foreignClusters) == 0 {
		return nil
	}
	all, err := r.list(labels.Everything())
	if err != nil {
		return nil
	}
	var keys []cache.ObjectName
	for _, request := range all {
		owner := metav1.GetControllerOf(request)
		for _, fc := range foreignClusters {
			if owner == nil || owner.Name == fc.Name {
				keys = append(keys, cache.ObjectName{Name: request.Name})
				break
			}
		}
	}
	return keys
}

func (r *identityRequests) reconcile(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	request, err := r.get(key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil || request.DeletionTimestamp != nil {
		return 0, err
	}
	all, err := r.foreignClusters(labels.Everything())
	if err != nil {
		return 0, err
	}
	if owner := metav1.GetControllerOf(request); owner != nil {
		for _, fc := range all {
			if fc.UID == owner.UID {
				return 0, r.accept(ctx, request, fc)
			}
		}
		// The cache may be behind, and its event brings us back. What is really
		// gone takes its requests along.
		known, err := r.known(ctx)
		if err != nil {
			return 0, fmt.Errorf("find out whether ForeignCluster %s is gone: %w", owner.Name, err)
		}
		if slices.ContainsFunc(known.clusters, func(fc v1alpha1.ForeignCluster) bool { return fc.UID == owner.UID }) {
			return 0, nil
		}
		return 0, ignoreNotFound(r.remove(ctx, request))
	}
	return 0, r.adopt(ctx, request)
}

// accept says that the tenant namespace is there, with the rights of this
// identity, and that it may be signed, or that it is an account. Each renewal
// is accepted anew.
func (r *identityRequests) accept(ctx context.Context, request *v1alpha1.IdentityRequest, fc *v1alpha1.ForeignCluster) error {
	name := naming.TenantNamespace(fc.Name)
	namespace, err := r.getNamespace(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !incoming(fc) || !belongsTo(namespace, fc.Name, v1alpha1.RoleTenant) || namespace.DeletionTimestamp != nil {
		return nil
	}
	accepted := request.DeepCopy()
	accepted.Status.TenantNamespace = name
	accepted.Status.ClusterID = r.clusterID
	var ready bool
	if r.mode.ByToken(request) {
		ready, err = r.account(ctx, request, name)
		accepted.Status.ServiceAccountName = naming.TenantAccount
		identity.SetCondition(accepted, v1alpha1.ConditionAccepted, metav1.ConditionTrue, identity.ReasonKnownByAccount, "The tenant namespace is there, with an account for the consumer.")
	} else {
		uid, _ := naming.InvitationOfAccount(request.Name)
		ready, err = r.bound(name, naming.TenantRole, rbacv1.UserKind, string(uid))
		identity.SetCondition(accepted, v1alpha1.ConditionAccepted, metav1.ConditionTrue, ReasonAccepted, "The tenant namespace is there.")
	}
	if err != nil || !ready {
		return err
	}
	_, err = r.commit(ctx, request, accepted)
	return err
}

// account makes the service account that a consumer is where nobody signs
// certificates, once it has rights and its bearer may ask for tokens of it.
// False says that they are not there yet.
func (r *identityRequests) account(ctx context.Context, request *v1alpha1.IdentityRequest, namespace string) (bool, error) {
	for _, needed := range []struct{ role, account string }{{naming.TenantRole, naming.TenantAccount}, {naming.TenantTokenRole, request.Name}} {
		if bound, err := r.bound(namespace, needed.role, rbacv1.ServiceAccountKind, needed.account); err != nil || !bound {
			return false, err
		}
	}
	if request.Status.ServiceAccountName != "" {
		return true, nil
	}
	err := r.createAccount(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: naming.TenantAccount, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
	}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return false, fmt.Errorf("make the account of the consumer in namespace %s: %w", namespace, err)
	}
	return true, nil
}

// bound tells whether a role binding is there and names somebody.
func (r *identityRequests) bound(namespace, name, kind, subject string) (bool, error) {
	binding, err := r.getBinding(namespace, name)
	if err != nil {
		return false, ignoreNotFound(err)
	}
	return slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Kind == kind && s.Name == subject }), nil
}

// adopt finds or makes the ForeignCluster of the consumer.
func (r *identityRequests) adopt(ctx context.Context, request *v1alpha1.IdentityRequest) error {
	if request.Spec.ClusterID == r.clusterID {
		return r.refuse(ctx, request, ReasonOwnCluster, "A cluster cannot lend to itself.")
	}
	known, err := r.known(ctx)
	if err != nil {
		return fmt.Errorf("find out who is known here: %w", err)
	}
	token := known.invitation(request)
	switch {
	case token == nil:
		return r.refuse(ctx, request, ReasonInvitationWithdrawn, "The invitation was taken back.")
	case token.Spec.ConsumerClusterID != "" && token.Spec.ConsumerClusterID != request.Spec.ClusterID:
		return r.refuse(ctx, request, ReasonInvitationOfAnother, "The invitation is for another cluster than "+request.Spec.ClusterID+".")
	}
	fc, reason, message := known.choose(request)
	var others []*v1alpha1.IdentityRequest
	if fc != nil {
		others = ownedBy(fc, known.requests)
	}
	switch {
	case reason != "":
		return r.refuse(ctx, request, reason, message)
	case fc.DeletionTimestamp != nil, len(others) > 0 && !incoming(fc):
		// An earlier peering is being undone. When that is done, an event
		// brings us back.
		return nil
	case len(others) > 0 && token.Spec.ConsumerClusterID == "":
		return r.refuse(ctx, request, ReasonClusterAlreadyPeered,
			"This cluster already lends to the consumer: unpeer first. If the consumer has lost its identity, ask for an invitation that is bound to its cluster id.")
	}
	for _, other := range others {
		// Whoever was invited by its id gets another identity, and has that one.
		if err := r.remove(ctx, other); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the identity that the consumer had: %w", err)
		}
	}
	switch {
	case fc.UID == "":
		created, err := r.createForeignCluster(ctx, fc)
		if err != nil {
			return fmt.Errorf("make the ForeignCluster of the consumer: %w", err)
		}
		fc = created
	case fc.Spec.Incoming != v1alpha1.PeeringEnabled:
		wanted := fc.DeepCopy()
		wanted.Spec.Incoming = v1alpha1.PeeringEnabled
		_, err := r.commitForeignCluster(ctx, fc, wanted)
		return err
	}
	owned := request.DeepCopy()
	owned.OwnerReferences = append(owned.OwnerReferences,
		*metav1.NewControllerRef(fc, v1alpha1.SchemeGroupVersion.WithKind("ForeignCluster")))
	_, err = r.commit(ctx, request, owned)
	return err
}

func (r *identityRequests) refuse(ctx context.Context, request *v1alpha1.IdentityRequest, reason, message string) error {
	refused := request.DeepCopy()
	identity.SetCondition(refused, v1alpha1.ConditionAccepted, metav1.ConditionFalse, reason, message)
	_, err := r.commit(ctx, request, refused)
	return err
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
