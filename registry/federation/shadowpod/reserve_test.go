// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/registry/federation/reservation/podquota"
	"liqo.io/federation/test/concurrent"
	"liqo.io/federation/test/etcd"
)

func TestShadowPodsStayWithinTheQuota(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.mustRefuse(t, "web", "early", nil, "the quota of consumer milan is exceeded",
		"pods: 1 requested, 0 of 0 granted used, 0 left")
	s.offer(t, "milan", "rome", amounts("cpu", "2", "pods", "10"))
	s.mustCreate(t, "web", "a", amounts("cpu", "1500m"))
	s.mustRefuse(t, "shop", "b", amounts("cpu", "1"), "cpu: 1 requested, 1500m of 2 granted used, 500m left")
	s.mustRefuse(t, "shop", "b", amounts("example.com/gpu", "1"),
		"example.com/gpu: 1 requested, 0 of 0 granted used, 0 left")
	s.mustCreate(t, "shop", "b", amounts("cpu", "500m"))
	s.mustCreate(t, "shop", "without-requests", nil)

	s.offer(t, "milan", "rome-gpus", amounts("example.com/gpu", "2"))
	s.mustCreate(t, "shop", "gpu", amounts("example.com/gpu", "2"))
	s.mustRefuse(t, "shop", "gpu-2", amounts("example.com/gpu", "1"), "2 of 2 granted used, 0 left")

	s.mustRefuse(t, "lab", "a", nil, "consumer turin")
	s.mustRefuse(t, "unlabelled", "a", nil, v1alpha1.LabelForeignCluster)
	s.mustCreate(t, "local", "a", amounts("cpu", "1000"))
}

func TestRefusalsAreForbiddenAndNameEachResource(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "rome", amounts("cpu", "2", "pods", "10"))
	before := refusals(t, trust.RefusedByOffer)
	var status apierrors.APIStatus
	if err := s.create(t.Context(), "web", "a", amounts("cpu", "3", "memory", "1Gi")); !errors.As(err, &status) {
		t.Fatalf("got %v", err)
	}
	if status.Status().Code != http.StatusForbidden || status.Status().Reason != metav1.StatusReasonForbidden {
		t.Errorf("got %d %s", status.Status().Code, status.Status().Reason)
	}
	want := []metav1.StatusCause{
		{Type: v1alpha1.CauseQuotaExceeded, Field: "cpu", Message: "cpu: 3 requested, 0 of 2 granted used, 2 left"},
		{Type: v1alpha1.CauseQuotaExceeded, Field: "memory", Message: "memory: 1Gi requested, 0 of 0 granted used, 0 left"},
	}
	if diff := cmp.Diff(want, status.Status().Details.Causes); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
	// An invalid object is refused as invalid before its quota is checked.
	err := s.create(t.Context(), "web", "a", amounts("cpu", "-3"))
	if !apierrors.IsInvalid(err) {
		t.Errorf("a negative request: got %v, want Invalid", err)
	}
	if got := refusals(t, trust.RefusedByOffer) - before; got != 1 {
		t.Errorf("%d refusals were counted, want that of the exceeded quota", got)
	}
}

func TestFinishedShadowPodReleasesItsQuota(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "rome", amounts("pods", "1"))
	for i := range 20 {
		s.mustCreate(t, "web", named("finished", i), nil)
		s.mustRefuse(t, "shop", "a", nil)
		if err := s.finish(t.Context(), "web", named("finished", i)); err != nil {
			t.Fatal(err)
		}
		s.mustCreate(t, "shop", "a", nil)
		if err := s.remove(t.Context(), "shop", "a"); err != nil {
			t.Fatal(err)
		}
		// Deleting a finished shadow pod releases nothing more.
		if err := s.remove(t.Context(), "web", named("finished", i)); err != nil {
			t.Fatal(err)
		}
	}
	s.mustCreate(t, "web", "last", nil)
	s.mustRefuse(t, "web", "one-too-many", nil)
}

