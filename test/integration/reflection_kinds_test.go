// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

// widgetsDefinition defines a custom resource. Its field color has a default, so stored objects
// have a field that their creator did not set.
const widgetsDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                size: {type: integer, maximum: 100}
                note: {type: string}
                color: {type: string, default: red}
            status:
              type: object
              properties:
                phase: {type: string}
                observedGeneration: {type: integer}
`

var widgetsResource = apischema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// widgets has clients for the widgets of the offloaded namespace and of its remote namespace.
type widgets struct {
	*offload
	localWidgets, remoteWidgets dynamic.ResourceInterface
}

// The virtual kubelet has the permissions of the chart. A kind that is configured on both clusters
// is reflected to the provider, and its status to the consumer.
func TestVirtualKubeletReflectsKindsByConfiguration(t *testing.T) {
	o := newOffload(t)
	define(t, o.Environment, widgetsDefinition, "widgets.example.com")
	const kind = `[{"group":"example.com","version":"v1","resource":"widgets"}]`
	o.Kubectl(t, o.ChartWith(t, []string{"policy.reflectedKinds=" + kind, "reflection.kinds=" + kind},
		"rbac-virtual-kubelet.yaml", "rbac-remote-namespace.yaml"), "apply", "-f", "-")
	client, err := dynamic.NewForConfig(o.Admin)
	if err != nil {
		t.Fatal(err)
	}
	w := &widgets{offload: o, localWidgets: client.Resource(widgetsResource).Namespace(o.local),
		remoteWidgets: client.Resource(widgetsResource).Namespace(o.remote)}
	w.name(t, `[{"group":"example.com","version":"v1","resource":"widgets","excludedLabels":["team"]}]`)
	w.start(t)
	t.Run("one is reflected, and so is its status", w.testRoundTrip)
	t.Run("an unmanaged object is not changed", w.testForeign)
	t.Run("a refusal of the provider is reported", w.testRefused)
	t.Run("an object that is too large is reported", w.testTooLarge)
	t.Run("a restart only repairs drift", w.testRestart)
	w.start(t)
	t.Run("policies apply at once", w.testPolicies)
	t.Run("objects of a kind that is removed from the spec are deleted", w.testEnd)
}

// name adds kinds to the spec of the VirtualNode, and to its status as the controller manager does.
func (w *widgets) name(t *testing.T, kinds string) {
	t.Helper()
	nodes := w.federation.FederationV1alpha1().VirtualNodes(w.peer)
	spec := fmt.Sprintf(`{"spec":{"reflection":{"kinds":%s}}}`, kinds)
	if _, err := nodes.Patch(t.Context(), virtualNode, types.MergePatchType, []byte(spec),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	status := `{"status":{"reflectedKinds":[{"group":"example.com","version":"v1","resource":"widgets"}]}}`
	if _, err := nodes.Patch(t.Context(), virtualNode, types.MergePatchType, []byte(status), metav1.PatchOptions{},
		"status"); err != nil {
		t.Fatal(err)
	}
}

func (w *widgets) make(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return w.makeIn(t, w.localWidgets, name, spec)
}

func (w *widgets) makeIn(t *testing.T, client dynamic.ResourceInterface, name, spec string) *unstructured.Unstructured {
	t.Helper()
	widget := &unstructured.Unstructured{}
	if err := widget.UnmarshalJSON(fmt.Appendf(nil,
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":%q,"labels":{"app":"web","team":"a"}},"spec":%s}`,
		name, spec)); err != nil {
		t.Fatal(err)
	}
	made, err := client.Create(t.Context(), widget, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (w *widgets) patch(t *testing.T, client dynamic.ResourceInterface, name, patch string,
	subresources ...string) *unstructured.Unstructured {
	t.Helper()
	patched, err := client.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{},
		subresources...)
	if err != nil {
		t.Fatal(err)
	}
	return patched
}

