// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/queue"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/informers/externalversions"
)

// peerManagerRole is the ClusterRole that the controllers give themselves in
// each peer namespace, and the name of the RoleBinding that gives it: what is
// secret there, and what runs there, they may touch nowhere else.
const peerManagerRole = "federation-peer-manager"

var (
	getOptions    = metav1.GetOptions{}
	createOptions = metav1.CreateOptions{}
	updateOptions = metav1.UpdateOptions{}
)

// Config is what the controllers of this package work with.
type Config struct {
	Kube       kubernetes.Interface
	Federation versioned.Interface
	// KubeInformers see namespaces, ManagedInformers the role bindings that
	// carry the label of what is managed, and InvitationInformers the Secrets
	// of invitations in the installation namespace.
	KubeInformers, ManagedInformers, InvitationInformers kubeinformers.SharedInformerFactory
	FederationInformers                                  externalversions.SharedInformerFactory
	Events                                               record.EventRecorder
	Peers                                                *remote.Peers
	// Volumes are the data of this cluster on providers.
	Volumes Volumes
	Clock   clock.PassiveClock
	// ClusterID and ClusterName are this cluster's.
	ClusterID, ClusterName string
	// IdentityMode is how consumers are known here, and IdentityLifetime how
	// long this cluster's tokens at providers last.
	IdentityMode     identity.Mode
	IdentityLifetime time.Duration
	// Networking says how the pods of two clusters reach each other, where a
	// ForeignCluster does not say.
	Networking v1alpha1.NetworkingMode
	// ControlProxy leads to providers that are reached by their tunnels.
	ControlProxy ControlProxy
	// Namespace is where the product is installed, and ServiceAccount the one
	// there that the controllers run as. The accounts of invitations are in
	// InvitationNamespace.
	Namespace, ServiceAccount, InvitationNamespace string
}

// NewForeignClusters makes the controller that takes peerings from what is
// wanted to what is there, in both directions.
func NewForeignClusters(config *Config) (*queue.Controller[cache.ObjectName], error) {
	informers := config.FederationInformers.Federation().V1alpha1()
	client := config.Federation.FederationV1alpha1().ForeignClusters()
	foreignClusters := informers.ForeignClusters().Lister()
	r := &reconciler{
		clock:  config.Clock,
		events: config.Events,
		get:    foreignClusters.Get,
		forget: config.Peers.Remove,
		commit: func(ctx context.Context, old, wanted *v1alpha1.ForeignCluster) (bool, error) {
			return commit.Commit(ctx, client, old, wanted)
		},
		directions: [][]step{config.incoming(), config.outgoing()},
		networking: config.Networking,
	}
	controller := queue.New("foreigncluster", 4, r.reconcile)
	// The Secret of an invitation may come after the ForeignCluster that names it.
	invited := func(object any) []cache.ObjectName {
		secret, ok := object.(*corev1.Secret)
		if !ok {
			return nil
		}
		return keysOf(foreignClusters.List, func(fc *v1alpha1.ForeignCluster) bool { return fc.Spec.InvitationSecretName == secret.Name })
	}
	virtualNodes := informers.VirtualNodes().Informer()
	if _, err := virtualNodes.AddEventHandler(controller.HandleUnless(kit.OnlyPodsCounted, namespaceKeys)); err != nil {
		return nil, fmt.Errorf("watch for the foreign clusters: %w", err)
	}
	for _, watched := range []struct {
		informer cache.SharedIndexInformer
		keys     func(any) []cache.ObjectName
	}{
		{informers.ForeignClusters().Informer(), queue.ObjectKeys},
		{informers.IdentityRequests().Informer(), ownerKeys},
		{informers.ResourceRequests().Informer(), namespaceKeys},
		{informers.ResourceOffers().Informer(), namespaceKeys},
		{config.KubeInformers.Core().V1().Namespaces().Informer(), labelKeys},
		{config.ManagedInformers.Rbac().V1().RoleBindings().Informer(), labelKeys},
		{config.InvitationInformers.Core().V1().Secrets().Informer(), invited},
	} {
		if _, err := watched.informer.AddEventHandler(controller.Handle(watched.keys)); err != nil {
			return nil, fmt.Errorf("watch for the foreign clusters: %w", err)
		}
	}
	return controller, nil
}

