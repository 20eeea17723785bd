// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/integration/framework"
)

// fields is an object, or a part of one, in JSON.
type fields = map[string]any

// lifecycle describes the requests that a resource must accept and refuse. run sends them through
// the aggregator.
type lifecycle struct {
	kind, resource, short string
	// namespace returns the name of a namespace for the object. It is nil for cluster-scoped
	// resources.
	namespace func(t *testing.T, env *framework.Environment) string
	name      string
	// creator is the client configuration that creates the object. nil is Admin.
	creator *rest.Config
	// spec and status are valid values. change is a valid merge patch of the spec; nil means that
	// the spec is immutable.
	spec, change, status fields
	// held is true if a finalizer delays the deletion of the object.
	held bool
	// header and row are the expected output of "kubectl get -o wide", without the age.
	header, row []string
	// badSpecs and badStatuses are invalid merge patches. The key is the field that the refusal
	// must name.
	badSpecs, badStatuses map[string]fields
}

func (l lifecycle) run(t *testing.T) {
	env := framework.Get(t)
	namespace := ""
	if l.namespace != nil {
		namespace = l.namespace(t, env)
	}
	if l.creator == nil {
		l.creator = env.Admin
	}
	of := func(config *rest.Config) dynamic.ResourceInterface {
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		resource := client.Resource(v1alpha1.SchemeGroupVersion.WithResource(l.resource))
		if namespace == "" {
			return resource
		}
		return resource.Namespace(namespace)
	}
	r := resourceRun{lifecycle: l, env: env, namespace: namespace, admin: of(env.Admin), creator: of(l.creator)}
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"refuses invalid objects and stores nothing", r.refusesBadObjects},
		{"writes nothing in a dry run", r.dryRuns},
		{"creates without the status", r.creates},
		{"gets, lists and watches", r.reads},
		{"updates with the latest resourceVersion only", r.updates},
		{"refuses invalid updates", r.refusesBadUpdates},
		{"updates only the status through the subresource status", r.updatesStatus},
		{"refuses invalid statuses", r.refusesBadStatuses},
		{"prints tables and explains fields", r.prints},
		{"applies", r.applies},
		{"deletes", r.deletes},
	} {
		if !t.Run(step.name, step.run) {
			return
		}
	}
}

type resourceRun struct {
	lifecycle
	env            *framework.Environment
	namespace      string
	admin, creator dynamic.ResourceInterface
}

func (r resourceRun) object(more ...fields) *unstructured.Unstructured {
	object := fields{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": r.kind,
		"metadata": fields{"name": r.name}, "spec": r.spec,
	}
	for _, patch := range more {
		object = merge(object, patch)
	}
	return &unstructured.Unstructured{Object: deepCopy(object)}
}

// deepCopy returns a copy of object with the types that a JSON decoder returns.
func deepCopy(object fields) fields {
	copied := fields{}
	if err := utiljson.Unmarshal(encode(object), &copied); err != nil {
		panic(err)
	}
	return copied
}

// merge returns object after a JSON merge patch.
func merge(object, patch fields) fields {
	merged := maps.Clone(object)
	if merged == nil {
		merged = fields{}
	}
	for key, value := range patch {
		switch typed := value.(type) {
		case nil:
			delete(merged, key)
		case fields:
			inner, _ := merged[key].(fields)
			merged[key] = merge(inner, typed)
		default:
			merged[key] = value
		}
	}
	return merged
}

func (r resourceRun) refusesBadObjects(t *testing.T) {
	for field, patch := range r.badSpecs {
		t.Run(field, func(t *testing.T) {
			_, err := r.creator.Create(t.Context(), r.object(fields{"spec": patch}), metav1.CreateOptions{})
			expectCause(t, err, field)
			if _, err := r.admin.Get(t.Context(), r.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("something is left behind: %v", err)
			}
		})
	}
	t.Run("an unknown field", func(t *testing.T) {
		_, err := r.creator.Create(t.Context(), r.object(fields{"spec": fields{"surprise": true}}),
			metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "spec.surprise") {
			t.Errorf("got %v, want a bad request that names the field", err)
		}
	})
}

// expectCause fails the test unless err is a refusal with a cause for this field.
func expectCause(t *testing.T, err error, field string) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusUnprocessableEntity {
		t.Errorf("got %v, want 422", err)
		return
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == field && cause.Message != "" {
			return
		}
	}
	t.Errorf("no cause names %s: %v", field, err)
}

