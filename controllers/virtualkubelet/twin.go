// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

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

// RemoteClients are the provider's APIs, as far as a peer may use them.
type RemoteClients struct {
	Core       kubernetes.Interface
	Federation versioned.Interface
	Dynamic    dynamic.Interface
	Metadata   metadata.Interface
	Metrics    metricsclient.PodMetricsesGetter
}

// twin mirrors what this node has in one twin namespace: shadow pods and the
// pods made of them. It also hears the warnings there, about whatever.
type twin struct {
	local, remote string
	pods, shadows cache.SharedIndexInformer
	warnings      cache.SharedIndexInformer
	// tokens watches the Secrets with the tokens of pods by their metadata alone: what
	// was sent there need not come back. It is nil where no pod gets any.
	tokens cache.SharedIndexInformer
	stop   context.CancelFunc
}

// twinEvents is told what happens in a twin namespace. The key is that of the
// local pod.
type twinEvents struct {
	shadow func(key cache.ObjectName)
	// pod has the pod as it is now; nil when it is gone.
	pod func(key cache.ObjectName, pod *translate.RemotePod)
	// warning has an event that is new, or has happened again. The key is that
	// of a local pod if the event is about a pod or a shadow pod.
	warning func(key cache.ObjectName, event *corev1.Event)
	// tokens is told of the Secret with the tokens of a pod.
	tokens func(key cache.ObjectName)
	// freed is told that a shadow pod takes no room any more, and tidied that one
	// is gone that took none.
	freed, tidied func()
	synced        func(namespace string)
}

// startTwin watches a twin namespace until it is stopped or the context ends.
func startTwin(ctx context.Context, clients RemoteClients, mapping v1alpha1.NamespaceMapping, to translate.Destination, events twinEvents) (*twin, error) {
	selector := labels.SelectorFromSet(to.Labels()).String()
	own := func(options *metav1.ListOptions) { options.LabelSelector = selector }
	kind := fields.OneTermEqualSelector("type", corev1.EventTypeWarning).String()
	warnings := func(options *metav1.ListOptions) { options.FieldSelector = kind }
	t := &twin{
		local:   mapping.Name,
		remote:  mapping.RemoteName,
		pods:    corev1informers.NewFilteredPodInformer(clients.Core, mapping.RemoteName, 0, cache.Indexers{}, own),
		shadows: federationinformers.NewFilteredShadowPodInformer(clients.Federation, mapping.RemoteName, 0, cache.Indexers{}, own),

		warnings: corev1informers.NewFilteredEventInformer(clients.Core, mapping.RemoteName, 0, cache.Indexers{}, warnings),
	}
	if to.ConsumerAPI.Host != "" {
		secrets, ofTokens := corev1.SchemeGroupVersion.WithResource("secrets"), fields.OneTermEqualSelector("type", v1alpha1.SecretTypeTokens).String()
		t.tokens = metadatainformer.NewFilteredMetadataInformer(clients.Metadata, secrets, mapping.RemoteName, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
			options.LabelSelector, options.FieldSelector = selector, ofTokens
		}).Informer()
		if err := t.observeTokens(events); err != nil {
			return nil, err
		}
	}
	if err := t.observe(events); err != nil {
		return nil, err
	}
	ctx, t.stop = context.WithCancel(ctx)
	go t.pods.RunWithContext(ctx)
	go t.shadows.RunWithContext(ctx)
	// Nothing waits for them.
	go t.warnings.RunWithContext(ctx)
	if t.tokens != nil {
		go t.tokens.RunWithContext(ctx)
	}
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), t.synced) {
			events.synced(t.local)
		}
	}()
	return t, nil
}

