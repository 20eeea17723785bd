// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowvolumeclaim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/test/concurrent"
	"liqo.io/federation/test/etcd"
	"liqo.io/federation/test/registrytest"
)

func TestConcurrentWritersStoreExactlyTheQuota(t *testing.T) {
	endpoint := etcd.Start(t)
	servers := []*server{start(t, endpoint, false), start(t, endpoint, false)}
	servers[0].offer(t, "milan", "rome", amounts("requests.storage", "20Gi"), "fast")
	created, refused := concurrent.Create(t, 32, 10, func(w, i int) error {
		return servers[w%2].create(t.Context(), []string{"web", "shop"}[i%2], fmt.Sprintf("a-%d-%d", w, i), "fast", "1Gi")
	})
	if created != 20 || refused != 300 {
		t.Errorf("got %d created and %d refused, want 20 and 300", created, refused)
	}
}

// TestConsumerRetainsNoMoreThanItsQuota creates and deletes claims of a consumer by 32 writers and two servers. The
// volume of each deleted claim is retained before the claim is released, like by the provider's controller.
func TestConsumerRetainsNoMoreThanItsQuota(t *testing.T) {
	endpoint, volumes := etcd.Start(t), &retained{}
	servers := []*server{startWith(t, endpoint, false, volumes), startWith(t, endpoint, false, volumes)}
	servers[0].offer(t, "milan", "rome", amounts("requests.storage", "20Gi"), "fast")
	retain := func(w, i int) error {
		s, other := servers[w%2], servers[(w+1)%2]
		namespace, name := []string{"web", "shop"}[i%2], fmt.Sprintf("a-%d-%d", w, i)
		if err := s.create(t.Context(), namespace, name, "fast", "1Gi"); err != nil {
			return err
		}
		if err := other.remove(t.Context(), namespace, name); err != nil {
			return err
		}
		volumes.add("milan", name, "fast", "1Gi")
		return other.release(t.Context(), namespace, name)
	}
	created, _ := concurrent.Create(t, 32, 10, retain)
	// A volume and its claim count both for a moment, which may have refused some.
	for created < 100 && retain(created, 100+created) == nil {
		created++
	}
	if kept, _ := volumes.of(t.Context(), "milan"); created != 20 || len(kept) != 20 {
		t.Errorf("%d claims were created and %d volumes are retained, want 20", created, len(kept))
	}
}

// TestStorageQuotaHoldsWhileServersAreReplaced sends requests of 32 writers to two servers. One of the servers is
// replaced by a new one while they run, as after a crash.
func TestStorageQuotaHoldsWhileServersAreReplaced(t *testing.T) {
	endpoint := etcd.Start(t)
	limits := amounts("requests.storage", "20Gi", "persistentvolumeclaims", "9",
		"fast.storageclass.storage.k8s.io/requests.storage", "12Gi",
		"slow.storageclass.storage.k8s.io/requests.storage", "14Gi")
	steady := start(t, endpoint, false)
	steady.offer(t, "milan", "rome", limits, "fast", "slow")
	var current atomic.Pointer[server]
	current.Store(start(t, endpoint, false))
	var grown atomic.Int64
	// refused has the names of the exceeded resources of all refused requests.
	var refused sync.Map
	var writers sync.WaitGroup
	for w := range 32 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			// interrupted sends a request, and cancels some at random. The server may or may not have processed a
			// cancelled request.
			interrupted := func(request func(context.Context) error) error {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if random.IntN(4) == 0 {
					go cancel()
				}
				return request(ctx)
			}
			for i := range 20 {
				s, name := steady, fmt.Sprintf("a-%d-%d", w, i)
				if random.IntN(2) == 0 {
					s = current.Load()
				}
				if err := interrupted(func(ctx context.Context) error {
					return s.create(ctx, "web", name, []string{"fast", "slow"}[random.IntN(2)], fmt.Sprintf("%dGi", 1+random.IntN(3)))
				}); err != nil {
					var status apierrors.APIStatus
					if errors.As(err, &status) && status.Status().Details != nil {
						for _, cause := range status.Status().Details.Causes {
							refused.Store(cause.Field, true)
						}
					}
					continue
				}
				for range random.IntN(3) {
					if interrupted(func(ctx context.Context) error {
						return s.resize(ctx, "web", name, fmt.Sprintf("%dGi", 2+random.IntN(6)), &metav1.UpdateOptions{})
					}) == nil {
						grown.Add(1)
					}
				}
				if err := s.remove(t.Context(), "web", name); err != nil {
					t.Error(err)
				}
				if err := s.release(t.Context(), "web", name); err != nil {
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
	replaced := 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			if replaced++; replaced <= 3 {
				current.Store(start(t, endpoint, false))
			}
		}
		if over := quota.Exceeded(limits, steady.uses(t, "milan")); len(over) > 0 {
			t.Fatalf("usage exceeds the quota: %s", quota.Sentence(over))
		}
	}
	if grown.Load() == 0 {
		t.Error("no claim ever grew")
	}
	for resource := range limits {
		if _, ok := refused.Load(string(resource)); !ok {
			t.Errorf("no claim was ever refused for %s", resource)
		}
	}
}

