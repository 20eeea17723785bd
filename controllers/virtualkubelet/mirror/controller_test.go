// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	fedfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/test/fakes"
)

var destination = translate.Destination{OriginID: "rome-id", DestinationID: "milan-id", NodeName: "liqo-milan"}

// reflecting is a controller of the consumer rome that reflects namespace shop to namespace shop-rome of milan.
type reflecting struct {
	*Controller
	rome, milan *kubefake.Clientset
	federation  *fedfake.Clientset
	events      *record.FakeRecorder
	answers     atomic.Bool
	node        atomic.Pointer[v1alpha1.VirtualNode]
}

func newReflecting(t *testing.T, local, remote []runtime.Object) *reflecting {
	t.Helper()
	own, err := NewMetrics(func(metrics.Registerable) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	r := &reflecting{
		rome:       fakes.Followed(kubefake.NewClientset(local...)),
		milan:      fakes.Followed(kubefake.NewClientset(remote...)),
		federation: fakes.Followed(fedfake.NewSimpleClientset()),
		events:     record.NewFakeRecorder(10),
	}
	r.answers.Store(true)
	r.Controller = New(Config{
		Provider:         "milan",
		To:               destination,
		Local:            r.rome,
		Remote:           r.milan,
		Recorder:         r.events,
		Metrics:          own,
		RemoteFederation: r.federation,
		View: translate.View{
			RunsOnProvider: func(node string) bool { return node == "liqo-milan" }, Address: translate.SameAddress,
		},
		Reachable: r.answers.Load, Clock: clocktesting.NewFakePassiveClock(time.Now()),
		Namespaces: fixed{
			"shop": {Offloaded: true, Ready: true, Namespace: &remotens.Namespace{Local: "shop", Remote: "shop-rome"}},
		},
	})
	r.VirtualNode = func() *v1alpha1.VirtualNode { return r.node.Load() }
	r.node.Store(&v1alpha1.VirtualNode{})
	return r
}

// start runs the controller until the test ends.
func (r *reflecting) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	if err := r.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(stopped)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-stopped
	})
}

// writes returns the verbs and resources of the writes to milan.
func (r *reflecting) writes() []string {
	var all []string
	for _, action := range r.milan.Actions() {
		if verb := action.GetVerb(); verb != "get" && verb != "list" && verb != "watch" {
			all = append(all, verb+" "+action.GetResource().Resource)
		}
	}
	return all
}

func (r *reflecting) awaitData(t *testing.T, name string, want map[string]string) {
	t.Helper()
	var got map[string]string
	var err error
	waitErr := kittest.Poll(t, func(ctx context.Context) (bool, error) {
		var reflected *corev1.ConfigMap
		if reflected, err = r.milan.CoreV1().ConfigMaps("shop-rome").Get(
			ctx, name, metav1.GetOptions{},
		); err == nil {
			got = reflected.Data
		}
		if want == nil {
			return apierrors.IsNotFound(err), nil
		}
		return err == nil && cmp.Equal(want, got), nil
	})
	if waitErr != nil {
		t.Fatalf("%s has %v on milan, %v, want %v", name, got, err, want)
	}
}

func settings(value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"},
		Data:       map[string]string{"a": value},
	}
}

func copyOf(local *corev1.ConfigMap) *corev1.ConfigMap {
	reflected := translate.ConfigMap(local, "shop-rome", destination)
	reflected.UID, reflected.ResourceVersion = "there", "7"
	return reflected
}

func immutable(local *corev1.ConfigMap) *corev1.ConfigMap {
	local.Immutable = ptr.To(true)
	return local
}

func leaving(reflected *corev1.ConfigMap) *corev1.ConfigMap {
	reflected.DeletionTimestamp, reflected.Finalizers = ptr.To(metav1.Now()), []string{"example.com/hold"}
	return reflected
}

func TestReflectedObjectsFollowTheOfferedClasses(t *testing.T) {
	web := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	r := newReflecting(t, []runtime.Object{web}, nil)
	r.start(t)
	for _, classes := range [][]string{nil, {"offered"}, {"other", "offered"}} {
		r.node.Store(&v1alpha1.VirtualNode{Status: v1alpha1.VirtualNodeStatus{IngressClasses: classes}})
		if err := r.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := append(classes, "")[0]
		got := "nothing"
		if err := kittest.Poll(t, func(ctx context.Context) (bool, error) {
			reflected, err := r.milan.NetworkingV1().Ingresses("shop-rome").Get(ctx, "web", metav1.GetOptions{})
			if err == nil {
				got = ptr.Deref(reflected.Spec.IngressClassName, "")
			}
			if apierrors.IsNotFound(err) {
				err = nil
			}
			return got == want, err
		}); err != nil {
			t.Fatalf("class %q, want %q: %v", got, want, err)
		}
	}
}