func TestFailedCreationReservesNothing(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "rome", amounts("pods", "2"))
	s.mustCreate(t, "web", "a", nil)
	dry := &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for range 3 {
		if _, err := s.pods.Create(in(t.Context(), "web"), shadowPod("web", "dry", nil), rest.ValidateAllObjectFunc,
			dry); err != nil {
			t.Fatal(err)
		}
		if err := s.create(t.Context(), "web", "a", nil); !apierrors.IsAlreadyExists(err) {
			t.Fatalf("an existing name: got %v, want AlreadyExists", err)
		}
		errRefused := errors.New("refused")
		refuse := func(context.Context, runtime.Object) error { return errRefused }
		if _, err := s.pods.Create(in(t.Context(), "web"), shadowPod("web", "b", nil), refuse,
			&metav1.CreateOptions{}); !errors.Is(err, errRefused) {
			t.Fatalf("refused by admission: got %v, want %v", err, errRefused)
		}
	}
	s.mustCreate(t, "web", "b", nil)
	if _, err := s.pods.Create(in(t.Context(), "web"), shadowPod("web", "dry", nil), rest.ValidateAllObjectFunc,
		dry); !apierrors.IsForbidden(err) {
		t.Errorf("a dry run beyond the quota: got %v, want Forbidden", err)
	}
	deleted := &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	if _, _, err := s.pods.Delete(in(t.Context(), "web"), "a", rest.ValidateAllObjectFunc, deleted); err != nil {
		t.Fatal(err)
	}
	s.mustRefuse(t, "web", "c", nil)
}

func TestAppliedShadowPodsCount(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "rome", amounts("pods", "1"))
	apply := func(name string) error {
		_, _, err := s.pods.Update(in(t.Context(), "web"), name,
			rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
				if existing := old.(*federation.ShadowPod); existing.ResourceVersion != "" {
					return existing.DeepCopy(), nil
				}
				return shadowPod("web", name, nil), nil
			}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, true, &metav1.UpdateOptions{})
		return err
	}
	for range 2 {
		if err := apply("a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := apply("b"); !apierrors.IsForbidden(err) {
		t.Errorf("apply beyond the quota: got %v, want Forbidden", err)
	}
}

func TestLoweredQuotaDeletesNothingAndAdmitsNothing(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "rome", amounts("pods", "5", "cpu", "4"))
	for i := range 4 {
		s.mustCreate(t, "web", named("a", i), amounts("cpu", "1"))
	}
	s.offers.Change(t, "milan", "rome", func(o *federation.ResourceOffer) {
		o.Spec.Resources = amounts("pods", "5", "cpu", "2")
	})
	s.mustRefuse(t, "web", "b", amounts("cpu", "100m"), "100m requested, 4 of 2 granted used, 0 left")
	s.mustCreate(t, "web", "needs-no-cpu", nil)
	for i := range 3 {
		if err := s.finish(t.Context(), "web", named("a", i)); err != nil {
			t.Fatal(err)
		}
	}
	s.mustCreate(t, "web", "b", amounts("cpu", "1"))
	s.offers.Change(t, "milan", "rome", func(o *federation.ResourceOffer) { o.Spec.Withdrawn = true })
	s.mustRefuse(t, "web", "c", nil, "0 granted used")
	if n := len(s.live(t)); n != 3 {
		t.Errorf("got %d shadow pods, want 3", n)
	}
}

func TestResizedShadowPodStaysWithinTheQuota(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "rome", amounts("cpu", "2", "memory", "1Gi", "pods", "10"))
	s.mustCreate(t, "web", "a", amounts("cpu", "500m"))
	s.mustCreate(t, "shop", "b", amounts("cpu", "1", "memory", "512Mi"))
	now, dry := &metav1.UpdateOptions{}, &metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}
	must := func(namespace, name string, requests corev1.ResourceList) {
		t.Helper()
		if err := s.resize(t.Context(), namespace, name, requests, now); err != nil {
			t.Fatalf("%s/%s: %v", namespace, name, err)
		}
	}
	refused := func(namespace, name string, requests corev1.ResourceList, message string) {
		t.Helper()
		for _, options := range []*metav1.UpdateOptions{dry, now} {
			err := s.resize(t.Context(), namespace, name, requests, options)
			if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, v1alpha1.CauseQuotaExceeded) ||
				!strings.Contains(err.Error(), message) {
				t.Fatalf("%s/%s: got %v, want %q", namespace, name, err, message)
			}
		}
	}
	allocated := func(want corev1.ResourceList) {
		t.Helper()
		stored, err := s.pods.Get(in(t.Context(), "shop"), "b", &metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, stored.(*federation.ShadowPod).Status.AllocatedResources); diff != "" {
			t.Fatalf("allocatedResources of b (-want +got):\n%s", diff)
		}
	}
	must("web", "a", amounts("cpu", "1"))
	refused("web", "a", amounts("cpu", "1500m"), "cpu: 500m requested, 2 of 2 granted used, 0 left")
	refused("shop", "b", amounts("cpu", "500m", "memory", "2Gi"),
		"memory: 1536Mi requested, 512Mi of 1Gi granted used, 512Mi left")
	s.mustRefuse(t, "web", "c", amounts("cpu", "1m"))

	// The usage of a pod until its resize is not available to other pods.
	must("shop", "b", amounts("cpu", "400m", "memory", "1Gi"))
	allocated(amounts("cpu", "1"))
	refused("web", "a", amounts("cpu", "1100m"), "cpu: 100m requested, 2 of 2 granted used, 0 left")
	must("shop", "b", amounts("cpu", "600m", "memory", "1Gi"))
	allocated(amounts("cpu", "1"))
	must("shop", "b", amounts("cpu", "1", "memory", "1Gi"))
	allocated(nil)
	must("shop", "b", amounts("cpu", "500m", "memory", "1Gi"))
	if err := s.settle(t.Context(), "shop", "b"); err != nil {
		t.Fatal(err)
	}
	must("web", "a", amounts("cpu", "1500m"))
	s.mustRefuse(t, "web", "c", amounts("cpu", "1m"))

	// A shadow pod outside of remote namespaces uses no quota.
	s.mustCreate(t, "local", "d", amounts("cpu", "1"))
	must("local", "d", amounts("cpu", "1000"))
}

