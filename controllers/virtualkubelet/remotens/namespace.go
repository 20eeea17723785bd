// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remotens

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	"liqo.io/federation/generated/clientset/versioned"
	federationinformers "liqo.io/federation/generated/informers/externalversions/federation/v1alpha1"
)

// Clients are the clients of a provider's APIs.
type Clients struct {
	Core       kubernetes.Interface
	Federation versioned.Interface
	Dynamic    dynamic.Interface
	Metadata   metadata.Interface
	Metrics    metricsclient.PodMetricsesGetter
}

// Namespace caches the objects of one virtual node in one remote namespace: shadow pods, remote pods and the Secrets
// with their tokens. It also watches the warnings in the remote namespace.
type Namespace struct {
	// Local is the name of the offloaded namespace, and Remote the name of its remote namespace.
	Local, Remote string
	// Pods and Shadows have the trimmed remote pods and shadow pods of this virtual node, not of others.
	Pods, Shadows cache.SharedIndexInformer
	// Warnings has the events of type Warning in the remote namespace.
	Warnings cache.SharedIndexInformer
	// Tokens has the metadata of the Secrets with tokens of pods. It is nil if remote pods receive no tokens.
	Tokens cache.SharedIndexInformer

	stop context.CancelFunc
}

// Events are the callbacks of a Namespace. A key is the namespace and name of a local pod.
type Events struct {
	// Shadow is called when a shadow pod was created, changed or deleted.
	Shadow func(key cache.ObjectName)
	// Pod is called when a remote pod was created, changed or deleted, with the current one or nil.
	Pod func(key cache.ObjectName, pod *translate.RemotePod)
	// Warning is called with an event that was created or occurred again. The key is only valid if the event is about a
	// pod or a shadow pod.
	Warning func(key cache.ObjectName, event *corev1.Event)
	// Tokens is called with the key of the local pod when the Secret with the tokens of its remote pod was created,
	// changed or deleted.
	Tokens func(key cache.ObjectName)
	// Freed is called when a shadow pod releases quota. Tidied is called when a shadow pod that had ended, and so used no
	// quota, was deleted.
	Freed, Tidied func()
	// Synced is called once with the name of the local namespace, when Namespace.Synced becomes true.
	Synced func(namespace string)
}

// Start watches a remote namespace until the Set stops it or the context ends. It fails if an event handler cannot be
// added.
func Start(
	ctx context.Context, clients Clients, mapping v1alpha1.NamespaceMapping, to translate.Destination, events Events,
) (*Namespace, error) {
	selector := labels.SelectorFromSet(to.Labels()).String()
	own := func(options *metav1.ListOptions) { options.LabelSelector = selector }
	kind := fields.OneTermEqualSelector("type", corev1.EventTypeWarning).String()
	warnings := func(options *metav1.ListOptions) { options.FieldSelector = kind }
	shadows := federationinformers.NewFilteredShadowPodInformer
	n := &Namespace{
		Local:   mapping.Name,
		Remote:  mapping.RemoteName,
		Pods:    corev1informers.NewFilteredPodInformer(clients.Core, mapping.RemoteName, 0, cache.Indexers{}, own),
		Shadows: shadows(clients.Federation, mapping.RemoteName, 0, cache.Indexers{}, own),
		Warnings: corev1informers.NewFilteredEventInformer(
			clients.Core, mapping.RemoteName, 0, cache.Indexers{}, warnings,
		),
	}
	if to.ConsumerAPI.Host != "" {
		ofTokens := fields.OneTermEqualSelector("type", v1alpha1.SecretTypeTokens).String()
		n.Tokens = metadatainformer.NewFilteredMetadataInformer(
			clients.Metadata, corev1.SchemeGroupVersion.WithResource("secrets"), mapping.RemoteName, 0,
			cache.Indexers{},
			func(options *metav1.ListOptions) {
				options.LabelSelector, options.FieldSelector = selector, ofTokens
			}).Informer()
		if err := n.observeTokens(events); err != nil {
			return nil, err
		}
	}
	if err := n.observe(events); err != nil {
		return nil, err
	}
	ctx, n.stop = context.WithCancel(ctx)
	go n.Pods.RunWithContext(ctx)
	go n.Shadows.RunWithContext(ctx)
	// Warnings is not part of Synced: no decision depends on it.
	go n.Warnings.RunWithContext(ctx)
	if n.Tokens != nil {
		go n.Tokens.RunWithContext(ctx)
	}
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), n.Synced) {
			events.Synced(n.Local)
		}
	}()
	return n, nil
}