// This test calls reconcile once per case, with filled caches.
func TestReconcileUpdatesTheReflectedObject(t *testing.T) {
	foreign := settings("foreign")
	foreign.Namespace = "shop-rome"
	terminating := apierrors.NewForbidden(
		schema.GroupResource{Resource: "configmaps"},
		"settings",
		errors.New("the namespace is being terminated"),
	)
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, test := range []struct {
		name      string
		local     *corev1.ConfigMap
		reflected *corev1.ConfigMap
		unseen    *corev1.ConfigMap
		answer    error
		wrote     []string
		event     string
		again     bool
		fails     bool
	}{
		{name: "created", local: settings("1"), wrote: []string{"create configmaps"}},
		{name: "unchanged", local: settings("1"), reflected: copyOf(settings("1"))},
		{name: "changed", local: settings("2"), reflected: copyOf(settings("1")), wrote: []string{"update configmaps"}},
		{name: "deleted", reflected: copyOf(settings("1")), wrote: []string{"delete configmaps"}},
		{
			name: "an immutable object is replaced", local: immutable(settings("2")),
			reflected: copyOf(immutable(settings("1"))), wrote: []string{"delete configmaps"},
		},
		{
			name: "a reflected object that is being deleted", local: settings("2"),
			reflected: leaving(copyOf(settings("1"))),
		},
		{name: "no object"},
		{
			name: "an unobserved reflected object is not created twice", local: settings("1"),
			unseen: copyOf(settings("1")), wrote: []string{"create configmaps"},
		},
		{
			name: "an object with the same name is not changed", local: settings("1"), unseen: foreign,
			wrote: []string{"create configmaps"},
			event: "Warning ReflectionConflict Namespace shop-rome of milan has an object named settings",
			again: true,
		},
		{
			name: "a refusal is reported", local: settings("1"), wrote: []string{"create configmaps"}, fails: true,
			answer: apierrors.NewForbidden(
				schema.GroupResource{Resource: "configmaps"}, "settings", errors.New("quota is exceeded\x1b[31m"),
			),
			event: "Warning ReflectionRefused milan refuses the reflected object in namespace shop-rome: ",
		},
		{
			name: "a refusal because of the number of objects names the policy", local: settings("1"),
			wrote: []string{"create configmaps"}, fails: true,
			answer: apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "settings", errors.New(
				"exceeded quota: federation, requested: count/configmaps=1, used: count/configmaps=9, limited: count/configmaps=9",
			)),
			event: `Warning ReflectionRefused milan refuses the reflected object in namespace shop-rome: configmaps ` +
				`"settings" is forbidden: exceeded quota: federation, requested: count/configmaps=1, used: ` +
				`count/configmaps=9, limited: count/configmaps=9; the provider's administrator sets the maximum in ` +
				`spec.incomingPolicy.objects of the ForeignCluster, or in the value policy.objects`,
		},
		{
			name: "a refused change is reported", local: settings("2"), reflected: copyOf(settings("1")),
			wrote: []string{"update configmaps"}, fails: true,
			answer: apierrors.NewRequestEntityTooLargeError("limit is 1048576"), event: "Warning ReflectionRefused",
		},
		{
			name: "terminating remote namespace", local: settings("1"), wrote: []string{"create configmaps"},
			answer: terminating,
		},
		{
			name: "a failed creation is retried", local: settings("1"), wrote: []string{"create configmaps"},
			answer: apierrors.NewInternalError(errors.New("oh")), fails: true,
		},
		{
			name: "a failed deletion is retried", reflected: copyOf(settings("1")),
			wrote: []string{"delete configmaps"}, answer: apierrors.NewInternalError(errors.New("oh")), fails: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReflecting(t, nil, nil)
			one := objectsOf[*corev1.ConfigMap](t, r, "configmaps")
			if test.local != nil {
				mustAdd(t, one.local.GetIndexer().Add, test.local)
			}
			if test.reflected != nil {
				mustAdd(t, one.reflected.GetIndexer().Add, test.reflected)
				mustAdd(t, func(obj any) error { return r.milan.Tracker().Add(obj.(runtime.Object)) }, test.reflected)
			}
			if test.unseen != nil {
				mustAdd(t, func(obj any) error { return r.milan.Tracker().Add(obj.(runtime.Object)) }, test.unseen)
			}
			if test.answer != nil {
				fakes.React(
					r.milan,
					"*",
					"configmaps",
					func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.answer },
				)
			}
			again, err := one.reconcile(t.Context(), one.key("settings"))
			if (err != nil) != test.fails || (again > 0) != test.again {
				t.Errorf("error %v, again after %s", err, again)
			}
			if diff := cmp.Diff(test.wrote, r.writes()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			event := ""
			if len(r.events.Events) > 0 {
				event = <-r.events.Events
			}
			if !strings.HasPrefix(event, test.event) || test.event == "" && event != "" ||
				strings.Contains(event, "\x1b") {
				t.Errorf("event %q, want %q", event, test.event)
			}
			if _, err := one.reconcile(t.Context(), one.key("settings")); (err != nil) != test.fails {
				t.Error(err)
			}
			if len(r.events.Events) > 0 {
				t.Errorf("second event: %s", <-r.events.Events)
			}
			if test.unseen != nil {
				now, err := r.milan.CoreV1().ConfigMaps("shop-rome").Get(t.Context(), "settings", metav1.GetOptions{})
				if err != nil || !cmp.Equal(now, test.unseen) {
					t.Errorf("the object was changed: %v, %v", now, err)
				}
			}
		})
	}
}

