// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	"liqo.io/federation/test/fakes"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// namesWidgets returns a VirtualNode whose reflection policy has the kind widgets. can is whether its status has the
// kind too.
func namesWidgets(can bool) *v1alpha1.VirtualNode {
	node := &v1alpha1.VirtualNode{}
	node.Spec.Reflection.Kinds = []v1alpha1.ReflectedKind{
		{Group: widgets.Group, Version: widgets.Version, Resource: widgets.Resource},
	}
	if can {
		node.Status.ReflectedKinds = []metav1.GroupVersionResource{
			{Group: widgets.Group, Version: widgets.Version, Resource: widgets.Resource},
		}
	}
	return node
}

// newReflectingWidgets returns a controller that reflects the kind widgets, and the dynamic clients of both clusters.
func newReflectingWidgets(
	t *testing.T,
	local, remote []runtime.Object,
) (*reflecting, *dynamicfake.FakeDynamicClient, *dynamicfake.FakeDynamicClient) {
	t.Helper()
	r := newReflecting(t, nil, nil)
	lists := map[schema.GroupVersionResource]string{widgets: "WidgetList"}
	rome := fakes.Followed(dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, local...))
	milan := fakes.Followed(
		dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, remote...),
	)
	r.LocalDynamic, r.RemoteDynamic = rome, milan
	return r, rome, milan
}

func newWidget(size string) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "spec": map[string]any{"size": size},
	}}
	made.SetNamespace("shop")
	made.SetName("w")
	made.SetUID("here")
	return made
}

// copyOfWidget returns the reflected object of a widget. It has a status unless phase is empty.
func copyOfWidget(local *unstructured.Unstructured, phase string) *unstructured.Unstructured {
	reflected := translate.Configured(local, "shop-rome", destination)
	reflected.SetUID("there")
	reflected.SetResourceVersion("7")
	if phase != "" {
		reflected.Object["status"] = map[string]any{"phase": phase}
	}
	return reflected
}

// did returns the verbs of the writes of a client.
func did(client *dynamicfake.FakeDynamicClient) []string {
	var all []string
	for _, action := range client.Actions() {
		if verb := action.GetVerb(); verb != "get" && verb != "list" && verb != "watch" {
			all = append(all, strings.TrimSuffix(verb+" "+action.GetSubresource(), " "))
		}
	}
	return all
}

