// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// warnedOf returns a warning about a remote pod.
func warnedOf(name string, uid types.UID, message string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "web-rome", Name: message},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: name, UID: uid},
		Type:           corev1.EventTypeWarning, Reason: "BackOff", Message: message,
	}
}

func TestWarningsAreRecordedForThePodTheyAreAbout(t *testing.T) {
	seen := func(uid, origin types.UID) *translate.RemotePod {
		return &translate.RemotePod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "web-rome", Name: "web", UID: uid},
			OriginUID:  origin,
		}
	}
	ofShadow := func(uid types.UID) *corev1.Event {
		event := warnedOf("web", uid, "x")
		event.InvolvedObject.Kind = "ShadowPod"
		return event
	}
	ofService := func() *corev1.Event {
		event := warnedOf("web", "service", "x")
		event.InvolvedObject.Kind = "Service"
		return event
	}
	for _, test := range []struct {
		name   string
		remote *translate.RemotePod
		// shadow is the UID of the shadow pod's local pod; empty if there is no shadow pod.
		shadow   types.UID
		event    *corev1.Event
		reported bool
	}{
		{"remote pod", seen("copy", "local"), "local", warnedOf("web", "copy", "x"), true},
		{"remote pod that is not cached", nil, "local", warnedOf("web", "copy", "x"), true},
		{"an earlier remote pod", seen("copy", "local"), "local", warnedOf("web", "earlier", "x"), false},
		{"the remote pod of an earlier pod", seen("copy", "earlier"), "earlier", warnedOf("web", "copy", "x"), false},
		{"remote pod without a shadow pod", nil, "", warnedOf("web", "copy", "x"), false},
		{"shadow pod", seen("copy", "local"), "local", ofShadow("shadow"), true},
		{"an earlier shadow pod", seen("copy", "local"), "local", ofShadow("earlier"), false},
		{"the shadow pod of an earlier pod", nil, "earlier", ofShadow("shadow"), false},
		{"a Service of the same name", nil, "local", ofService(), false},
		{"a remote pod of another name", nil, "local", warnedOf("other", "copy", "x"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			events := record.NewFakeRecorder(2)
			local := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web", UID: "local"}}
			watched := &remotens.Namespace{
				Local: "web", Remote: "web-rome", Pods: emptyInformer(), Shadows: emptyInformer(),
			}
			add := func(store cache.Store, obj any) {
				if err := store.Add(obj); err != nil {
					t.Fatal(err)
				}
			}
			if test.remote != nil {
				add(watched.Pods.GetStore(), test.remote)
			}
			if test.shadow != "" {
				add(watched.Shadows.GetStore(), &v1alpha1.ShadowPod{ObjectMeta: metav1.ObjectMeta{
					Namespace:   "web-rome",
					Name:        "web",
					UID:         "shadow",
					Annotations: map[string]string{v1alpha1.AnnotationOriginUID: string(test.shadow)},
				}})
			}
			c := &Controller{Config: Config{
				Provider:   "milan",
				Lister:     corev1listers.NewPodLister(kittest.Indexer(local)),
				Recorder:   events,
				Warnings:   flowcontrol.NewTokenBucketPassiveRateLimiter(1e-9, 1),
				Namespaces: fixed{"web": {Namespace: watched}},
			}}
			c.warn(watched.Key(test.event.InvolvedObject.Name), test.event)
			c.warn(watched.Key(test.event.InvolvedObject.Name), test.event)
			if reported := len(events.Events); reported > 1 || (reported > 0) != test.reported {
				t.Errorf("%d events, want one", reported)
			}
		})
	}
}

func emptyInformer() cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{}, nil, 0, cache.Indexers{})
}