// A reflected object that another client changed after it was cached is not deleted.
func TestReflectedObjectIsDeletedOnlyAsObserved(t *testing.T) {
	r := newReflecting(t, nil, nil)
	one := objectsOf[*corev1.ConfigMap](t, r, "configmaps")
	mustAdd(t, one.reflected.GetIndexer().Add, copyOf(settings("1")))
	if _, err := one.reconcile(t.Context(), one.key("settings")); err != nil {
		t.Fatal(err)
	}
	for _, action := range r.milan.Actions() {
		if deletion, ok := action.(clienttesting.DeleteAction); ok {
			got := deletion.GetDeleteOptions().Preconditions
			if got == nil || got.UID == nil || *got.UID != "there" || got.ResourceVersion == nil ||
				*got.ResourceVersion != "7" {
				t.Errorf("preconditions %+v", got)
			}
			return
		}
	}
	t.Error("the reflected object was not deleted")
}

func objectsOf[T object](t *testing.T, r *reflecting, resource string) *objects[T, T] {
	t.Helper()
	for _, kind := range r.kinds {
		if kind.name == resource {
			one, err := kind.reflector(kind, r.Controller, "shop", "shop-rome")
			if err != nil {
				t.Fatal(err)
			}
			return one.(*objects[T, T])
		}
	}
	t.Fatalf("%s are not reflected", resource)
	return nil
}

func mustAdd(t *testing.T, add func(any) error, obj any) {
	t.Helper()
	if err := add(obj); err != nil {
		t.Fatal(err)
	}
}

func TestLocalObjectsOverrideReflectedOnes(t *testing.T) {
	leftover := settings("old")
	leftover.Name = "leftover"
	foreign := settings("foreign")
	foreign.Namespace, foreign.Name = "shop-rome", "foreign"
	r := newReflecting(t, []runtime.Object{settings("1")}, []runtime.Object{copyOf(leftover), foreign})
	r.start(t)
	local, reflected := r.rome.CoreV1().ConfigMaps("shop"), r.milan.CoreV1().ConfigMaps("shop-rome")
	step := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	// Existing local objects are reflected, and reflected objects without a local one are deleted.
	r.awaitData(t, "settings", map[string]string{"a": "1"})
	r.awaitData(t, "leftover", nil)
	// Changes are reflected.
	step(local.Update(t.Context(), settings("2"), metav1.UpdateOptions{}))
	r.awaitData(t, "settings", map[string]string{"a": "2"})
	// A change on the provider is reverted.
	step(reflected.Update(t.Context(), copyOf(settings("drift")), metav1.UpdateOptions{}))
	r.awaitData(t, "settings", map[string]string{"a": "2"})
	// An object that is deleted on the provider is created again.
	step(nil, reflected.Delete(t.Context(), "settings", metav1.DeleteOptions{}))
	r.awaitData(t, "settings", map[string]string{"a": "2"})
	// A change of an immutable object replaces the reflected one.
	step(local.Update(t.Context(), immutable(settings("3")), metav1.UpdateOptions{}))
	r.awaitData(t, "settings", map[string]string{"a": "3"})
	step(local.Update(t.Context(), immutable(settings("4")), metav1.UpdateOptions{}))
	r.awaitData(t, "settings", map[string]string{"a": "4"})
	// Deletions are reflected.
	step(nil, local.Delete(t.Context(), "settings", metav1.DeleteOptions{}))
	r.awaitData(t, "settings", nil)
	r.awaitData(t, "foreign", map[string]string{"a": "foreign"})
}

