// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/pods"
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
	Namespaces     []string
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