// If a peer could delete a shadow pod before its pod, the quota would be released too early, or the pod orphaned.
func TestPeerCannotReleaseTheQuotaOfARunningPod(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "rome", amounts("pods", "1"))
	peer := genericapirequest.WithUser(in(t.Context(), "web"),
		&user.DefaultInfo{Name: "the-peering", Groups: []string{v1alpha1.PeerGroup}})
	pod := shadowPod("web", "a", nil)
	pod.Finalizers = []string{metav1.FinalizerOrphanDependents}
	if _, err := s.pods.Create(peer, pod, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	finalizers := func(requested []string) []string {
		t.Helper()
		_, _, err := s.pods.Update(peer, "a", rest.DefaultUpdatedObjectInfo(nil,
			func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
				changed := old.DeepCopyObject().(*federation.ShadowPod)
				changed.Finalizers = requested
				return changed, nil
			}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stored, err := s.pods.Get(peer, "a", &metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return stored.(*federation.ShadowPod).Finalizers
	}
	for _, requested := range [][]string{nil, {metav1.FinalizerOrphanDependents, v1alpha1.Finalizer}} {
		if diff := cmp.Diff([]string{v1alpha1.Finalizer}, finalizers(requested)); diff != "" {
			t.Errorf("finalizers (-want +got):\n%s", diff)
		}
	}
	orphan := &metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)}
	if _, _, err := s.pods.Delete(peer, "a", rest.ValidateAllObjectFunc, orphan); !apierrors.IsBadRequest(err) {
		t.Errorf("a deletion that orphans the pod: got %v, want BadRequest", err)
	}
	for _, grace := range []*int64{nil, ptr.To[int64](0)} {
		if _, _, err := s.pods.Delete(peer, "a", rest.ValidateAllObjectFunc,
			&metav1.DeleteOptions{GracePeriodSeconds: grace}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{v1alpha1.Finalizer}, finalizers(nil)); diff != "" {
			t.Errorf("finalizers during the deletion (-want +got):\n%s", diff)
		}
	}
	s.mustRefuse(t, "web", "b", nil)
}

func TestShadowPodsCreatedBeforeThePeeringCount(t *testing.T) {
	endpoint := etcd.Start(t)
	before := start(t, endpoint, true)
	unpeered := *before.pods
	unpeered.ConsumerOf = func(context.Context, string) (string, bool, error) { return "", false, nil }
	before.pods = &unpeered
	before.mustCreate(t, "web", "a", amounts("cpu", "1"))
	before.mustCreate(t, "local", "b", amounts("cpu", "1"))
	before.stop()

	s := start(t, endpoint, true)
	s.offer(t, "milan", "rome", amounts("cpu", "1", "pods", "10"))
	watcher, err := s.pods.Watch(in(t.Context(), "web"), &internalversion.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		object := event.Object
		if shared, ok := object.(runtime.CacheableObject); ok {
			object = shared.GetObject()
		}
		if object.(*federation.ShadowPod).Status.ForeignCluster == "milan" {
			break
		}
	}
	if uses := s.uses(t, "milan")[corev1.ResourceCPU]; uses.String() != "1" {
		t.Errorf("milan uses %s CPUs", uses.String())
	}
	s.mustCreate(t, "web", "needs-no-cpu", nil)
	deadline, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for s.create(deadline, "web", "c", amounts("cpu", "1")) == nil {
		// The ledger counts pod a only after the watch reported its consumer.
		if err := s.remove(deadline, "web", "c"); err != nil {
			t.Fatal(err)
		}
	}
	s.mustRefuse(t, "web", "c", amounts("cpu", "1"), "1 of 1 granted used")
}