func TestChangesAreReflectedWhenTheProviderIsBack(t *testing.T) {
	r := newReflecting(t, []runtime.Object{settings("1")}, nil)
	r.start(t)
	r.awaitData(t, "settings", map[string]string{"a": "1"})

	r.answers.Store(false)
	before := len(r.writes())
	local := r.rome.CoreV1().ConfigMaps("shop")
	for i := range 20 {
		if _, err := local.Update(t.Context(), settings(fmt.Sprint(i)), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	one := r.namespaces["shop"].kinds["configmaps"].(*objects[*corev1.ConfigMap, *corev1.ConfigMap])
	err := kittest.Poll(t, func(context.Context) (bool, error) {
		return remotens.Lookup[*corev1.ConfigMap](one.local.GetStore(), "shop", "settings").Data["a"] == "19", nil
	})
	if err != nil {
		t.Fatal("the last change was not cached")
	}
	if after := len(r.writes()); after != before {
		t.Errorf("%d writes while the provider was unreachable", after-before)
	}
	r.answers.Store(true)
	r.EnqueueAll()
	r.awaitData(t, "settings", map[string]string{"a": "19"})
	// A late event may cause another write, but none with an intermediate state.
	for _, action := range r.milan.Actions() {
		if !action.Matches("update", "configmaps") {
			continue
		}
		if got := action.(clienttesting.UpdateAction).GetObject().(*corev1.ConfigMap).Data["a"]; got != "19" {
			t.Errorf("%s was written", got)
		}
	}
}

func TestTerminatingRemoteNamespaceIsNotChanged(t *testing.T) {
	r := newReflecting(t, []runtime.Object{settings("1")}, nil)
	r.start(t)
	r.awaitData(t, "settings", map[string]string{"a": "1"})

	left := r.Namespaces.(fixed)["shop"]
	left.Ready = false
	r.Namespaces = fixed{"shop": left}
	if err := r.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.milan.CoreV1().
		ConfigMaps("shop-rome").
		Delete(t.Context(), "settings", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	key := reflectionKey{resource: "configmaps"}
	key.Namespace, key.Name = "shop", "settings"
	if _, err := r.reconcile(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	r.awaitData(t, "settings", nil)

	left.Ready = true
	r.Namespaces = fixed{"shop": left}
	if err := r.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitData(t, "settings", map[string]string{"a": "1"})
}

// A change of the reflection policy applies to existing and new objects.
func TestPolicyOfTheVirtualNodeApplies(t *testing.T) {
	sent := settings("1")
	sent.Name, sent.Annotations = "sent", map[string]string{v1alpha1.AnnotationAllowReflection: ""}
	r := newReflecting(t, []runtime.Object{settings("1"), sent}, []runtime.Object{copyOf(settings("1"))})
	r.start(t)
	r.awaitData(t, "settings", map[string]string{"a": "1"})
	r.awaitData(t, "sent", map[string]string{"a": "1"})

	say := func(policy v1alpha1.ReflectionPolicy) {
		t.Helper()
		node := &v1alpha1.VirtualNode{}
		node.Spec.Reflection.Kinds = []v1alpha1.ReflectedKind{{Version: "v1", Resource: "configmaps", Policy: policy}}
		r.node.Store(node)
		if err := r.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	say(v1alpha1.ReflectionAllowList)
	r.awaitData(t, "settings", nil)
	r.awaitData(t, "sent", map[string]string{"a": "1"})
	say(v1alpha1.ReflectionDenyList)
	r.awaitData(t, "settings", map[string]string{"a": "1"})
}

func TestReflectedObjectIsDeletedWhenItsAnnotationSelectsAnotherCluster(t *testing.T) {
	elsewhere, here := settings("1"), settings("1")
	elsewhere.Annotations = map[string]string{v1alpha1.AnnotationReflectTo: "naples-id"}
	here.Name, here.Annotations = "here", map[string]string{v1alpha1.AnnotationReflectTo: "naples-id,milan-id"}
	r := newReflecting(t, []runtime.Object{elsewhere, here}, []runtime.Object{copyOf(settings("1"))})
	r.start(t)
	r.awaitData(t, "here", map[string]string{"a": "1"})
	r.awaitData(t, "settings", nil)
}

// Before the VirtualNode is cached, nothing is reflected, because its policy may exclude objects.
func TestNothingIsReflectedBeforeThePolicyIsKnown(t *testing.T) {
	r := newReflecting(t, []runtime.Object{settings("1")}, nil)
	r.node.Store(nil)
	r.start(t)
	if len(r.namespaces) > 0 {
		t.Errorf("%v are reflected", r.namespaces)
	}
	r.node.Store(&v1alpha1.VirtualNode{})
	if err := r.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitData(t, "settings", map[string]string{"a": "1"})
}
