// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/queue"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/informers/externalversions"
	listers "liqo.io/federation/generated/listers/federation/v1alpha1"
)

const (
	// tenantBinding is the RoleBinding in a tenant namespace that names the
	// consumer's user, twinBinding the one in each of its twins. managerBinding
	// gives the controllers their own rights there. The cluster roles have the
	// same names.
	tenantBinding  = "federation-tenant"
	twinBinding    = "federation-twin"
	managerBinding = "federation-twin-manager"
)

// Installation is what the provider's controllers know of their own.
type Installation struct {
	// ClusterID is the id of this cluster.
	ClusterID string
	// Namespaces are those of the product, which are never lent.
	Namespaces []string
	// Account is the service account that the controllers run as, in
	// AccountNamespace: in twins it is given the right to make pods.
	Account, AccountNamespace string
}

// Provider makes the twin namespaces that the consumers of this cluster ask
// for.
type Provider struct {
	kube       kubernetes.Interface
	federation versioned.Interface
	own        Installation
	events     record.EventRecorder
	clock      clock.PassiveClock

	namespaces corelisters.NamespaceLister
	clusters   listers.ForeignClusterLister
	maps       listers.NamespaceMapLister
	offers     listers.ResourceOfferLister
	shadows    listers.ShadowPodLister
	// factories cache the bindings and quotas of those names alone; they are
	// started with the controller.
	factories []kubeinformers.SharedInformerFactory
	bindings  map[string]rbaclisters.RoleBindingLister
	quotas    corelisters.ResourceQuotaLister

	// queue holds foreign clusters.
	queue *queue.Controller[string]
}

// NewProvider makes the controller and asks the informers for what it reads.
func NewProvider(kube kubernetes.Interface, federation versioned.Interface,
	kubeInformers kubeinformers.SharedInformerFactory, federationInformers externalversions.SharedInformerFactory,
	events record.EventRecorder, own Installation,
) (*Provider, error) {
	core, group := kubeInformers.Core().V1(), federationInformers.Federation().V1alpha1()
	p := &Provider{
		kube:       kube,
		federation: federation,
		own:        own,
		events:     events,
		clock:      clock.RealClock{},
		namespaces: core.Namespaces().Lister(),
		clusters:   group.ForeignClusters().Lister(),
		maps:       group.NamespaceMaps().Lister(),
		offers:     group.ResourceOffers().Lister(),
		shadows:    group.ShadowPods().Lister(),
		bindings:   map[string]rbaclisters.RoleBindingLister{},
	}
	p.queue = queue.New("twin-namespace", 2, p.reconcile)

	for _, name := range []string{tenantBinding, twinBinding, managerBinding} {
		factory := named(kube, name)
		bindings := factory.Rbac().V1().RoleBindings()
		if _, err := bindings.Informer().AddEventHandler(onChange(always, p.bindingChanged)); err != nil {
			return nil, err
		}
		p.factories = append(p.factories, factory)
		p.bindings[name] = bindings.Lister()
	}
	factory := named(kube, quotaName)
	quotas := factory.Core().V1().ResourceQuotas()
	if _, err := quotas.Informer().AddEventHandler(onChange(quotaDiffers, p.quotaChanged)); err != nil {
		return nil, err
	}
	p.factories = append(p.factories, factory)
	p.quotas = quotas.Lister()
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		group.NamespaceMaps().Informer(): onChange(always, func(_, namespaceMap *v1alpha1.NamespaceMap) {
			if naming.IsTenantNamespace(namespaceMap.Namespace) {
				p.queue.Add(naming.ForeignClusterOf(namespaceMap.Namespace))
			}
		}),
		group.ResourceOffers().Informer(): onChange(specDiffers, func(_, offer *v1alpha1.ResourceOffer) {
			if naming.IsTenantNamespace(offer.Namespace) {
				p.queue.Add(naming.ForeignClusterOf(offer.Namespace))
			}
		}),
		group.ForeignClusters().Informer(): onChange(specDiffers, func(_, cluster *v1alpha1.ForeignCluster) {
			p.queue.Add(cluster.Name)
		}),
		core.Namespaces().Informer(): onChange(namespaceDiffers, p.namespaceChanged),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// named makes informers of objects of one name.
func named(kube kubernetes.Interface, name string) kubeinformers.SharedInformerFactory {
	return kubeinformers.NewSharedInformerFactoryWithOptions(kube, 0,
		kubeinformers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}))
}

// Run works until the context ends. The shared informers are synced before.
func (p *Provider) Run(ctx context.Context) {
	for _, factory := range p.factories {
		factory.StartWithContext(ctx)
		defer factory.Shutdown()
	}
	for _, factory := range p.factories {
		for _, synced := range factory.WaitForCacheSync(ctx.Done()) {
			if !synced {
				return
			}
		}
	}
	p.queue.Run(ctx)
}

func namespaceDiffers(old, current *corev1.Namespace) bool {
	return !maps.Equal(old.Labels, current.Labels) || !maps.Equal(old.Annotations, current.Annotations) ||
		old.DeletionTimestamp.IsZero() != current.DeletionTimestamp.IsZero()
}

// namespaceChanged looks again at the consumer that a namespace belongs to.
// Any other namespace may have stood in the way of a twin.
func (p *Provider) namespaceChanged(_, namespace *corev1.Namespace) {
	switch namespace.Labels[v1alpha1.LabelRole] {
	case v1alpha1.RoleTenant, v1alpha1.RoleTwin:
		p.queue.Add(namespace.Labels[v1alpha1.LabelForeignCluster])
	default:
		// Listing a cache fails only with a selector that cannot be read.
		namespaceMaps, _ := p.maps.List(everything)
		for _, namespaceMap := range namespaceMaps {
			if naming.IsTenantNamespace(namespaceMap.Namespace) && slices.ContainsFunc(namespaceMap.Spec.Namespaces, func(entry v1alpha1.NamespaceMapping) bool { return entry.RemoteName == namespace.Name }) {
				p.queue.Add(naming.ForeignClusterOf(namespaceMap.Namespace))
			}
		}
	}
}

func (p *Provider) bindingChanged(_, binding *rbacv1.RoleBinding) { p.insideChanged(binding.Namespace) }

func (p *Provider) quotaChanged(_, quota *corev1.ResourceQuota) { p.insideChanged(quota.Namespace) }

// quotaDiffers tells whether a quota has other bounds, or came into force.
// What is used of it changes with each pod.
func quotaDiffers(old, current *corev1.ResourceQuota) bool {
	return !equality.Semantic.DeepEqual(old.Spec, current.Spec) || len(old.Status.Hard) == 0 != (len(current.Status.Hard) == 0)
}

// insideChanged looks again at the consumer in whose namespace something
// changed.
func (p *Provider) insideChanged(name string) {
	namespace, err := p.namespaces.Get(name)
	if err == nil && namespace.Labels[v1alpha1.LabelForeignCluster] != "" {
		p.queue.Add(namespace.Labels[v1alpha1.LabelForeignCluster])
	}
}