// await waits until the widget with this name meets a condition.
func (w *widgets) await(t *testing.T, client dynamic.ResourceInterface, name, what string,
	is func(*unstructured.Unstructured) bool) (widget *unstructured.Unstructured) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("it is %v", widget)
		}
	}()
	until(t, what, func(ctx context.Context) (bool, error) {
		var err error
		widget, err = client.Get(ctx, name, metav1.GetOptions{})
		return err == nil && is(widget), ignoreNotFound(err)
	})
	return widget
}

func (w *widgets) awaitNone(t *testing.T, name string) {
	t.Helper()
	w.awaitGone(t, name+" is gone on the provider", func(ctx context.Context) error {
		_, err := w.remoteWidgets.Get(ctx, name, metav1.GetOptions{})
		return err
	})
}

func (w *widgets) awaitEvent(t *testing.T, object *unstructured.Unstructured, reason, fragment string) {
	t.Helper()
	until(t, "an event "+reason, func(ctx context.Context) (bool, error) {
		events, err := w.Kube.CoreV1().Events(w.local).List(ctx,
			metav1.ListOptions{FieldSelector: "reason=" + reason + ",involvedObject.uid=" + string(object.GetUID())})
		return err == nil && len(events.Items) > 0 && strings.Contains(events.Items[0].Message, fragment) &&
			events.Items[0].Type == corev1.EventTypeWarning, err
	})
}

func size(want int64) func(*unstructured.Unstructured) bool {
	return func(widget *unstructured.Unstructured) bool {
		got, _, _ := unstructured.NestedInt64(widget.Object, "spec", "size")
		return got == want
	}
}