func (r resourceRun) dryRuns(t *testing.T) {
	if _, err := r.creator.Create(t.Context(), r.object(),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.admin.Get(t.Context(), r.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("something was written: %v", err)
	}
}

func (r resourceRun) creates(t *testing.T) {
	created, err := r.creator.Create(t.Context(),
		r.object(fields{"status": r.status}, fields{"metadata": fields{"labels": fields{"test": r.resource}}}),
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if status, _, _ := unstructured.NestedMap(created.Object, "status"); len(status) > 0 {
		t.Errorf("the status was stored with the spec: %v", status)
	}
	if created.GetGeneration() != 1 || created.GetUID() == "" {
		t.Errorf("the metadata is %v", created.Object["metadata"])
	}
	if held := slices.Contains(created.GetFinalizers(), v1alpha1.Finalizer); held != r.held {
		t.Errorf("the finalizers are %v", created.GetFinalizers())
	}
	contains(t, created.Object["spec"], r.spec)
}

// contains fails the test unless got has all fields of want with the same values.
func contains(t *testing.T, got any, want fields) {
	t.Helper()
	if diff := cmp.Diff(any(deepCopy(want)), common(got, deepCopy(want))); diff != "" {
		t.Errorf("it differs (-want +got):\n%s", diff)
	}
}

// common returns the fields of got that want has, too.
func common(got, want any) any {
	switch wanted := want.(type) {
	case fields:
		is, ok := got.(fields)
		if !ok {
			return got
		}
		kept := fields{}
		for key := range wanted {
			if value, ok := is[key]; ok {
				kept[key] = common(value, wanted[key])
			}
		}
		return kept
	case []any:
		is, ok := got.([]any)
		if !ok || len(is) != len(wanted) {
			return got
		}
		kept := make([]any, len(is))
		for i := range is {
			kept[i] = common(is[i], wanted[i])
		}
		return kept
	}
	return got
}

func (r resourceRun) reads(t *testing.T) {
	list, err := r.admin.List(t.Context(),
		metav1.ListOptions{LabelSelector: "test=" + r.resource, FieldSelector: "metadata.name=" + r.name})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("the list has %d items", len(list.Items))
	}
	watcher, err := r.admin.Watch(t.Context(),
		metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), FieldSelector: "metadata.name=" + r.name})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	if _, err := r.admin.Patch(t.Context(), r.name, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"seen":"true"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case event := <-watcher.ResultChan():
		if event.Type != watch.Modified {
			t.Errorf("the event is %s", event.Type)
		}
	case <-t.Context().Done():
		t.Error("no event arrives")
	}
}

