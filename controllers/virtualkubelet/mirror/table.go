// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/informers/internalinterfaces"
	networkingv1informers "k8s.io/client-go/informers/networking/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// Names of the built-in kinds that other code refers to.
const (
	servicesName       = "services"
	endpointSlicesName = "endpointslices"
)

// kind describes how the objects of a resource are reflected.
type kind struct {
	// name identifies the kind in keys and metrics, and resource in reflection policies.
	name     string
	resource schema.GroupResource
	// version is the API version of a configured kind; empty for a built-in one.
	version string
	// reflector creates the reflector of this kind in one namespace.
	reflector func(k kind, c *Controller, namespace, remote string) (reflector, error)
}

// builtin returns the kinds that are always reflected. Sync starts their reflectors in this order: the reflector of
// EndpointSlices needs the reflector of Services.
func builtin() []kind {
	return []kind{
		{name: "configmaps", resource: corev1.Resource("configmaps"), reflector: reflect(
			corev1informers.NewFilteredConfigMapInformer,
			func(c kubernetes.Interface, namespace string) client[*corev1.ConfigMap] {
				return c.CoreV1().ConfigMaps(namespace)
			},
			translation[*corev1.ConfigMap, *corev1.ConfigMap]{
				translate: translate.ConfigMap, update: translate.UpdateConfigMap,
				remoteName: translate.RemoteConfigMap, localName: translate.LocalConfigMap,
			},
		)},
		{name: "secrets", resource: corev1.Resource("secrets"), reflector: reflect(
			corev1informers.NewFilteredSecretInformer,
			func(c kubernetes.Interface, namespace string) client[*corev1.Secret] {
				return c.CoreV1().Secrets(namespace)
			},
			translation[*corev1.Secret, *corev1.Secret]{
				selected:  translate.ReflectableSecrets().String(),
				translate: translate.Secret, update: translate.UpdateSecret,
				remoteName: same, localName: same,
			},
		)},
		{name: servicesName, resource: corev1.Resource("services"), reflector: newServices},
		{name: "ingresses", resource: networkingv1.Resource("ingresses"), reflector: reflect(
			networkingv1informers.NewFilteredIngressInformer,
			func(c kubernetes.Interface, namespace string) client[*networkingv1.Ingress] {
				return c.NetworkingV1().Ingresses(namespace)
			},
			translation[*networkingv1.Ingress, *networkingv1.Ingress]{
				translate: translate.Ingress, update: translate.UpdateIngress,
				remoteName: same, localName: same,
			},
		)},
		{name: endpointSlicesName, resource: discoveryv1.Resource("endpointslices"), reflector: newEndpointSlices},
	}
}

// translation describes how a local object, of type L, is reflected as a remote object, of type C.
type translation[L, C object] struct {
	// selected is a field selector for local and reflected objects to watch; empty means all.
	selected string
	// translate returns the desired reflected object, or nil if the local object is not reflected.
	translate func(local L, remote string, to translate.Destination) C
	// update changes an existing reflected object into the desired one, and returns the request that is necessary.
	update func(existing, desired C) translate.Change
	// remoteName returns the name of the reflected object of a local one; localName is its inverse.
	remoteName, localName func(name string) string
}

// newInformer is the type of the constructors of typed informers in client-go.
type newInformer func(
	kubernetes.Interface, string, time.Duration, cache.Indexers, internalinterfaces.TweakListOptionsFunc,
) cache.SharedIndexInformer

// reflect returns the constructor of reflectors for a kind whose reflected objects have the type of the local ones.
func reflect[T object](
	informer newInformer, newClient func(kubernetes.Interface, string) client[T], as translation[T, T],
) func(kind, *Controller, string, string) (reflector, error) {
	return func(k kind, c *Controller, namespace, remote string) (reflector, error) {
		o := newObjects(k, c, namespace, remote, informer, newClient, as)
		return o, o.watch()
	}
}

func newObjects[T object](
	k kind, c *Controller, namespace, remote string,
	informer newInformer, newClient func(kubernetes.Interface, string) client[T], as translation[T, T],
) *objects[T, T] {
	selector := labels.SelectorFromSet(c.To.ReflectedLabels()).String()
	return &objects[T, T]{
		kind: k, translation: as, controller: c, namespace: namespace, remote: remote,
		local: informer(c.Local, namespace, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
			options.FieldSelector = as.selected
		}),
		reflected: informer(c.Remote, remote, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
			options.LabelSelector, options.FieldSelector = selector, as.selected
		}),
		client: newClient(c.Remote, remote),
	}
}
