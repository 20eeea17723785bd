// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"time"

	corev1 "k8s.io/api/core/v1"
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

// reflectedKinds returns the built-in kinds.
func reflectedKinds() []reflectable {
	return []reflectable{
		copied[*corev1.ConfigMap]{
			name:     "configmaps",
			of:       corev1.Resource("configmaps"),
			informer: corev1informers.NewFilteredConfigMapInformer,
			client: func(c kubernetes.Interface, namespace string) client[*corev1.ConfigMap] {
				return c.CoreV1().ConfigMaps(namespace)
			},
			translate:  translate.ConfigMap,
			update:     translate.UpdateConfigMap,
			remoteName: translate.RemoteConfigMap,
			localName:  translate.LocalConfigMap,
		},
		copied[*corev1.Secret]{
			name:     "secrets",
			of:       corev1.Resource("secrets"),
			informer: corev1informers.NewFilteredSecretInformer,
			client: func(c kubernetes.Interface, namespace string) client[*corev1.Secret] {
				return c.CoreV1().Secrets(namespace)
			},
			leaving:    translate.ReflectableSecrets().String(),
			translate:  translate.Secret,
			update:     translate.UpdateSecret,
			remoteName: same,
			localName:  same,
		},
		services{copied[*corev1.Service]{
			name:     servicesName,
			of:       corev1.Resource("services"),
			informer: corev1informers.NewFilteredServiceInformer,
			client: func(c kubernetes.Interface, namespace string) client[*corev1.Service] {
				return c.CoreV1().Services(namespace)
			},
			translate:  translate.Service,
			update:     translate.UpdateService,
			remoteName: same,
			localName:  same,
		}},
		copied[*networkingv1.Ingress]{
			name:     "ingresses",
			of:       networkingv1.Resource("ingresses"),
			informer: networkingv1informers.NewFilteredIngressInformer,
			client: func(c kubernetes.Interface, namespace string) client[*networkingv1.Ingress] {
				return c.NetworkingV1().Ingresses(namespace)
			},
			translate:  translate.Ingress,
			update:     translate.UpdateIngress,
			remoteName: same,
			localName:  same,
		},
		// This comes after the Services, whose reflector it uses.
		endpointSlices{},
	}
}

// copied is a kind whose reflected objects are of the same kind.
type copied[T object] = kind[T, T]

// kind describes how objects L of a kind are reflected as objects C.
type kind[L, C object] struct {
	// name is that of its resource.
	name string
	// of is that resource, as policies name it.
	of       schema.GroupResource
	informer func(kubernetes.Interface, string, time.Duration, cache.Indexers, internalinterfaces.TweakListOptionsFunc) cache.SharedIndexInformer
	client   func(c kubernetes.Interface, namespace string) client[C]
	// leaving selects the local objects that may be reflected, and so the reflected ones; empty
	// selects all.
	leaving string
	// translate returns the wanted reflected object; nil if the local one is not reflected.
	translate func(local L, remote string, to translate.Destination) C
	// update changes an existing reflected object into the wanted one.
	update func(existing, wanted C) translate.Change
	// remoteName returns the name of the reflected object of a local one, and localName the
	// reverse.
	remoteName, localName func(name string) string
}

func (k kind[L, C]) resource() string { return k.name }

func (k kind[L, C]) reflector(r *Controller, namespace, remote string) (reflector, error) {
	selector := labels.SelectorFromSet(r.To.ReflectedLabels()).String()
	o := &objects[L, C]{
		kind:        k,
		reflections: r,
		namespace:   namespace,
		remote:      remote,
		here: k.informer(
			r.Local,
			namespace,
			0,
			cache.Indexers{},
			func(options *metav1.ListOptions) { options.FieldSelector = k.leaving },
		),
		there: k.informer(r.Remote, remote, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
			options.LabelSelector, options.FieldSelector = selector, k.leaving
		}),
		copies: k.client(r.Remote, remote),
	}
	return o, o.watch()
}