func (n *Namespace) observe(events Events) error {
	if err := n.Pods.SetTransform(TrimRemotePod); err != nil {
		return err
	}
	if err := n.Shadows.SetTransform(TrimShadowPod); err != nil {
		return err
	}
	pod := func(obj any) {
		if p, ok := obj.(*translate.RemotePod); ok {
			events.Pod(n.Key(p.Name), p)
		}
	}
	_, err := n.Pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    pod,
		UpdateFunc: func(_, obj any) { pod(obj) },
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				events.Pod(n.Key(name.Name), nil)
			}
		},
	})
	if err != nil {
		return err
	}
	shadow := func(obj any) {
		if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			events.Shadow(n.Key(name.Name))
		}
	}
	_, err = n.Shadows.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: shadow,
		UpdateFunc: func(old, obj any) {
			shadow(obj)
			if usesQuota(old) && !usesQuota(obj) || usesLess(old, obj) {
				events.Freed()
			}
		},
		DeleteFunc: func(obj any) {
			shadow(obj)
			if usesQuota(obj) {
				events.Freed()
			} else {
				events.Tidied()
			}
		},
	})
	if err != nil {
		return err
	}
	return n.observeWarnings(events.Warning)
}

// usesQuota reports whether a shadow pod uses quota, which it does until it has ended.
func usesQuota(obj any) bool {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	shadow, ok := obj.(*v1alpha1.ShadowPod)
	return ok && shadow.Status.Phase == ""
}

// usesLess reports whether an update of a shadow pod released quota because a resize to smaller amounts is complete.
func usesLess(old, obj any) bool {
	before, ok1 := old.(*v1alpha1.ShadowPod)
	shadow, ok2 := obj.(*v1alpha1.ShadowPod)
	return ok1 && ok2 && before.Status.AllocatedResources != nil && shadow.Status.AllocatedResources == nil
}

// observeWarnings calls warning with the events of type Warning that occur after the initial list, and with the key
// that Events.Warning describes.
func (n *Namespace) observeWarnings(warning func(cache.ObjectName, *corev1.Event)) error {
	if err := n.Warnings.SetTransform(trimEvent); err != nil {
		return err
	}
	_, err := n.Warnings.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, before bool) {
			if event, ok := obj.(*corev1.Event); ok && !before {
				warning(n.Key(event.InvolvedObject.Name), event)
			}
		},
		UpdateFunc: func(old, obj any) {
			before, ok1 := old.(*corev1.Event)
			event, ok2 := obj.(*corev1.Event)
			if ok1 && ok2 && before.ResourceVersion != event.ResourceVersion {
				warning(n.Key(event.InvolvedObject.Name), event)
			}
		},
	})
	return err
}

func (n *Namespace) observeTokens(events Events) error {
	if err := n.Tokens.SetTransform(TrimTokenSecret); err != nil {
		return err
	}
	_, err := OnChange(n.Tokens, func(obj any) {
		if secret, ok := obj.(*translate.RemoteTokens); ok {
			events.Tokens(n.Key(translate.TokenOwner(secret).Name))
		}
	})
	return err
}

// Key returns the key of the local pod whose shadow pod and remote pod have this name.
func (n *Namespace) Key(name string) cache.ObjectName { return cache.NewObjectName(n.Local, name) }

// Synced reports whether the caches of pods, shadow pods and tokens are filled.
func (n *Namespace) Synced() bool {
	return n.Pods.HasSynced() && n.Shadows.HasSynced() && (n.Tokens == nil || n.Tokens.HasSynced())
}

// TokenSecret returns the cached metadata of a Secret with tokens; nil if the cache does not have it.
func (n *Namespace) TokenSecret(name string) *translate.RemoteTokens {
	return Lookup[*translate.RemoteTokens](n.Tokens.GetStore(), n.Remote, name)
}

// Shadow returns the cached shadow pod with this name; nil if the cache does not have it.
func (n *Namespace) Shadow(name string) *v1alpha1.ShadowPod {
	return Lookup[*v1alpha1.ShadowPod](n.Shadows.GetStore(), n.Remote, name)
}

// Pod returns the cached remote pod with this name; nil if the cache does not have it.
func (n *Namespace) Pod(name string) *translate.RemotePod {
	return Lookup[*translate.RemotePod](n.Pods.GetStore(), n.Remote, name)
}

// RemotePod returns the cached remote pod of a local pod; nil if the cache has none, or only one of an earlier local
// pod of this name.
func (n *Namespace) RemotePod(local *corev1.Pod) *translate.RemotePod {
	if remote := n.Pod(local.Name); remote != nil && remote.OriginUID == local.UID {
		return remote
	}
	return nil
}

// Lookup returns an object from the store of an informer; the zero value if the store does not have it.
func Lookup[T any](store cache.Store, namespace, name string) (result T) {
	// The store of an informer returns no errors.
	if obj, exists, _ := store.GetByKey(cache.NewObjectName(namespace, name).String()); exists {
		result, _ = obj.(T)
	}
	return result
}