// InvitationInformers are the options of informers that see the Secrets of
// invitations in the installation namespace, and no other Secret.
func InvitationInformers(namespace string) []kubeinformers.SharedInformerOption {
	return []kubeinformers.SharedInformerOption{
		kubeinformers.WithNamespace(namespace),
		kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = "type=" + v1alpha1.SecretTypeInvitation
		}),
	}
}

func (c *Config) incoming() []step {
	informers := c.FederationInformers.Federation().V1alpha1()
	identities := func() ([]*v1alpha1.IdentityRequest, error) {
		return informers.IdentityRequests().Lister().List(labels.Everything())
	}
	requests := func(namespace string) ([]*v1alpha1.ResourceRequest, error) {
		return informers.ResourceRequests().Lister().ResourceRequests(namespace).List(labels.Everything())
	}
	offers := func(namespace string) ([]*v1alpha1.ResourceOffer, error) {
		return informers.ResourceOffers().Lister().ResourceOffers(namespace).List(labels.Everything())
	}
	tenant := c.namespaceStep()
	tenant.aspect, tenant.role, tenant.name = incomingAspect, v1alpha1.RoleTenant, naming.TenantNamespace
	tenant.status = func(s *v1alpha1.ForeignClusterStatus) *string { return &s.TenantNamespace }
	tenant.bindings = func(fc *v1alpha1.ForeignCluster) ([]*rbacv1.RoleBinding, error) {
		requests, err := identities()
		if err != nil {
			return nil, err
		}
		return c.tenantBindings(fc, ownedBy(fc, requests)), nil
	}
	federation := c.Federation.FederationV1alpha1()
	return []step{
		&withdrawnStep{requests: requests, remove: func(ctx context.Context, fc *v1alpha1.ForeignCluster) error {
			return federation.ForeignClusters().Delete(ctx, fc.Name, exactly(fc))
		}},
		&incomingTeardown{
			getNamespace:    c.getNamespace,
			deleteNamespace: c.deleteNamespace,
			identities:      identities,
			deleteIdentity: func(ctx context.Context, name string) error {
				return federation.IdentityRequests().Delete(ctx, name, metav1.DeleteOptions{})
			},
			deleteAccount: func(ctx context.Context, name string) error {
				return c.Kube.CoreV1().ServiceAccounts(c.InvitationNamespace).Delete(ctx, name, metav1.DeleteOptions{})
			},
			requests: requests,
			answerWithdrawal: func(ctx context.Context, request *v1alpha1.ResourceRequest) error {
				answered := request.DeepCopy()
				answered.Status.Phase = v1alpha1.NegotiationWithdrawn
				answered.Status.ObservedGeneration = request.Generation
				_, err := commit.Commit(ctx, federation.ResourceRequests(request.Namespace), request, answered)
				return err
			},
			offers: offers,
			twins: func(foreignCluster string) ([]*corev1.Namespace, error) {
				return c.KubeInformers.Core().V1().Namespaces().Lister().List(labels.SelectorFromSet(labels.Set{
					v1alpha1.LabelForeignCluster: foreignCluster, v1alpha1.LabelRole: v1alpha1.RoleTwin,
				}))
			},
			volumes:       c.shadowVolumeClaims,
			getBinding:    c.getBinding,
			deleteBinding: c.deleteBinding,
			warn:          c.warn,
		},
		tenant,
		&lendingStep{identities: identities, requests: requests, offers: offers},
	}
}

// shadowVolumeClaims returns the first ShadowVolumeClaims of a remote namespace, and none
// while pods run there.
func (c *Config) shadowVolumeClaims(ctx context.Context, namespace string) ([]string, error) {
	federation := c.Federation.FederationV1alpha1()
	claims, err := federation.ShadowVolumeClaims(namespace).List(ctx, metav1.ListOptions{Limit: maxNamed})
	if err != nil || len(claims.Items) == 0 {
		return nil, err
	}
	shadowPods, err := federation.ShadowPods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil || len(shadowPods.Items) > 0 {
		return nil, err
	}
	pods, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil || len(pods.Items) > 0 {
		return nil, err
	}
	var names []string
	for i := range claims.Items {
		names = append(names, claims.Items[i].Name)
	}
	return names, nil
}

func (c *Config) warn(fc *v1alpha1.ForeignCluster, reason, message string) {
	c.Events.Event(fc, corev1.EventTypeWarning, reason, message)
}

// exactly deletes the object that was looked at, and not one that took its
// name.
func exactly(object metav1.Object) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(object.GetUID())}}
}