// live returns all stored shadow pods that use quota and are not finished.
func (s *server) live(t testing.TB) map[types.UID]*federation.ShadowPod {
	t.Helper()
	list, err := s.pods.List(in(context.Background(), metav1.NamespaceAll), &internalversion.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	live := map[types.UID]*federation.ShadowPod{}
	for i := range list.(*federation.ShadowPodList).Items {
		if pod := &list.(*federation.ShadowPodList).Items[i]; pod.Status.Phase == "" && pod.Status.ForeignCluster != "" {
			live[pod.UID] = pod
		}
	}
	return live
}

// uses returns the total usage of a consumer's stored shadow pods.
func (s *server) uses(t testing.TB, consumer string) corev1.ResourceList {
	used := corev1.ResourceList{}
	for _, pod := range s.live(t) {
		if pod.Status.ForeignCluster == consumer {
			quota.Add(used, podquota.Uses(pod))
		}
	}
	return used
}

func TestConcurrentWritersCreateExactlyTheQuota(t *testing.T) {
	endpoint := etcd.Start(t)
	servers := []*server{start(t, endpoint, false), start(t, endpoint, false)}
	servers[0].offer(t, "milan", "rome", amounts("cpu", "2", "pods", "1000"))
	created, refused := concurrent.Create(t, 32, 10, func(w, i int) error {
		return servers[w%2].create(t.Context(), []string{"web", "shop"}[i%2], named(named("a", w), i), amounts("cpu", "100m"))
	})
	if created != 20 || refused != 300 {
		t.Errorf("got %d created and %d refused, want 20 and 300", created, refused)
	}
}

// TestQuotaHoldsWhileServersAreReplaced sends concurrent requests to two servers while the quota is exhausted. One of
// the servers is repeatedly replaced by a new one, as after a crash.
func TestQuotaHoldsWhileServersAreReplaced(t *testing.T) {
	endpoint := etcd.Start(t)
	limits := amounts("cpu", "1", "pods", "15")
	steady := start(t, endpoint, false)
	steady.offer(t, "milan", "rome", limits)
	var current atomic.Pointer[server]
	current.Store(start(t, endpoint, false))

	var resized atomic.Int64
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range 60 {
				s := steady
				if random.IntN(2) == 0 {
					s = current.Load()
				}
				name := named(named("a", w), i)
				// The server may or may not have processed a cancelled request.
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(4) == 0 {
					go cancel()
				}
				err := s.create(ctx, "web", name, amounts("cpu", []string{"50m", "100m", "200m"}[random.IntN(3)]))
				cancel()
				if err != nil {
					continue
				}
				for range random.IntN(2) {
					ctx, cancel := context.WithCancel(t.Context())
					if random.IntN(4) == 0 {
						go cancel()
					}
					// A resize may be refused, or conflict with a cancelled request.
					if s.resize(ctx, "web", name, amounts("cpu", []string{"20m", "100m", "300m"}[random.IntN(3)]),
						&metav1.UpdateOptions{}) == nil {
						resized.Add(1)
					}
					cancel()
					if random.IntN(2) == 0 {
						_ = s.settle(t.Context(), "web", name)
					}
				}
				if random.IntN(2) == 0 {
					err = s.finish(t.Context(), "web", name)
				} else {
					err = s.remove(t.Context(), "web", name)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		writers.Wait()
	}()
	var replaced []*server
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			if over := quota.Exceeded(limits, steady.uses(t, "milan")); len(over) > 0 {
				t.Fatalf("usage exceeds the quota: %s", quota.Sentence(over))
			}
			if len(replaced) < 5 {
				replaced = append(replaced, current.Swap(start(t, endpoint, false)))
			}
		}
	}
	if over := quota.Exceeded(limits, steady.uses(t, "milan")); len(over) > 0 {
		t.Errorf("usage exceeds the quota: %s", quota.Sentence(over))
	}
	if resized.Load() == 0 {
		t.Error("nothing was ever resized")
	}
}

func BenchmarkCreate(b *testing.B) {
	s := start(b, etcd.Start(b), true)
	s.offer(b, "milan", "rome", amounts("cpu", "1000000", "pods", "1000000"))
	for _, bench := range []struct{ name, namespace string }{{"Remote", "web"}, {"Local", "local"}} {
		b.Run(bench.name, func(b *testing.B) {
			var n atomic.Int64
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := s.create(b.Context(), bench.namespace, named(named("b", b.N), int(n.Add(1))),
						amounts("cpu", "1m")); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
