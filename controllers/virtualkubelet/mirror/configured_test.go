// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	"liqo.io/federation/test/fakes"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// namesWidgets is a virtual node that has widgets copied, if they can be.
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

// newReflectingWidgets has clients of a kind that nothing here knows.
func newReflectingWidgets(
	t *testing.T,
	local, remote []runtime.Object,
) (*reflecting, *dynamicfake.FakeDynamicClient, *dynamicfake.FakeDynamicClient) {
	t.Helper()
	r := newReflecting(t, nil, nil)
	lists := map[schema.GroupVersionResource]string{widgets: "WidgetList"}
	rome := fakes.Followed(dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, local...))
	milan := fakes.Followed(dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, remote...))
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

// copyOfWidget is what the provider has, with a status if there is one.
func copyOfWidget(local *unstructured.Unstructured, phase string) *unstructured.Unstructured {
	there := translate.Configured(local, "shop-rome", destination)
	there.SetUID("there")
	there.SetResourceVersion("7")
	if phase != "" {
		there.Object["status"] = map[string]any{"phase": phase}
	}
	return there
}

// did is what was written, in words.
func did(client *dynamicfake.FakeDynamicClient) []string {
	var all []string
	for _, action := range client.Actions() {
		if verb := action.GetVerb(); verb != "get" && verb != "list" && verb != "watch" {
			all = append(all, strings.TrimSuffix(verb+" "+action.GetSubresource(), " "))
		}
	}
	return all
}

// One pass over one object of a kind that was configured.
func TestConfiguredKindIsReflectedAndItsStatusWrittenBack(t *testing.T) {
	huge := newWidget(strings.Repeat("x", translate.MaxReflectedSize))
	hugeKeptHome := huge.DeepCopy()
	hugeKeptHome.SetAnnotations(map[string]string{v1alpha1.AnnotationSkipReflection: ""})
	foreign := newWidget("theirs")
	foreign.SetNamespace("shop-rome")
	earlier := newWidget("1")
	earlier.SetUID("earlier")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, "w", errors.New("not offered"))
	for _, test := range []struct {
		name           string
		here, there    *unstructured.Unstructured
		unseen         *unstructured.Unstructured
		answer         error
		ending         bool
		wrote, brought []string
		event          string
		again, fails   bool
	}{
		{name: "a new one is copied", here: newWidget("1"), wrote: []string{"create"}},
		{name: "nothing is written when nothing changed", here: newWidget("1"), there: copyOfWidget(newWidget("1"), "")},
		{name: "a change travels, and the status waits for it", here: newWidget("2"), there: copyOfWidget(newWidget("1"), "Ready"), wrote: []string{"update"}},
		{name: "a status comes back", here: newWidget("1"), there: copyOfWidget(newWidget("1"), "Ready"), brought: []string{"update status"}},
		{name: "the copy goes with it", there: copyOfWidget(newWidget("1"), ""), wrote: []string{"delete"}},
		{name: "one that was made anew is made anew there", here: newWidget("1"), there: copyOfWidget(earlier, "Ready"), wrote: []string{"delete"}},
		{name: "what is too large stays home", here: huge, event: "Warning ReflectionRefused it has 524308 bytes"},
		{name: "what is too large and kept home is nobody's concern", here: hugeKeptHome},
		{
			name: "a status that is too large is not taken", here: newWidget("1"), there: copyOfWidget(newWidget("1"), strings.Repeat("x", translate.MaxReflectedSize)),
			event: "Warning ReflectionRefused the status that milan gives it has",
		},
		{
			name: "what is not ours is left alone", here: newWidget("1"), unseen: foreign, wrote: []string{"create"}, again: true,
			event: "Warning ReflectionConflict namespace shop-rome of milan has one of the name w",
		},
		{name: "a refusal is told", here: newWidget("1"), answer: forbidden, wrote: []string{"create"}, fails: true, event: "Warning ReflectionRefused milan refuses the copy"},
		{name: "a kind that ends leaves nothing", here: newWidget("1"), there: copyOfWidget(newWidget("1"), "Ready"), ending: true, wrote: []string{"delete"}},
		{name: "a kind that ends makes nothing", here: newWidget("1"), ending: true},
		{name: "what may not be deleted any more goes with the twin", there: copyOfWidget(newWidget("1"), ""), ending: true, answer: forbidden, wrote: []string{"delete"}},
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
				test.here:   {one.here.GetIndexer().Add, func(obj any) error { return rome.Tracker().Add(obj.(runtime.Object)) }},
				test.there:  {one.there.GetIndexer().Add, func(obj any) error { return milan.Tracker().Add(obj.(runtime.Object)) }},
				test.unseen: {func(obj any) error { return milan.Tracker().Add(obj.(runtime.Object)) }},
			} {
				for _, f := range add {
					if object != nil {
						mustAdd(t, f, object)
					}
				}
			}
			if test.answer != nil {
				milan.PrependReactor(
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
				t.Errorf("writes there (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.brought, did(rome)); diff != "" {
				t.Errorf("writes here (-want +got):\n%s", diff)
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
				t.Errorf("it is told again: %s", <-r.events.Events)
			}
			// A status is brought once a change of the copy.
			if diff := cmp.Diff(test.brought, did(rome)); diff != "" {
				t.Errorf("writes here, after another pass (-want +got):\n%s", diff)
			}
		})
	}
}

// A kind is copied as soon as it can be, and its copies go when it is not
// wanted any more, in each namespace.
func TestKindIsReflectedWhileThePolicyNamesIt(t *testing.T) {
	foreign := newWidget("theirs")
	foreign.SetNamespace("shop-rome")
	foreign.SetName("theirs")
	// A copy is there already.
	r, _, milan := newReflectingWidgets(
		t,
		[]runtime.Object{newWidget("1")},
		[]runtime.Object{foreign, copyOfWidget(newWidget("0"), "")},
	)
	r.start(t)
	await := func(what string, want ...string) {
		t.Helper()
		var got []string
		err := wait.PollUntilContextTimeout(
			t.Context(),
			10*time.Millisecond,
			10*time.Second,
			true,
			func(ctx context.Context) (bool, error) {
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
			},
		)
		if err != nil {
			t.Fatalf("%s: there are %v, want %v", what, got, want)
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
		t.Error("widgets are watched although they cannot be copied")
	}
	say(namesWidgets(true))
	await("named", "theirs", "w")
	if err := wait.PollUntilContextTimeout(
		t.Context(),
		10*time.Millisecond,
		10*time.Second,
		true,
		func(context.Context) (bool, error) {
			return slices.ContainsFunc(
				milan.Actions(),
				func(action clienttesting.Action) bool { return action.GetVerb() == "update" },
			), nil
		},
	); err != nil {
		t.Fatal("the copy is still an old one")
	}
	said := namesWidgets(true)
	said.Spec.Reflection.Kinds = nil
	say(said)
	await("not named any more", "theirs")
	if err := wait.PollUntilContextTimeout(
		t.Context(),
		10*time.Millisecond,
		10*time.Second,
		true,
		func(context.Context) (bool, error) { return !running(), nil },
	); err != nil {
		t.Error("widgets are still watched")
	}
	say(namesWidgets(true))
	await("named again", "theirs", "w")
}