func (w *widgets) testRoundTrip(t *testing.T) {
	w.make(t, "round", `{"size":3,"note":"first"}`)
	first := w.await(t, w.remoteWidgets, "round", "it is on the provider", size(3))
	labels := first.GetLabels()
	if labels["app"] != "web" || labels["team"] != "" || labels[v1alpha1.LabelOrigin] != consumerID ||
		labels[v1alpha1.LabelDestination] != providerID {
		t.Errorf("labels %v", labels)
	}
	// This is the status that the provider's controller of widgets would set.
	w.patch(t, w.remoteWidgets, "round",
		fmt.Sprintf(`{"status":{"phase":"Ready\u001b","observedGeneration":%d}}`, first.GetGeneration()), "status")
	updated := w.await(t, w.localWidgets, "round", "the status is reflected",
		func(widget *unstructured.Unstructured) bool {
			phase, _, _ := unstructured.NestedString(widget.Object, "status", "phase")
			return phase == "Ready"
		})
	if observed, _, _ := unstructured.NestedInt64(updated.Object, "status",
		"observedGeneration"); observed != updated.GetGeneration() {
		t.Errorf("generation %d was observed, of %d", observed, updated.GetGeneration())
	}
	// Changed and removed fields are reflected, and changes on the provider are reverted.
	w.patch(t, w.localWidgets, "round", `{"spec":{"size":4,"note":null}}`)
	second := w.await(t, w.remoteWidgets, "round", "the change is on the provider", size(4))
	if _, noted, _ := unstructured.NestedString(second.Object, "spec", "note"); noted ||
		second.GetUID() != first.GetUID() {
		t.Errorf("the reflected object is %v", second)
	}
	w.patch(t, w.remoteWidgets, "round", `{"spec":{"size":9}}`)
	w.await(t, w.remoteWidgets, "round", "the drift is repaired", size(4))
	if err := w.remoteWidgets.Delete(t.Context(), "round", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await(t, w.remoteWidgets, "round", "it is reflected again",
		func(widget *unstructured.Unstructured) bool { return widget.GetUID() != first.GetUID() })
	// A deletion is reflected.
	if err := w.localWidgets.Delete(t.Context(), "round", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.awaitNone(t, "round")
}

func (w *widgets) testForeign(t *testing.T) {
	remote := w.makeIn(t, w.remoteWidgets, "taken", `{"size":1}`)
	local := w.make(t, "taken", `{"size":2}`)
	w.awaitEvent(t, local, "ReflectionConflict", "not a reflected object of this cluster")
	now, err := w.remoteWidgets.Get(t.Context(), "taken", metav1.GetOptions{})
	if err != nil || now.GetResourceVersion() != remote.GetResourceVersion() {
		t.Errorf("it was changed: %v, %v", now, err)
	}
}

func (w *widgets) testRefused(t *testing.T) {
	w.Kubectl(t, fmt.Sprintf(`
apiVersion: v1
kind: ResourceQuota
metadata: {name: %s, namespace: %s}
spec: {hard: {count/widgets.example.com: "0"}}`, naming.RemoteNamespaceQuota, w.remote), "apply", "-f", "-")
	// kube-apiserver does not know the quota of a kind in use until the quota controller, which is
	// not running, has set its status.
	inForce := `{"status":{"hard":{"count/widgets.example.com":"0"},"used":{"count/widgets.example.com":"0"}}}`
	quotas := w.Kube.CoreV1().ResourceQuotas(w.remote)
	if _, err := quotas.Patch(t.Context(), naming.RemoteNamespaceQuota, types.MergePatchType, []byte(inForce),
		metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	refused := w.make(t, "refused", `{"size":1}`)
	w.awaitEvent(t, refused, "ReflectionRefused", "spec.incomingPolicy.objects")
	if err := quotas.Delete(t.Context(), naming.RemoteNamespaceQuota, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await(t, w.remoteWidgets, "refused", "it is reflected once the provider admits it", size(1))
}

func (w *widgets) testTooLarge(t *testing.T) {
	large := w.make(t, "large", fmt.Sprintf(`{"note":%q}`, strings.Repeat("x", 600<<10)))
	w.awaitEvent(t, large, "ReflectionRefused", "the limit is 524288")
	w.patch(t, w.localWidgets, "large", `{"spec":{"size":5,"note":"short"}}`)
	w.await(t, w.remoteWidgets, "large", "it is reflected once it is smaller", size(5))
}

func (w *widgets) testRestart(t *testing.T) {
	w.make(t, "kept", `{"size":1}`)
	w.make(t, "left", `{"size":1}`)
	kept := w.await(t, w.remoteWidgets, "kept", "one is reflected", size(1))
	w.await(t, w.remoteWidgets, "left", "and another", size(1))
	w.stop()
	if err := w.localWidgets.Delete(t.Context(), "left", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.start(t)
	w.awaitNone(t, "left")
	if now, err := w.remoteWidgets.Get(t.Context(), "kept", metav1.GetOptions{}); err != nil ||
		now.GetResourceVersion() != kept.GetResourceVersion() {
		t.Errorf("the other was changed: %v, %v", now, err)
	}
}

func (w *widgets) testPolicies(t *testing.T) {
	w.make(t, "quiet", `{"size":1}`)
	w.await(t, w.remoteWidgets, "quiet", "it is reflected", size(1))
	w.name(t, `[{"group":"example.com","version":"v1","resource":"widgets","policy":"AllowList"}]`)
	w.awaitNone(t, "quiet")
	w.patch(t, w.localWidgets, "quiet", `{"metadata":{"annotations":{"liqo.io/allow-reflection":""}}}`)
	w.await(t, w.remoteWidgets, "quiet", "it is reflected once it is included, with its labels",
		func(widget *unstructured.Unstructured) bool { return widget.GetLabels()["team"] == "a" })
}

func (w *widgets) testEnd(t *testing.T) {
	w.name(t, `[]`)
	w.awaitNone(t, "quiet")
	list, err := w.remoteWidgets.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "taken" {
		t.Errorf("%d are left, %v", len(list.Items), err)
	}
}