func (r resourceRun) get(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	object, err := r.admin.Get(t.Context(), r.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func (r resourceRun) updates(t *testing.T) {
	before := r.get(t)
	if r.change == nil {
		_, err := r.admin.Patch(t.Context(), r.name, types.MergePatchType,
			encode(fields{"spec": fields{"clusterID": "11111111-2222-3333-4444-555555555555",
				"consumerClusterID": "11111111-2222-3333-4444-555555555555"}}), metav1.PatchOptions{})
		expectCause(t, err, "spec")
		return
	}
	changed := &unstructured.Unstructured{Object: merge(before.Object,
		deepCopy(fields{"spec": r.change, "status": r.status}))}
	stale := changed.DeepCopy()
	stale.SetResourceVersion("1")
	if _, err := r.admin.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a stale update is answered with %v", err)
	}
	unread := changed.DeepCopy()
	unread.SetResourceVersion("")
	if _, err := r.admin.Update(t.Context(), unread, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an update without a resource version is answered with %v", err)
	}
	updated, err := r.admin.Update(t.Context(), changed, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if updated.GetGeneration() != before.GetGeneration()+1 {
		t.Errorf("the generation is %d after %d", updated.GetGeneration(), before.GetGeneration())
	}
	if status, _, _ := unstructured.NestedMap(updated.Object, "status"); len(status) > 0 {
		t.Errorf("the status was stored with the spec: %v", status)
	}
	contains(t, updated.Object["spec"], r.change)
	again, err := r.admin.Patch(t.Context(), r.name, types.MergePatchType, encode(fields{"spec": r.change}),
		metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if again.GetResourceVersion() != updated.GetResourceVersion() {
		t.Error("a patch that changes nothing is written")
	}
}

func encode(patch fields) []byte {
	encoded, err := json.Marshal(patch)
	if err != nil {
		panic(err)
	}
	return encoded
}

func (r resourceRun) refusesBadUpdates(t *testing.T) {
	if r.change == nil {
		return
	}
	before := r.get(t)
	for field, patch := range r.badSpecs {
		_, err := r.admin.Patch(t.Context(), r.name, types.MergePatchType, encode(fields{"spec": patch}),
			metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) {
			t.Errorf("a bad %s is answered with %v", field, err)
		}
	}
	if after := r.get(t); after.GetResourceVersion() != before.GetResourceVersion() {
		t.Error("a refused update wrote something")
	}
}

func (r resourceRun) updatesStatus(t *testing.T) {
	before := r.get(t)
	patch := fields{"status": r.status, "spec": r.change,
		"metadata": fields{"labels": fields{"sneaked": "in"}, "finalizers": []string{"example.org/sneaked"}}}
	updated, err := r.admin.Patch(t.Context(), r.name, types.MergePatchType,
		encode(merge(patch, fields{"spec": fields{"clusterID": "sneaked"}})), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Object["spec"], updated.Object["spec"]); diff != "" {
		t.Errorf("the spec changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before.GetLabels(), updated.GetLabels()); diff != "" {
		t.Errorf("the labels changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before.GetFinalizers(), updated.GetFinalizers()); diff != "" {
		t.Errorf("the finalizers changed (-before +after):\n%s", diff)
	}
	if updated.GetGeneration() != before.GetGeneration() {
		t.Errorf("the generation is %d after %d", updated.GetGeneration(), before.GetGeneration())
	}
	contains(t, updated.Object["status"], r.status)
}

func (r resourceRun) refusesBadStatuses(t *testing.T) {
	before := r.get(t)
	for field, patch := range r.badStatuses {
		_, err := r.admin.Patch(t.Context(), r.name, types.MergePatchType, encode(fields{"status": patch}),
			metav1.PatchOptions{}, "status")
		expectCause(t, err, field)
	}
	if after := r.get(t); after.GetResourceVersion() != before.GetResourceVersion() {
		t.Error("a refused status wrote something")
	}
}

func (r resourceRun) scope() []string {
	if r.namespace == "" {
		return nil
	}
	return []string{"--namespace=" + r.namespace}
}

func (r resourceRun) prints(t *testing.T) {
	for _, called := range []string{r.resource, strings.ToLower(r.kind), r.short} {
		if called == "" {
			continue
		}
		lines := strings.Split(strings.TrimSpace(r.env.Kubectl(t, "",
			append(r.scope(), "get", called, r.name, "--output=wide")...)), "\n")
		if len(lines) != 2 {
			t.Fatalf("kubectl prints %q", lines)
		}
		if diff := cmp.Diff(append([]string{"NAME"}, r.header...), columns(lines[0])); diff != "" {
			t.Errorf("the header differs (-want +got):\n%s", diff)
		}
		cells := columns(lines[1])
		if age := slices.Index(r.header, "AGE") + 1; age > 0 && age < len(cells) {
			cells = slices.Delete(cells, age, age+1)
		}
		// These columns have durations, which depend on the time.
		for _, name := range []string{"EXPIRES", "SINCE"} {
			if at := slices.Index(r.header, name) + 1; at > 0 && at < len(cells) {
				cells[at] = r.row[at-1]
			}
		}
		if diff := cmp.Diff(append([]string{r.name}, r.row...), cells); diff != "" {
			t.Errorf("the row differs (-want +got):\n%s", diff)
		}
	}
	for _, part := range []string{"spec", "status"} {
		explained := r.env.Kubectl(t, "", "explain", r.resource+"."+part)
		if strings.Contains(explained, "<no description>") || !strings.Contains(explained, "DESCRIPTION") {
			t.Errorf("kubectl explain %s.%s:\n%s", r.resource, part, explained)
		}
	}
}

// columns returns the columns of a line of kubectl. They are separated by at least three spaces.
func columns(line string) []string {
	var cells []string
	for cell := range strings.SplitSeq(line, "  ") {
		if cell = strings.TrimSpace(cell); cell != "" {
			cells = append(cells, cell)
		}
	}
	return cells
}

func (r resourceRun) applies(t *testing.T) {
	if r.change == nil {
		return
	}
	wanted := r.object(fields{"spec": r.change})
	manifest := string(encode(wanted.Object))
	apply := append(r.scope(), "apply", "--server-side", "--force-conflicts", "--field-manager=gitops", "--filename=-")
	r.env.Kubectl(t, manifest, apply...)
	first := r.get(t)
	contains(t, first.Object["status"], r.status)
	r.env.Kubectl(t, manifest, apply...)
	if again := r.get(t); again.GetResourceVersion() != first.GetResourceVersion() {
		t.Error("applying the same again writes something")
	}
	if output, err := r.env.TryKubectl(t, manifest,
		append(r.scope(), "diff", "--server-side", "--force-conflicts", "--field-manager=gitops",
			"--filename=-")...); err != nil {
		t.Errorf("kubectl sees a difference: %v: %s", err, output)
	}
	owns := func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == "gitops" && strings.Contains(entry.FieldsV1.GetRawString(), `"f:status"`)
	}
	if slices.ContainsFunc(first.GetManagedFields(), owns) {
		t.Error("the manager of an applied spec owns the status")
	}
}

func (r resourceRun) deletes(t *testing.T) {
	err := r.admin.Delete(t.Context(), r.name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}})
	if !apierrors.IsConflict(err) {
		t.Errorf("deleting another object of that name is answered with %v", err)
	}
	if err := r.admin.Delete(t.Context(), r.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if r.held {
		if r.get(t).GetDeletionTimestamp() == nil {
			t.Error("the object is not terminating")
		}
		if _, err := r.admin.Patch(t.Context(), r.name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.admin.Get(t.Context(), r.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the object still exists: %v", err)
	}
}
