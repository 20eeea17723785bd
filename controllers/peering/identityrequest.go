// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/rules"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/queue"
)

// Reasons of the condition Accepted of an IdentityRequest.
const (
	ReasonAccepted             = "Accepted"
	ReasonClusterAlreadyPeered = "ClusterAlreadyPeered"
	ReasonNameTaken            = "NameTaken"
)

// maxClusterName is the length of a ForeignCluster's name.
const maxClusterName = 40

// identityRequests gives each consumer that was invited a ForeignCluster, and
// says when its tenant namespace is there.
type identityRequests struct {
	clusterID string

	get                  func(name string) (*v1alpha1.IdentityRequest, error)
	list                 func(labels.Selector) ([]*v1alpha1.IdentityRequest, error)
	foreignClusters      func(labels.Selector) ([]*v1alpha1.ForeignCluster, error)
	createForeignCluster func(ctx context.Context, fc *v1alpha1.ForeignCluster) (*v1alpha1.ForeignCluster, error)
	commitForeignCluster func(ctx context.Context, old, wanted *v1alpha1.ForeignCluster) (bool, error)
	commit               func(ctx context.Context, old, wanted *v1alpha1.IdentityRequest) (bool, error)
	remove               func(ctx context.Context, request *v1alpha1.IdentityRequest) error
	getNamespace         func(name string) (*corev1.Namespace, error)
	getBinding           func(namespace, name string) (*rbacv1.RoleBinding, error)
}

// NewIdentityRequests makes the controller that lets invited consumers in.
func NewIdentityRequests(config *Config) (*queue.Controller[cache.ObjectName], error) {
	informers := config.FederationInformers.Federation().V1alpha1()
	federation := config.Federation.FederationV1alpha1()
	lister := informers.IdentityRequests().Lister()
	r := &identityRequests{
		clusterID:       config.ClusterID,
		get:             lister.Get,
		list:            lister.List,
		foreignClusters: informers.ForeignClusters().Lister().List,
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
		// The cache may be behind; what is really gone takes its requests along.
		return 0, ignoreNotFound(r.remove(ctx, request))
	}
	return 0, r.adopt(ctx, request, all)
}

// accept says that the tenant namespace is there, with the rights of this
// identity: from then on it may be signed.
func (r *identityRequests) accept(ctx context.Context, request *v1alpha1.IdentityRequest, fc *v1alpha1.ForeignCluster) error {
	name := rules.TenantNamespace(fc.Name)
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
	binding, err := r.getBinding(name, tenantRole)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	uid, _ := rules.InvitationOfAccount(request.Name)
	for _, subject := range binding.Subjects {
		if subject.Kind == rbacv1.UserKind && subject.Name == string(uid) {
			accepted := request.DeepCopy()
			accepted.Status.TenantNamespace = name
			accepted.Status.ClusterID = r.clusterID
			setRequestCondition(accepted, v1alpha1.ConditionAccepted, metav1.ConditionTrue, ReasonAccepted, "The tenant namespace is there.")
			_, err := r.commit(ctx, request, accepted)
			return err
		}
	}
	return nil
}

// adopt finds or makes the ForeignCluster of the consumer.
func (r *identityRequests) adopt(ctx context.Context, request *v1alpha1.IdentityRequest, all []*v1alpha1.ForeignCluster) error {
	if request.Spec.ClusterID == r.clusterID {
		return r.refuse(ctx, request, ReasonOwnCluster, "A cluster cannot lend to itself.")
	}
	fc, reason, message := r.choose(request, all)
	if reason != "" {
		return r.refuse(ctx, request, reason, message)
	}
	switch {
	case fc.UID == "":
		created, err := r.createForeignCluster(ctx, fc)
		if err != nil {
			return fmt.Errorf("make the ForeignCluster of the consumer: %w", err)
		}
		fc = created
	case fc.DeletionTimestamp != nil:
		// Its deletion is an event that brings us back.
		return nil
	case fc.Spec.Incoming != v1alpha1.PeeringEnabled:
		wanted := fc.DeepCopy()
		wanted.Spec.Incoming = v1alpha1.PeeringEnabled
		_, err := r.commitForeignCluster(ctx, fc, wanted)
		return err
	}
	owned := request.DeepCopy()
	owned.OwnerReferences = append(owned.OwnerReferences,
		*metav1.NewControllerRef(fc, v1alpha1.SchemeGroupVersion.WithKind("ForeignCluster")))
	_, err := r.commit(ctx, request, owned)
	return err
}

// choose finds the ForeignCluster that a request belongs to, or plans one
// without a UID, or says why there can be none.
func (r *identityRequests) choose(request *v1alpha1.IdentityRequest, all []*v1alpha1.ForeignCluster) (fc *v1alpha1.ForeignCluster, reason, message string) {
	taken := map[string]bool{}
	for _, known := range all {
		taken[known.Name] = true
		if known.Spec.ClusterID != request.Spec.ClusterID {
			continue
		}
		requests, err := r.list(labels.Everything())
		if err == nil && len(ownedBy(known, requests)) > 0 && known.DeletionTimestamp == nil {
			return nil, ReasonClusterAlreadyPeered, "This cluster already lends to the consumer: unpeer first."
		}
		return known, "", ""
	}
	for _, name := range []string{request.Spec.ClusterName, suffixed(request.Spec.ClusterName, rules.ShortID(request.Spec.ClusterID))} {
		if taken[name] {
			continue
		}
		return &v1alpha1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.ForeignClusterSpec{
				ClusterID: request.Spec.ClusterID,
				Incoming:  v1alpha1.PeeringEnabled,
				Outgoing:  v1alpha1.PeeringDisabled,
			},
		}, "", ""
	}
	return nil, ReasonNameTaken, "Other clusters of that name are known here: give the consumer another name."
}

func suffixed(name, suffix string) string {
	if room := maxClusterName - len(suffix) - 1; len(name) > room {
		name = strings.TrimRight(name[:room], "-")
	}
	return name + "-" + suffix
}

func (r *identityRequests) refuse(ctx context.Context, request *v1alpha1.IdentityRequest, reason, message string) error {
	refused := request.DeepCopy()
	setRequestCondition(refused, v1alpha1.ConditionAccepted, metav1.ConditionFalse, reason, message)
	_, err := r.commit(ctx, request, refused)
	return err
}

func setRequestCondition(request *v1alpha1.IdentityRequest, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&request.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: request.Generation,
	})
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
