// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remotens

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	"liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/test/fakes"
)

func warnedOf(name string, uid types.UID, message string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "web-rome", Name: message},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: name, UID: uid},
		Type:           corev1.EventTypeWarning, Reason: "BackOff", Message: message,
	}
}

// The default of the maximum number of watches of a peer depends on these resources.
func TestResourcesWatchedInARemoteNamespace(t *testing.T) {
	core, federation := fakes.Followed(kubefake.NewClientset()), fakes.Followed(fake.NewSimpleClientset())
	_, err := Start(t.Context(), Clients{Core: core, Federation: federation},
		v1alpha1.NamespaceMapping{Name: "web", RemoteName: "web-rome"}, translate.Destination{}, Events{
			Shadow: func(cache.ObjectName) {}, Pod: func(cache.ObjectName, *translate.RemotePod) {},
			Warning: func(cache.ObjectName, *corev1.Event) {}, Synced: func(string) {},
		})
	if err != nil {
		t.Fatal(err)
	}
	err = kittest.Poll(t, func(context.Context) (bool, error) {
		return slices.Equal(fakes.Watched(federation.Actions()), []string{"web-rome/shadowpods"}) &&
			slices.Equal(fakes.Watched(core.Actions()), []string{"web-rome/events", "web-rome/pods"}), nil
	})
	if err != nil {
		t.Errorf("%v: watched: %v, %v", err, fakes.Watched(federation.Actions()), fakes.Watched(core.Actions()))
	}
}

// Events from before the watch are ignored, and repeated events are reported.
func TestOnlyNewWarningsArePassedOn(t *testing.T) {
	provider := fakes.Followed(kubefake.NewClientset(warnedOf("web", "copy", "before")))
	received := make(chan string, 10)
	watched, err := Start(t.Context(), Clients{Core: provider, Federation: fake.NewSimpleClientset()},
		v1alpha1.NamespaceMapping{Name: "web", RemoteName: "web-rome"}, translate.Destination{}, Events{
			Shadow: func(cache.ObjectName) {}, Pod: func(cache.ObjectName, *translate.RemotePod) {},
			Synced:  func(string) {},
			Warning: func(key cache.ObjectName, event *corev1.Event) { received <- key.String() + " " + event.Message },
		})
	if err != nil {
		t.Fatal(err)
	}
	if !cache.WaitForCacheSync(t.Context().Done(), watched.Warnings.HasSynced) {
		t.Fatal("the warnings are not cached")
	}
	events := provider.CoreV1().Events("web-rome")
	if _, err := events.Create(t.Context(), warnedOf("web", "copy", "new"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := <-received; got != "web/web new" {
		t.Errorf("received %q first", got)
	}
	again := warnedOf("web", "copy", "new")
	again.ResourceVersion, again.Message = "2", "again"
	if _, err := events.Update(t.Context(), again, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := <-received; got != "web/web again" {
		t.Errorf("received %q then", got)
	}
}