func (t *twin) observe(events twinEvents) error {
	if err := t.pods.SetTransform(trimRemotePod); err != nil {
		return err
	}
	if err := t.shadows.SetTransform(trimShadowPod); err != nil {
		return err
	}
	pod := func(obj any) {
		if p, ok := obj.(*translate.RemotePod); ok {
			events.pod(t.key(p.Name), p)
		}
	}
	_, err := t.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    pod,
		UpdateFunc: func(_, obj any) { pod(obj) },
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				events.pod(t.key(name.Name), nil)
			}
		},
	})
	if err != nil {
		return err
	}
	shadow := func(obj any) {
		if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			events.shadow(t.key(name.Name))
		}
	}
	_, err = t.shadows.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: shadow,
		UpdateFunc: func(old, obj any) {
			shadow(obj)
			if takesRoom(old) && !takesRoom(obj) || takesLess(old, obj) {
				events.freed()
			}
		},
		DeleteFunc: func(obj any) {
			shadow(obj)
			if takesRoom(obj) {
				events.freed()
			} else {
				events.tidied()
			}
		},
	})
	if err != nil {
		return err
	}
	return t.hear(events.warning)
}

// takesRoom tells whether a shadow pod, as it was seen last, has not ended.
func takesRoom(obj any) bool {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	shadow, ok := obj.(*v1alpha1.ShadowPod)
	return ok && shadow.Status.Phase == ""
}

// takesLess tells whether a shadow pod has given back what it was resized from.
func takesLess(old, obj any) bool {
	before, ok1 := old.(*v1alpha1.ShadowPod)
	shadow, ok2 := obj.(*v1alpha1.ShadowPod)
	return ok1 && ok2 && before.Status.AllocatedResources != nil && shadow.Status.AllocatedResources == nil
}

// hear passes warnings on. What was there before it listens is old news.
func (t *twin) hear(warning func(cache.ObjectName, *corev1.Event)) error {
	if err := t.warnings.SetTransform(trimEvent); err != nil {
		return err
	}
	_, err := t.warnings.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, before bool) {
			if event, ok := obj.(*corev1.Event); ok && !before {
				warning(t.key(event.InvolvedObject.Name), event)
			}
		},
		UpdateFunc: func(old, obj any) {
			before, ok1 := old.(*corev1.Event)
			event, ok2 := obj.(*corev1.Event)
			if ok1 && ok2 && before.ResourceVersion != event.ResourceVersion {
				warning(t.key(event.InvolvedObject.Name), event)
			}
		},
	})
	return err
}

// observeTokens looks again at a pod whose Secret is another one now.
func (t *twin) observeTokens(events twinEvents) error {
	if err := t.tokens.SetTransform(trimTokenSecret); err != nil {
		return err
	}
	handle := func(obj any) {
		if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = unknown.Obj
		}
		if secret, ok := obj.(*translate.RemoteTokens); ok {
			events.tokens(t.key(translate.TokenOwner(secret).Name))
		}
	}
	_, err := t.tokens.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    handle,
		UpdateFunc: func(_, obj any) { handle(obj) },
		DeleteFunc: handle,
	})
	return err
}

// key is that of the local pod of a name in the twin namespace.
func (t *twin) key(name string) cache.ObjectName { return cache.NewObjectName(t.local, name) }

func (t *twin) synced() bool {
	return t.pods.HasSynced() && t.shadows.HasSynced() && (t.tokens == nil || t.tokens.HasSynced())
}

// tokenSecret is what is kept of the Secret of that name.
func (t *twin) tokenSecret(name string) *translate.RemoteTokens {
	return lookup[*translate.RemoteTokens](t.tokens.GetStore(), t.remote, name)
}

func (t *twin) shadow(name string) *v1alpha1.ShadowPod {
	return lookup[*v1alpha1.ShadowPod](t.shadows.GetStore(), t.remote, name)
}

func (t *twin) pod(name string) *translate.RemotePod {
	return lookup[*translate.RemotePod](t.pods.GetStore(), t.remote, name)
}

// copyOf is the provider's pod that stands for a local one; nil if none does.
func (t *twin) copyOf(local *corev1.Pod) *translate.RemotePod {
	if there := t.pod(local.Name); there != nil && there.OriginUID == local.UID {
		return there
	}
	return nil
}

func lookup[T any](store cache.Store, namespace, name string) (result T) {
	// A store of an informer returns no errors.
	if obj, exists, _ := store.GetByKey(cache.NewObjectName(namespace, name).String()); exists {
		result, _ = obj.(T)
	}
	return result
}