// This test calls reconcile once per case.
func TestConfiguredKindIsReflectedAndItsStatusWrittenBack(t *testing.T) {
	huge := newWidget(strings.Repeat("x", translate.MaxReflectedSize))
	hugeExcluded := huge.DeepCopy()
	hugeExcluded.SetAnnotations(map[string]string{v1alpha1.AnnotationSkipReflection: ""})
	foreign := newWidget("foreign")
	foreign.SetNamespace("shop-rome")
	earlier := newWidget("1")
	earlier.SetUID("earlier")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, "w", errors.New("not offered"))
	for _, test := range []struct {
		name                   string
		local, reflected       *unstructured.Unstructured
		unseen                 *unstructured.Unstructured
		answer                 error
		ending                 bool
		wrote, writtenStatuses []string
		event                  string
		again, fails           bool
	}{
		{name: "created", local: newWidget("1"), wrote: []string{"create"}},
		{name: "unchanged", local: newWidget("1"), reflected: copyOfWidget(newWidget("1"), "")},
		{
			name: "a change is reflected before the status is written", local: newWidget("2"),
			reflected: copyOfWidget(newWidget("1"), "Ready"), wrote: []string{"update"},
		},
		{
			name: "a status is written to the local object", local: newWidget("1"),
			reflected: copyOfWidget(newWidget("1"), "Ready"), writtenStatuses: []string{"update status"},
		},
		{name: "deleted", reflected: copyOfWidget(newWidget("1"), ""), wrote: []string{"delete"}},
		{name: "replaced", local: newWidget("1"), reflected: copyOfWidget(earlier, "Ready"), wrote: []string{"delete"}},
		{name: "too large", local: huge, event: "Warning ReflectionRefused The object is not reflected to milan: it has 524308 bytes"},
		{name: "too large, excluded by annotation", local: hugeExcluded},
		{
			name: "a status that is too large is not written", local: newWidget("1"),
			reflected: copyOfWidget(newWidget("1"), strings.Repeat("x", translate.MaxReflectedSize)),
			event:     "Warning ReflectionRefused The status of the reflected object on milan is not copied: it has",
		},
		{
			name: "an object with the same name is not changed", local: newWidget("1"), unseen: foreign,
			wrote: []string{"create"}, again: true,
			event: "Warning ReflectionConflict Namespace shop-rome of milan has an object named w",
		},
		{
			name: "a refusal is reported", local: newWidget("1"), answer: forbidden, wrote: []string{"create"},
			fails: true, event: "Warning ReflectionRefused milan refuses the reflected object",
		},
		{
			name: "objects of an ending kind are deleted", local: newWidget("1"),
			reflected: copyOfWidget(newWidget("1"), "Ready"), ending: true, wrote: []string{"delete"},
		},
		{name: "objects of an ending kind are not created", local: newWidget("1"), ending: true},
		{
			name: "a forbidden deletion of an ending kind is ignored", reflected: copyOfWidget(newWidget("1"), ""),
			ending: true, answer: forbidden, wrote: []string{"delete"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, rome, milan := newReflectingWidgets(t, nil, nil)
			made, err := newConfigured(configuredKind(widgets), r.Controller, "shop", "shop-rome")
			if err != nil {
				t.Fatal(err)
			}
			one := made.(*configured)
			one.ending.Store(test.ending)
			for object, add := range map[*unstructured.Unstructured][]func(any) error{
				test.local: {
					one.local.GetIndexer().Add, func(obj any) error { return rome.Tracker().Add(obj.(runtime.Object)) },
				},
				test.reflected: {
					one.reflected.GetIndexer().Add,
					func(obj any) error { return milan.Tracker().Add(obj.(runtime.Object)) },
				},
				test.unseen: {func(obj any) error { return milan.Tracker().Add(obj.(runtime.Object)) }},
			} {
				for _, f := range add {
					if object != nil {
						mustAdd(t, f, object)
					}
				}
			}
			if test.answer != nil {
				fakes.React(
					milan,
					"*",
					"widgets",
					func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.answer },
				)
			}
			again, err := one.reconcile(t.Context(), one.key("w"))
			if (err != nil) != test.fails || (again > 0) != test.again {
				t.Errorf("error %v, again after %s", err, again)
			}
			if diff := cmp.Diff(test.wrote, did(milan)); diff != "" {
				t.Errorf("writes on the provider (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.writtenStatuses, did(rome)); diff != "" {
				t.Errorf("local writes (-want +got):\n%s", diff)
			}
			event := ""
			if len(r.events.Events) > 0 {
				event = <-r.events.Events
			}
			if !strings.HasPrefix(event, test.event) || test.event == "" && event != "" {
				t.Errorf("event %q, want %q", event, test.event)
			}
			if _, err := one.reconcile(t.Context(), one.key("w")); (err != nil) != test.fails {
				t.Error(err)
			}
			if len(r.events.Events) > 0 {
				t.Errorf("second event: %s", <-r.events.Events)
			}
			// The status of one version of a reflected object is written only once.
			if diff := cmp.Diff(test.writtenStatuses, did(rome)); diff != "" {
				t.Errorf("local writes, after another reconcile (-want +got):\n%s", diff)
			}
		})
	}
}

// A provider that changes statuses all the time, or deletes and creates reflected objects, causes a limited number and
// size of local writes.
func TestStatusesOfAConfiguredKindAreWrittenAtALimitedRate(t *testing.T) {
	// The statuses change this many times within ten seconds.
	const steps = 20
	for _, test := range []struct {
		name    string
		size    int
		objects int
		deletes bool
		// atOnce and within10s are the numbers of writes without a delay, and within ten seconds more.
		atOnce, within10s int
	}{
		{"one object", 100, 1, false, 1, 10},
		{"one object that is deleted and created", 100, 1, true, 1, 10},
		{"many small objects", 100, 50, false, 50, 500},
		{"many large objects", 500_000, 10, false, 8, 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, rome, _ := newReflectingWidgets(t, nil, nil)
			clock := clocktesting.NewFakePassiveClock(time.Now())
			r.Clock = clock
			// The other bytes that may be written at once were used already.
			r.statusBytes.ReserveN(clock.Now(), statusBytesAtOnce-4<<20)
			made, err := newConfigured(configuredKind(widgets), r.Controller, "shop", "shop-rome")
			if err != nil {
				t.Fatal(err)
			}
			one := made.(*configured)
			version := 10
			// change gives each reflected object another status, and returns the number of local writes.
			change := func() int {
				rome.ClearActions()
				for i := range test.objects {
					local := newWidget("1")
					local.SetName(fmt.Sprintf("w%d", i))
					mustAdd(t, one.local.GetIndexer().Add, local)
					version++
					reflected := copyOfWidget(local, fmt.Sprintf("%0*d", test.size, version))
					reflected.SetResourceVersion(strconv.Itoa(version))
					if test.deletes {
						mustAdd(t, one.reflected.GetIndexer().Delete, reflected)
						if _, err := one.writeStatus(t.Context(), one.key(local.GetName())); err != nil {
							t.Fatal(err)
						}
					}
					mustAdd(t, one.reflected.GetIndexer().Add, reflected)
					if version == 11+i {
						if err := rome.Tracker().Add(local); err != nil {
							t.Fatal(err)
						}
					}
					if again, err := one.writeStatus(t.Context(), one.key(local.GetName())); err != nil || again > statusInterval {
						t.Fatalf("error %v, again after %v", err, again)
					}
				}
				return len(did(rome))
			}
			if got := change() + change(); got != test.atOnce {
				t.Errorf("%d writes at once, want %d", got, test.atOnce)
			}
			got := 0
			for range steps {
				clock.SetTime(clock.Now().Add(10 * time.Second / steps))
				got += change()
			}
			if got > test.within10s+1 || got < test.within10s-2 {
				t.Errorf("%d writes within ten seconds, want about %d", got, test.within10s)
			}
		})
	}
}

