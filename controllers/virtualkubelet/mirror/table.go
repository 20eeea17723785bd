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

// reflectedKinds are those that are reflected.
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
		// After the Services, which it looks at.
		endpointSlices{},
	}
}

// copied is a kind whose copies are of the same kind.
type copied[T object] = kind[T, T]

// kind says how objects of one kind L are reflected, as copies C.
type kind[L, C object] struct {
	// name is that of its resource.
	name string
	// of is that resource, as policies name it.
	of       schema.GroupResource
	informer func(kubernetes.Interface, string, time.Duration, cache.Indexers, internalinterfaces.TweakListOptionsFunc) cache.SharedIndexInformer
	client   func(c kubernetes.Interface, namespace string) client[C]
	// leaving is a field selector of the local objects that may leave, and so of
	// the copies; empty when all may.
	leaving string
	// translate makes the wanted copy of a local object; nil if it stays home.
	translate func(local L, twin string, to translate.Destination) C
	// update makes an existing copy the wanted one.
	update func(existing, wanted C) translate.Change
	// remoteName is the name of the copy of a local object, and localName that
	// of the local object of a copy.
	remoteName, localName func(name string) string
}

func (k kind[L, C]) resource() string { return k.name }

func (k kind[L, C]) reflector(r *Controller, namespace, twin string) (reflector, error) {
	selector := labels.SelectorFromSet(r.To.ReflectedLabels()).String()
	o := &objects[L, C]{
		kind:        k,
		reflections: r,
		namespace:   namespace,
		twin:        twin,
		here: k.informer(
			r.Local,
			namespace,
			0,
			cache.Indexers{},
			func(options *metav1.ListOptions) { options.FieldSelector = k.leaving },
		),
		there: k.informer(r.Remote, twin, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
			options.LabelSelector, options.FieldSelector = selector, k.leaving
		}),
		copies: k.client(r.Remote, twin),
	}
	return o, o.watch()
}
