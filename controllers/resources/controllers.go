// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/pods"
	"liqo.io/federation/controllers/queue"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/informers/externalversions"
	federationinformers "liqo.io/federation/generated/informers/externalversions/federation/v1alpha1"
)

// Config is what the controllers of this package work with. They share one,
// and with it what this cluster said it serves.
type Config struct {
	Kube       kubernetes.Interface
	Federation versioned.Interface
	// KubeInformers see nodes, and ManagedInformers what carries the label of
	// what is managed.
	KubeInformers, ManagedInformers kubeinformers.SharedInformerFactory
	FederationInformers             externalversions.SharedInformerFactory
	Clock                           clock.PassiveClock
	// Pods are those of the virtual nodes, and shared with whoever listens.
	Pods *pods.Watches
	// InstallationInformers see Namespace, where the product is installed.
	InstallationInformers externalversions.SharedInformerFactory
	Namespace             string
	// Networking says how the pods of two clusters reach each other, where a
	// ForeignCluster does not say.
	Networking v1alpha1.NetworkingMode
	// ClusterID and ClusterName are this cluster's.
	ClusterID, ClusterName string
	// Namespaces are those that the product is installed in.
	Namespaces []string
	// AutoAccept accepts offers without an administrator's decision.
	AutoAccept     bool
	VirtualKubelet VirtualKubelet

	// Kinds finds the kinds that this cluster serves.
	Kinds *kit.ServedKinds
}

// tunnels are what was agreed upon with other clusters.
func (c *Config) tunnels() federationinformers.TunnelEndpointInformer {
	return c.InstallationInformers.Federation().V1alpha1().TunnelEndpoints()
}

// settle is how long a change of nodes or pods may bring others with it,
// before it is looked at.
const settle = time.Second

// watched is an informer and where its objects lead to.
type watched struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandler
}

func watch(sources ...watched) error {
	for _, source := range sources {
		if _, err := source.informer.AddEventHandler(source.handler); err != nil {
			return fmt.Errorf("watch for the resources: %w", err)
		}
	}
	return nil
}

// NewConsumer makes the controller that asks providers and takes what they
// offer.
func NewConsumer(config *Config) (*queue.Controller[cache.ObjectName], error) {
	informers := config.FederationInformers.Federation().V1alpha1()
	federation := config.Federation.FederationV1alpha1()
	r := &consumer{
		clusterName:    config.ClusterName,
		autoAccept:     config.AutoAccept,
		foreignCluster: informers.ForeignClusters().Lister().Get,
		requests:       config.requests,
		offers:         config.offers,
		nodes: func(namespace string) ([]*v1alpha1.VirtualNode, error) {
			return informers.VirtualNodes().Lister().VirtualNodes(namespace).List(labels.Everything())
		},
		taken: config.taken,
		createRequest: func(ctx context.Context, request *v1alpha1.ResourceRequest) error {
			_, err := federation.ResourceRequests(request.Namespace).Create(ctx, request, metav1.CreateOptions{})
			return err
		},
		commitRequest: func(ctx context.Context, old, wanted *v1alpha1.ResourceRequest) (bool, error) {
			return commit.Commit(ctx, federation.ResourceRequests(old.Namespace), old, wanted)
		},
		commitOffer: func(ctx context.Context, old, wanted *v1alpha1.ResourceOffer) (bool, error) {
			return commit.Commit(ctx, federation.ResourceOffers(old.Namespace), old, wanted)
		},
		createNode: func(ctx context.Context, node *v1alpha1.VirtualNode) error {
			_, err := federation.VirtualNodes(node.Namespace).Create(ctx, node, metav1.CreateOptions{})
			return err
		},
		commitNode: func(ctx context.Context, old, wanted *v1alpha1.VirtualNode) (bool, error) {
			return commit.Commit(ctx, federation.VirtualNodes(old.Namespace), old, wanted)
		},
		removeNode: func(ctx context.Context, node *v1alpha1.VirtualNode) error {
			return federation.VirtualNodes(node.Namespace).Delete(ctx, node.Name, exactly(node))
		},
	}
	controller := queue.New("resource-consumer", 2, r.reconcile)
	return controller, watch(
		watched{informers.ForeignClusters().Informer(), controller.Handle(queue.ObjectKeys)},
		watched{informers.ResourceRequests().Informer(), controller.Handle(keysIn(naming.IsPeerNamespace))},
		watched{informers.ResourceOffers().Informer(), controller.Handle(keysIn(naming.IsPeerNamespace))},
		watched{informers.VirtualNodes().Informer(), controller.HandleUnless(kit.OnlyPodsCounted, keysIn(naming.IsPeerNamespace))},
	)
}

// taken tells whether a name for a virtual node in a peer namespace means
// another cluster, or is that of a virtual node in another namespace: Nodes, and
// the roles of virtual kubelets, are called after them.
func (c *Config) taken(namespace, name string) (bool, error) {
	informers := c.FederationInformers.Federation().V1alpha1()
	if _, err := informers.ForeignClusters().Lister().Get(name); err == nil || !apierrors.IsNotFound(err) {
		return err == nil, err
	}
	all, err := informers.VirtualNodes().Lister().List(labels.Everything())
	return slices.ContainsFunc(all, func(node *v1alpha1.VirtualNode) bool {
		return node.Namespace != namespace && (node.Name == name || node.Spec.NodeName == naming.NodeName(name))
	}), err
}

func (c *Config) requests(namespace string) ([]*v1alpha1.ResourceRequest, error) {
	return c.FederationInformers.Federation().V1alpha1().ResourceRequests().Lister().ResourceRequests(namespace).List(labels.Everything())
}

func (c *Config) offers(namespace string) ([]*v1alpha1.ResourceOffer, error) {
	return c.FederationInformers.Federation().V1alpha1().ResourceOffers().Lister().ResourceOffers(namespace).List(labels.Everything())
}

// keysIn leads from what is in namespaces of one kind to the ForeignCluster
// that the namespace is named after.
func keysIn(kind func(namespace string) bool) func(any) []cache.ObjectName {
	return func(object any) []cache.ObjectName {
		accessor, err := meta.Accessor(object)
		if err != nil || !kind(accessor.GetNamespace()) {
			return nil
		}
		return []cache.ObjectName{{Name: naming.ForeignClusterOf(accessor.GetNamespace())}}
	}
}

// exactly deletes the object that was looked at, and not one that took its
// name.
func exactly(object metav1.Object) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(object.GetUID())}}
}

// owned leads from what a virtual node controls to it.
func owned(object any) []cache.ObjectName {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil
	}
	if owner := metav1.GetControllerOf(accessor); owner != nil && owner.Kind == "VirtualNode" {
		return []cache.ObjectName{{Namespace: accessor.GetNamespace(), Name: owner.Name}}
	}
	return nil
}

var foreground = metav1.DeletePropagationForeground

func deleteForeground(deployment *appsv1.Deployment) metav1.DeleteOptions {
	options := exactly(deployment)
	options.PropagationPolicy = &foreground
	return options
}