// The virtual node and its status decide whether a configured kind is reflected. When they drop the kind, its reflected
// objects are deleted in each namespace.
func TestKindIsReflectedWhileThePolicyNamesIt(t *testing.T) {
	foreign := newWidget("foreign")
	foreign.SetNamespace("shop-rome")
	foreign.SetName("foreign")
	// The provider has a reflected object from an earlier virtual kubelet.
	r, _, milan := newReflectingWidgets(
		t,
		[]runtime.Object{newWidget("1")},
		[]runtime.Object{foreign, copyOfWidget(newWidget("0"), "")},
	)
	r.start(t)
	await := func(what string, want ...string) {
		t.Helper()
		var got []string
		err := kittest.Poll(t, func(ctx context.Context) (bool, error) {
			list, err := milan.Resource(widgets).
				Namespace("shop-rome").
				List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			got = nil
			for _, item := range list.Items {
				got = append(got, item.GetName())
			}
			slices.Sort(got)
			return slices.Equal(got, want), nil
		})
		if err != nil {
			t.Fatalf("%s: reflected objects %v, want %v", what, got, want)
		}
	}
	say := func(node *v1alpha1.VirtualNode) {
		t.Helper()
		r.node.Store(node)
		if err := r.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	running := func() bool {
		r.mu.RLock()
		defer r.mu.RUnlock()
		return r.namespaces["shop"].kinds["widgets.example.com"] != nil
	}
	say(namesWidgets(false))
	if running() {
		t.Error("widgets are watched although the status does not have them")
	}
	say(namesWidgets(true))
	await("named", "foreign", "w")
	if err := kittest.Poll(t, func(context.Context) (bool, error) {
		return slices.ContainsFunc(
			milan.Actions(),
			func(action clienttesting.Action) bool { return action.GetVerb() == "update" },
		), nil
	}); err != nil {
		t.Fatal("the reflected object is outdated")
	}
	said := namesWidgets(true)
	said.Spec.Reflection.Kinds = nil
	say(said)
	await("not named any more", "foreign")
	if err := kittest.Poll(t, func(context.Context) (bool, error) { return !running(), nil }); err != nil {
		t.Error("widgets are still watched")
	}
	say(namesWidgets(true))
	await("named again", "foreign", "w")
}

// The caches of a kind may still be empty when the policy drops it, for example because the virtual kubelet has just
// started or the provider is not reachable.
func TestKindThatIsDroppedBeforeItsCachesAreFilledIsWithdrawn(t *testing.T) {
	for _, test := range []struct {
		name   string
		remote []runtime.Object
	}{
		{"with a reflected object", []runtime.Object{copyOfWidget(newWidget("1"), "")}},
		{"without objects", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, _, milan := newReflectingWidgets(t, nil, test.remote)
			var answers atomic.Bool
			fakes.React(milan, "list", "widgets", func(clienttesting.Action) (bool, runtime.Object, error) {
				return !answers.Load(), nil, errors.New("not reachable")
			})
			r.node.Store(namesWidgets(true))
			r.start(t)
			r.node.Store(&v1alpha1.VirtualNode{})
			if err := r.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			answers.Store(true)
			err := kittest.Poll(t, func(ctx context.Context) (bool, error) {
				r.mu.RLock()
				running := r.namespaces["shop"].kinds["widgets.example.com"] != nil
				r.mu.RUnlock()
				left, err := milan.Resource(widgets).Namespace("shop-rome").List(ctx, metav1.ListOptions{})
				return err == nil && !running && len(left.Items) == 0, err
			})
			if err != nil {
				t.Errorf("the kind is not withdrawn: %v", err)
			}
		})
	}
}
