// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"liqo.io/federation/controllers/commit"
)

func TestControllerRuntimeMetricsDoNotCollideWithProcessMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	for _, name := range []string{"controller_runtime_reconcile_total", "workqueue_adds_total", "go_goroutines"} {
		registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: name}))
	}
	families, err := withoutDuplicates(registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	want := []string{"controller_runtime_reconcile_total", "controller_runtime_workqueue_adds_total"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("gathered metrics (-want +got):\n%s", diff)
	}
	if _, err := (prometheus.Gatherers{legacyregistry.DefaultGatherer, Metrics()}).Gather(); err != nil {
		t.Errorf("the process cannot gather its metrics: %v", err)
	}
}

func TestCacheKeepsThePodFieldsThatControllersRead(t *testing.T) {
	claim := corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"},
	}}
	ephemeral := corev1.Volume{Name: "tmp", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "db-0", Namespace: "shop", UID: "1", Annotations: map[string]string{"large": "value"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec: corev1.PodSpec{
			NodeName: "worker", Containers: []corev1.Container{{Name: "db"}},
			Volumes: []corev1.Volume{claim, {Name: "scratch"}, ephemeral}, HostNetwork: true,
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
		},
	}
	stateless := pod.DeepCopy()
	stateless.Spec.Volumes = pod.Spec.Volumes[1:2]

	kept, err := TrimPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "db-0", Namespace: "shop", UID: "1",
			Annotations: map[string]string{"large": "value"}},
		Spec:   corev1.PodSpec{NodeName: "worker", Volumes: []corev1.Volume{claim, ephemeral}, HostNetwork: true},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: pod.Status.PodIPs},
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("pod with claims (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"data-db-0", "db-0-tmp"}, ClaimsOf(want)); diff != "" {
		t.Errorf("claims of the pod (-want +got):\n%s", diff)
	}
	kept, err = TrimPod(stateless)
	if err != nil {
		t.Fatal(err)
	}
	want = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "db-0", Namespace: "shop", UID: "1"},
		Spec:       corev1.PodSpec{NodeName: "worker", HostNetwork: true},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: pod.Status.PodIPs},
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("pod without claims (-want +got):\n%s", diff)
	}
}

func TestCommitPatchesOnlyChangedFields(t *testing.T) {
	stored := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "shop", UID: "1"}}
	writer := fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(stored).
		WithStatusSubresource(stored).Build()
	claim := &corev1.PersistentVolumeClaim{}
	if err := writer.Get(t.Context(), client.ObjectKeyFromObject(stored), claim); err != nil {
		t.Fatal(err)
	}

	unchanged := claim.DeepCopy()
	if sent, err := Commit(t.Context(), writer, claim, unchanged); sent || err != nil {
		t.Errorf("without a change: sent %v, error %v", sent, err)
	}
	bound := claim.DeepCopy()
	bound.Status.Phase = corev1.ClaimBound
	if sent, err := Commit(t.Context(), writer, claim, bound); !sent || err != nil {
		t.Errorf("change of the status: sent %v, error %v", sent, err)
	}
	if _, err := Commit(t.Context(), writer, claim, bound); !apierrors.IsConflict(err) {
		t.Errorf("change of an old version: error %v, want a conflict", err)
	}
	both := bound.DeepCopy()
	both.Labels = map[string]string{"app": "db"}
	if _, err := Commit(t.Context(), writer, claim, both); !errors.Is(err, commit.ErrBothChanged) {
		t.Errorf("change of object and status: error %v, want %v", err, commit.ErrBothChanged)
	}
	if err := writer.Get(t.Context(), client.ObjectKeyFromObject(stored), claim); err != nil ||
		claim.Status.Phase != corev1.ClaimBound {
		t.Errorf("phase %q, error %v, want Bound", claim.Status.Phase, err)
	}
}