// step is one request of a writer.
type step struct {
	verb string
	name string
	size int
}

// TestConcurrentRequestsNeverExceedTheStorageQuota sends random requests of concurrent writers for the same claims.
// Some are status updates of the provider, which confirm the requested sizes.
func TestConcurrentRequestsNeverExceedTheStorageQuota(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	limits := amounts("requests.storage", "10Gi", "persistentvolumeclaims", "4",
		"fast.storageclass.storage.k8s.io/requests.storage", "10Gi")
	s.offer(t, "milan", "rome", limits, "fast")
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			rapid.SampledFrom([]string{"create", "resize", "settle", "remove"}).Draw(t, "verb"),
			rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "name"), rapid.IntRange(1, 7).Draw(t, "size"),
		}
	}), 1, 8)
	rapid.Check(t, func(rt *rapid.T) {
		scripts := rapid.SliceOfN(steps, 2, 4).Draw(rt, "writers")
		var writers sync.WaitGroup
		for _, script := range scripts {
			writers.Go(func() {
				for _, step := range script {
					s.run(t, step)
				}
			})
		}
		writers.Wait()
		if over := quota.Exceeded(limits, s.uses(t, "milan")); len(over) > 0 {
			rt.Fatalf("usage exceeds the quota: %s", quota.Sentence(over))
		}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			s.run(t, step{verb: "remove", name: name})
		}
		// After the removal of all claims, the whole quota can be reserved.
		if err := s.create(t.Context(), "web", "a", "fast", "10Gi"); err != nil {
			rt.Fatal(err)
		}
		s.run(t, step{verb: "remove", name: "a"})
	})
}

// run sends the request of a step. It reports a test error if the request fails for another reason than a race or an
// exceeded quota.
func (s *server) run(t *testing.T, step step) {
	var err error
	switch size := fmt.Sprintf("%dGi", step.size); step.verb {
	case "create":
		err = s.create(t.Context(), "web", step.name, "fast", size)
	case "resize":
		err = s.resize(t.Context(), "web", step.name, size, &metav1.UpdateOptions{})
	case "settle":
		// The provider reports that the volume has the requested size.
		allocated := registrytest.Changed(func(c *federation.ShadowVolumeClaim) {
			c.Status.Capacity, c.Status.Allocated = ptr.To(c.Spec.Storage.DeepCopy()), nil
		})
		_, _, err = s.status.Update(in(t.Context(), "web"), step.name, allocated, nil, nil, false, &metav1.UpdateOptions{})
	case "remove":
		if err = s.remove(t.Context(), "web", step.name); err == nil {
			err = s.release(t.Context(), "web", step.name)
		}
	}
	switch {
	case err == nil, apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsAlreadyExists(err),
		apierrors.IsNotFound(err), apierrors.IsConflict(err):
	default:
		t.Errorf("%+v: %v", step, err)
	}
}
