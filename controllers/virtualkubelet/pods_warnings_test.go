// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	"liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/test/fakes"
)

// warnedOf is an event about a pod of the provider.
func warnedOf(name string, uid types.UID, message string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "web-rome", Name: message},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: name, UID: uid},
		Type:           corev1.EventTypeWarning, Reason: "BackOff", Message: message,
	}
}

func TestWarningsAreToldToThePodTheyAreAbout(t *testing.T) {
	seen := func(uid, origin types.UID) *translate.RemotePod {
		return &translate.RemotePod{ObjectMeta: metav1.ObjectMeta{Namespace: "web-rome", Name: "web", UID: uid}, OriginUID: origin}
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
		// shadow is the origin of the shadow pod; empty if there is none.
		shadow types.UID
		event  *corev1.Event
		told   bool
	}{
		{"its copy", seen("copy", "local"), "local", warnedOf("web", "copy", "x"), true},
		{"its copy, which was not seen yet", nil, "local", warnedOf("web", "copy", "x"), true},
		{"an earlier copy", seen("copy", "local"), "local", warnedOf("web", "earlier", "x"), false},
		{"the copy of an earlier pod", seen("copy", "earlier"), "earlier", warnedOf("web", "copy", "x"), false},
		{"a pod that is nobody's", nil, "", warnedOf("web", "copy", "x"), false},
		{"its shadow pod", seen("copy", "local"), "local", ofShadow("shadow"), true},
		{"an earlier shadow pod", seen("copy", "local"), "local", ofShadow("earlier"), false},
		{"the shadow pod of an earlier pod", nil, "earlier", ofShadow("shadow"), false},
		{"something else of its name", nil, "local", ofService(), false},
		{"a pod of another name", nil, "local", warnedOf("other", "copy", "x"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			events := record.NewFakeRecorder(2)
			local := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web", UID: "local"}}
			pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
			watched := &twin{local: "web", remote: "web-rome", pods: emptyInformer(), shadows: emptyInformer()}
			add := func(store cache.Store, obj any) {
				if err := store.Add(obj); err != nil {
					t.Fatal(err)
				}
			}
			add(pods, local)
			if test.remote != nil {
				add(watched.pods.GetStore(), test.remote)
			}
			if test.shadow != "" {
				add(watched.shadows.GetStore(), &v1alpha1.ShadowPod{ObjectMeta: metav1.ObjectMeta{
					Namespace: "web-rome", Name: "web", UID: "shadow", Annotations: map[string]string{v1alpha1.AnnotationOriginUID: string(test.shadow)},
				}})
			}
			p := &Pods{
				provider: "milan", lister: corev1listers.NewPodLister(pods), recorder: events, warnings: flowcontrol.NewTokenBucketPassiveRateLimiter(1e-9, 1),
				twins: &twins{extents: map[string]extent{"web": {twin: watched}}},
			}
			p.warn(watched.key(test.event.InvolvedObject.Name), test.event)
			p.warn(watched.key(test.event.InvolvedObject.Name), test.event)
			if told := len(events.Events); told > 1 || (told > 0) != test.told {
				t.Errorf("told %d times, with leave for one", told)
			}
		})
	}
}

func emptyInformer() cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{}, nil, 0, cache.Indexers{})
}

// What happened before somebody listens is not told, and what happens again is.
func TestOldWarningsAreNotToldAgain(t *testing.T) {
	provider := fakes.Followed(kubefake.NewClientset(warnedOf("web", "copy", "before")))
	heard := make(chan string, 10)
	watched, err := startTwin(t.Context(), RemoteClients{Core: provider, Federation: fake.NewSimpleClientset()},
		v1alpha1.NamespaceMapping{Name: "web", RemoteName: "web-rome"}, translate.Destination{}, twinEvents{
			shadow: func(cache.ObjectName) {}, pod: func(cache.ObjectName, *translate.RemotePod) {}, synced: func(string) {},
			warning: func(key cache.ObjectName, event *corev1.Event) { heard <- key.String() + " " + event.Message },
		})
	if err != nil {
		t.Fatal(err)
	}
	if !cache.WaitForCacheSync(t.Context().Done(), watched.warnings.HasSynced) {
		t.Fatal("the warnings are not known")
	}
	events := provider.CoreV1().Events("web-rome")
	if _, err := events.Create(t.Context(), warnedOf("web", "copy", "new"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "web/web new" {
		t.Errorf("heard %q first", got)
	}
	again := warnedOf("web", "copy", "new")
	again.ResourceVersion, again.Message = "2", "again"
	if _, err := events.Update(t.Context(), again, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "web/web again" {
		t.Errorf("heard %q then", got)
	}
}

func TestWarningsAreToldToTheOriginalOfACopy(t *testing.T) {
	rootsThere := translate.ConfigMap(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kube-root-ca.crt"}}, "shop-rome", destination)
	rootsThere.UID = "roots"
	balanced := webService()
	there := translate.Service(balanced, "shop-rome", destination)
	there.UID = "copy"
	foreign := there.DeepCopy()
	foreign.Name, foreign.UID, foreign.Labels = "foreign", "foreign", nil
	left := there.DeepCopy()
	left.Name, left.UID = "left", "left"
	about := func(kind, namespace, name string, uid types.UID) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "event"}, InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name, UID: uid},
			Type: corev1.EventTypeWarning, Reason: "SyncLoadBalancerFailed", Message: "no address is left",
		}
	}
	normal := about("Service", "shop-rome", balanced.Name, "copy")
	normal.Type = corev1.EventTypeNormal
	foreignHere := balanced.DeepCopy()
	foreignHere.Name = "foreign"
	r := newReflecting(t, []runtime.Object{balanced, foreignHere, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kube-root-ca.crt"}}}, []runtime.Object{there, foreign, left, rootsThere})
	// What is left there stays for the time of the test.
	r.answers.Store(false)
	r.start(t)
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		for _, one := range r.namespaces["shop"].kinds {
			if !one.synced() {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		event *corev1.Event
		told  bool
	}{
		{"of a copy", about("Service", "shop-rome", balanced.Name, "copy"), true},
		{"of one that has another name there", about("ConfigMap", "shop-rome", rootsThere.Name, "roots"), true},
		{"of an earlier copy", about("Service", "shop-rome", balanced.Name, "earlier"), false},
		{"of what is no copy", about("Service", "shop-rome", "foreign", "foreign"), false},
		{"of a copy of nothing", about("Service", "shop-rome", "left", "left"), false},
		{"of a copy in another namespace", about("Service", "other", balanced.Name, "copy"), false},
		{"of a pod, which is told otherwise", about("Pod", "shop-rome", balanced.Name, "copy"), false},
		{"what goes well", normal, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r.warnings = flowcontrol.NewTokenBucketPassiveRateLimiter(1e-9, 1)
			r.warn("shop", test.event)
			r.warn("shop", test.event)
			told := len(r.events.Events)
			if told > 1 || (told > 0) != test.told {
				t.Errorf("told %d times, with leave for one", told)
			}
			for range told {
				if event := <-r.events.Events; event != "Warning SyncLoadBalancerFailed milan: no address is left" {
					t.Errorf("the event is %q", event)
				}
			}
		})
	}
}