func TestPredicatesSelectReplacedObjectsToo(t *testing.T) {
	finished := func(_, current *corev1.Pod) bool { return current.Status.Phase == corev1.PodSucceeded }
	type selected struct{ Created, Unchanged, Finished, Replaced, Deleted bool }
	for name, test := range map[string]struct {
		predicate predicate.Predicate
		want      selected
	}{
		"Changed":          {Changed(finished), selected{Created: true, Finished: true, Replaced: true, Deleted: true}},
		"ChangedOrDeleted": {ChangedOrDeleted(finished), selected{Finished: true, Replaced: true, Deleted: true}},
		"CreatedOrDeleted": {CreatedOrDeleted(), selected{Created: true, Replaced: true, Deleted: true}},
		"Created":          {Created(), selected{Created: true, Replaced: true}},
		"Deleted":          {Deleted(), selected{Replaced: true, Deleted: true}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "shop", UID: "1"}}
			done, replaced := pod.DeepCopy(), pod.DeepCopy()
			done.Status.Phase, replaced.UID = corev1.PodSucceeded, "2"
			got := selected{
				Created:   test.predicate.Create(event.CreateEvent{Object: pod}),
				Unchanged: test.predicate.Update(event.UpdateEvent{ObjectOld: pod, ObjectNew: pod}),
				Finished:  test.predicate.Update(event.UpdateEvent{ObjectOld: pod, ObjectNew: done}),
				Replaced:  test.predicate.Update(event.UpdateEvent{ObjectOld: pod, ObjectNew: replaced}),
				Deleted:   test.predicate.Delete(event.DeleteEvent{Object: pod}),
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("selected events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResultsOfConflictsAndExistingObjectsAreNoErrors(t *testing.T) {
	resource := corev1.Resource("pods")
	exists, conflict := apierrors.NewAlreadyExists(resource, "db"), apierrors.NewConflict(resource, "db", nil)
	failed := errors.New("failed")
	type result struct {
		After time.Duration
		Err   error
	}
	for name, test := range map[string]struct {
		err            error
		result, create result
	}{
		"no error":       {nil, result{time.Hour, nil}, result{time.Hour, nil}},
		"conflict":       {conflict, result{conflictDelay, nil}, result{conflictDelay, nil}},
		"already exists": {exists, result{0, exists}, result{createDelay, nil}},
		"another error":  {failed, result{0, failed}, result{0, failed}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Result(time.Hour, test.err)
			if diff := cmp.Diff(test.result, result{got.RequeueAfter, err}, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("Result (-want +got):\n%s", diff)
			}
			got, err = CreateResult(time.Hour, test.err)
			if diff := cmp.Diff(test.create, result{got.RequeueAfter, err}, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("CreateResult (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeleteIgnoresAReplacedObject(t *testing.T) {
	for name, answer := range map[string]error{
		"missing":  apierrors.NewNotFound(corev1.Resource("pods"), "db"),
		"replaced": apierrors.NewConflict(corev1.Resource("pods"), "db", errors.New("uid differs")),
		"refused":  apierrors.NewForbidden(corev1.Resource("pods"), "db", errors.New("not allowed")),
	} {
		t.Run(name, func(t *testing.T) {
			writer := &deletions{answer: answer}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "shop", UID: "1"}}
			err := Delete(t.Context(), writer, pod)
			if failed := err != nil; failed != (name == "refused") {
				t.Errorf("error %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), "shop/db") {
				t.Errorf("error %q does not name the pod", err)
			}
			if uid := writer.options.Preconditions.UID; uid == nil || *uid != "1" {
				t.Errorf("deleted with UID %v, want 1", uid)
			}
		})
	}
}

// deletions is a client whose Delete returns an error and records its options.
type deletions struct {
	client.Client
	answer  error
	options client.DeleteOptions
}

func (d *deletions) Delete(_ context.Context, _ client.Object, options ...client.DeleteOption) error {
	d.options.ApplyOptions(options)
	return d.answer
}

// pagedEvents is a client.Reader of events that returns them in pages, sorted by name, as the API server does.
type pagedEvents struct {
	client.Reader
	events []corev1.Event
	read   int
}

func (p *pagedEvents) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	requested := (&client.ListOptions{}).ApplyOptions(options)
	first := 0
	if requested.Continue != "" {
		var err error
		if first, err = strconv.Atoi(requested.Continue); err != nil {
			return err
		}
	}
	next := min(first+int(requested.Limit), len(p.events))
	events := list.(*corev1.EventList)
	events.Items = p.events[first:next]
	p.read += next - first
	if next < len(p.events) {
		events.Continue = strconv.Itoa(next)
	}
	return nil
}

func TestProvisioningWarningIsTheNewestEventOfAllPages(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	// The name of an event ends with the time of its creation, so the newest is the last.
	many := func(count int) []corev1.Event {
		var events []corev1.Event
		for i := range count {
			events = append(events, corev1.Event{Message: strconv.Itoa(i), LastTimestamp: metav1.NewTime(at(i + 1))})
		}
		return events
	}
	updated := many(2 * warningsPage)
	updated[1].LastTimestamp = metav1.NewTime(at(1000))
	series := corev1.Event{
		Message: "series", EventTime: metav1.NewMicroTime(at(1)),
		Series: &corev1.EventSeries{Count: 2, LastObservedTime: metav1.NewMicroTime(at(1000))},
	}
	own := corev1.Event{
		Message: "own", Source: corev1.EventSource{Component: "storage"}, LastTimestamp: metav1.NewTime(at(1000)),
	}
	for _, test := range []struct {
		name   string
		events []corev1.Event
		age    time.Duration
		want   string
		read   int
	}{
		{"the claim is new", many(1), firstWarning - 1, "", 0},
		{"no events", nil, time.Minute, "", 0},
		{"one page", many(warningsPage), time.Minute, "15", warningsPage},
		{"the newest is on the second page", many(warningsPage + 1), time.Minute, "16", warningsPage + 1},
		{"the newest is on the first page", updated, time.Minute, "1", 2 * warningsPage},
		{"the newest is a series", append([]corev1.Event{series}, many(2)...), time.Minute, "series", 3},
		{"the newest is excepted", append(many(2), own), time.Minute, "1", 3},
		{"at most maxWarnings are read", many(2 * maxWarnings), time.Minute, "255", maxWarnings},
	} {
		t.Run(test.name, func(t *testing.T) {
			reader := &pagedEvents{events: test.events}
			got, again, err := ProvisioningWarning(
				t.Context(), reader, &corev1.PersistentVolumeClaim{}, test.age, "storage",
			)
			if err != nil || got != test.want || again != max(test.age, firstWarning) {
				t.Errorf("got %q, again after %s, error %v, want %q", got, again, err, test.want)
			}
			if reader.read != test.read {
				t.Errorf("read %d events, want %d", reader.read, test.read)
			}
		})
	}
}
