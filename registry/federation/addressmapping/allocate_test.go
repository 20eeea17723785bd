// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addressmapping

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/apiserver/addresses"
	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/registry/federation/reservation/addressrange"
	"liqo.io/federation/test/etcd"
)

func TestOnlyConflictingRangesAreRemapped(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.pool(t, "default", []string{"10.0.0.0/8", "fd00:10::/32"}, "10.244.0.0/16")
	s.pool(t, "external", []string{"10.1.0.0/24"})

	s.mustMap(t, "disjoint", "10.7.0.0/16", "10.7.0.0/16")
	s.mustMap(t, "outside", "100.64.0.0/16", "100.64.0.0/16")
	s.mustMap(t, "reserved", "10.244.0.0/16", "10.255.0.0/16")
	s.mustMap(t, "again", "10.7.0.0/16", "10.254.0.0/16")
	s.mustMap(t, "part", "100.64.3.0/24", "10.253.255.0/24")
	s.mustMap(t, "six", "2001:db8::/64", "2001:db8::/64")
	s.mustMap(t, "six-again", "2001:db8::/64", "fd00:10:ffff:ffff::/64")
	s.mustMap(t, "address", "192.0.2.1", "10.253.240.0/20")
	s.mustMap(t, "address-six", "2001:db8::1", "fd00:10:ffff:fffe:ffff:ffff:ffff:f000/116")

	external := mapping("api", "192.0.2.6")
	external.Spec.Pool = "external"
	if got, err := s.create(t.Context(), external); err != nil || !strings.HasPrefix(got, "10.1.0.") {
		t.Errorf("got %s, %v", got, err)
	}
	// Pools may overlap, but no allocated ranges do.
	s.mustMap(t, "around", "10.1.0.0/16", "10.252.0.0/16")

	requested := mapping("requested", "192.0.2.7")
	requested.Spec.Mapped = "10.1.2.3"
	if got, err := s.create(t.Context(), requested); err != nil || got != "10.1.2.3" {
		t.Errorf("got %s, %v", got, err)
	}
	requested = mapping("requested-again", "192.0.2.8")
	requested.Spec.Mapped = "10.1.2.3"
	_, err := s.create(t.Context(), requested)
	expectRefusal(t, err, http.StatusForbidden, v1alpha1.CauseAddressTaken, "AddressPool default: 10.1.2.3/32 is in use")

	nowhere := mapping("nowhere", "192.0.2.9")
	nowhere.Spec.Pool = "nowhere"
	_, err = s.create(t.Context(), nowhere)
	expectRefusal(t, err, http.StatusUnprocessableEntity, metav1.CauseTypeFieldValueInvalid, "spec.pool")
	open := mapping("open", "192.0.2.9")
	open.Spec.Ports = nil
	_, err = s.create(t.Context(), open)
	expectRefusal(t, err, http.StatusUnprocessableEntity, metav1.CauseTypeFieldValueRequired, "spec.ports")
	if _, err := s.create(t.Context(), mapping("bad", "10.7.0.1/16")); !apierrors.IsInvalid(err) {
		t.Errorf("host bits: %v", err)
	}
}

func TestRemappedRangeNeverKeepsItself(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.pool(t, "default", []string{"10.0.0.0/8"})
	for _, test := range []struct{ name, cidr, mapped, want string }{
		{"in-the-pool", "10.7.0.0/16", "", "10.255.0.0/16"},
		{"outside-of-the-pool", "192.168.1.53/32", "", "10.254.240.0/20"},
		{"at-its-upper-end", "10.253.0.0/16", "", "10.252.0.0/16"},
		{"requested", "10.8.0.0/16", "10.9.0.0/16", "10.9.0.0/16"},
	} {
		m := mapping(test.name, test.cidr)
		m.Spec.Remap, m.Spec.Mapped = true, test.mapped
		got, err := s.create(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := prefixOf(t, got), prefixOf(t, test.want); got.Bits() < want.Bits() || !want.Contains(got.Addr()) {
			t.Errorf("%s is mapped to %s, want %s", test.cidr, got, want)
		}
	}
	outside := mapping("itself", "100.64.0.0/16")
	outside.Spec.Remap, outside.Spec.Mapped = true, outside.Spec.CIDR
	_, err := s.create(t.Context(), outside)
	expectRefusal(t, err, http.StatusForbidden, v1alpha1.CauseAddressTaken, "100.64.0.0/16 is not in its CIDRs")
}

func TestExhaustedPoolFailsCreationAndReservesNothing(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.pool(t, "default", []string{"10.0.0.0/30"}, "10.0.0.0/32")
	for i := range 3 {
		s.mustMap(t, fmt.Sprint("a-", i), "192.0.2.1", "10.0.0.0/30")
	}
	for range 3 {
		_, err := s.create(t.Context(), mapping("one-too-many", "192.0.2.1"))
		expectRefusal(t, err, http.StatusForbidden, v1alpha1.CauseAddressesExhausted,
			"AddressPool default: it has no free IPv4 range of the size /32 left")
		_, err = s.create(t.Context(), mapping("six", "2001:db8::1"))
		expectRefusal(t, err, http.StatusForbidden, v1alpha1.CauseAddressesExhausted, "it has no IPv6 CIDR")
		if _, err := s.create(t.Context(), mapping("dry", "192.0.2.1"), metav1.DryRunAll); !apierrors.IsForbidden(err) {
			t.Errorf("a dry run: %v", err)
		}
	}
	s.delete(t, "a-1")
	s.mustMap(t, "fits", "192.0.2.1", "10.0.0.0/30")
}

func TestFailedCreationReservesNothing(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.pool(t, "default", []string{"10.0.0.0/31"})
	left := map[string]string{"10.0.0.0": "10.0.0.1", "10.0.0.1": "10.0.0.0"}[s.mustMap(t, "a", "192.0.2.1",
		"10.0.0.0/31")]
	for range 3 {
		if got, err := s.create(t.Context(), mapping("dry", "192.0.2.1"), metav1.DryRunAll); err != nil || got != left {
			t.Fatalf("a dry run gets %s, %v", got, err)
		}
		if _, err := s.create(t.Context(), mapping("a", "192.0.2.1")); !apierrors.IsAlreadyExists(err) {
			t.Fatalf("the same again: %v", err)
		}
		var shown string
		unwelcome := errors.New("unwelcome")
		refuse := func(_ context.Context, obj runtime.Object) error {
			shown = obj.(*federation.AddressMapping).Spec.Mapped
			return apierrors.NewForbidden(federation.Resource("addressmappings"), "b", unwelcome)
		}
		if _, err := s.mappings.Create(in(t.Context()), mapping("b", "192.0.2.1"), refuse,
			&metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Fatalf("admission refuses: %v", err)
		}
		if shown != left {
			t.Errorf("admission is shown %q", shown)
		}
	}
	s.mustMap(t, "b", "192.0.2.1", left)
	dry := &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	if _, _, err := s.mappings.Delete(in(t.Context()), "a", rest.ValidateAllObjectFunc, dry); err != nil {
		t.Fatal(err)
	}
	if _, err := s.create(t.Context(), mapping("c", "192.0.2.1")); !apierrors.IsForbidden(err) {
		t.Errorf("after the dry run of a deletion: %v", err)
	}
}

func TestAppliedMappingIsAllocatedOnce(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.pool(t, "default", []string{"10.0.0.0/32"})
	apply := func(name string) (*federation.AddressMapping, error) {
		updated, _, err := s.mappings.Update(in(t.Context()), name,
			rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
				requested := mapping(name, "192.0.2.1")
				requested.ResourceVersion = old.(*federation.AddressMapping).ResourceVersion
				return requested, nil
			}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, true, &metav1.UpdateOptions{})
		if err != nil {
			return nil, err
		}
		return updated.(*federation.AddressMapping), nil
	}
	var versions []string
	for range 2 {
		applied, err := apply("a")
		if err != nil {
			t.Fatal(err)
		}
		if applied.Spec.Mapped != "10.0.0.0" {
			t.Errorf("it is mapped to %q", applied.Spec.Mapped)
		}
		versions = append(versions, applied.ResourceVersion)
	}
	if versions[0] != versions[1] {
		t.Errorf("a second apply wrote the object: %v", versions)
	}
	if _, err := apply("b"); !apierrors.IsForbidden(err) {
		t.Errorf("a mapping beyond the pool is applied: %v", err)
	}
}

// Peers may use a released address for a short time, and must not reach another endpoint.
func TestReleasedAddressIsNotAllocatedNext(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.pool(t, "default", []string{"10.0.0.0/16", "fd00:10::/64"})
	for _, what := range []string{"192.0.2.1", "2001:db8::1"} {
		allocated := map[string]bool{}
		for range 20 {
			got, err := s.create(t.Context(), mapping("a", what))
			if err != nil {
				t.Fatal(err)
			}
			allocated[got] = true
			s.delete(t, "a")
		}
		// Twenty random addresses of 4096 are very unlikely to include fewer than ten different ones.
		if len(allocated) < 10 {
			t.Errorf("%s: only %v were allocated", what, allocated)
		}
	}
}

func TestTwoServersNeverAllocateAnAddressTwice(t *testing.T) {
	endpoint := etcd.Start(t)
	servers := []*server{start(t, endpoint, false), start(t, endpoint, false)}
	servers[0].pool(t, "default", []string{"10.0.0.0/24"}, "10.0.0.0/26")
	var writers sync.WaitGroup
	for w := range 16 {
		writers.Go(func() {
			s := servers[w%2]
			for i := range 12 {
				name := fmt.Sprintf("w%d-%d", w, i)
				// The first of these CIDRs may keep its range; all others must get another one.
				m := mapping(name, []string{"172.16.0.0/28", "192.0.2.1"}[i%2])
				switch _, err := s.create(t.Context(), m); {
				case apierrors.IsForbidden(err):
				case err != nil:
					t.Error(err)
				case i%3 == 0:
					s.delete(t, name)
				}
			}
		})
	}
	writers.Wait()
	found := servers[0].all(t)
	if len(found) < 10 {
		t.Errorf("only %d mappings exist", len(found))
	}
	pool := netip.MustParsePrefix("10.0.0.0/24")
	reserved := netip.MustParsePrefix("10.0.0.0/26")
	kept := netip.MustParsePrefix("172.16.0.0/28")
	for prefix, name := range found {
		if prefix != kept && !pool.Overlaps(prefix) || reserved.Overlaps(prefix) {
			t.Errorf("%s has %s", name, prefix)
		}
	}
}

func TestAbandonedAddressIsReleased(t *testing.T) {
	endpoint := etcd.Start(t)
	dead := start(t, endpoint, true)
	dead.pool(t, "default", []string{"10.0.0.0/32"})
	request := addressrange.Request{Pool: "default",
		Request: addresses.Request{Range: netip.MustParsePrefix("192.0.2.1/32")}}
	if _, err := dead.addresses.Reserve(t.Context(), addressrange.Account, types.UID("never-created"),
		request); err != nil {
		t.Fatal(err)
	}
	_, err := dead.create(t.Context(), mapping("a", "192.0.2.1"))
	expectRefusal(t, err, http.StatusForbidden, v1alpha1.CauseAddressesExhausted, "left")
	dead.stop()

	successor := start(t, endpoint, true)
	if err := successor.addresses.Repair(t.Context(), successor.mappings); err != nil {
		t.Fatal(err)
	}
	successor.mustMap(t, "a", "192.0.2.1", "10.0.0.0")
}

func TestPoolReportsItsUsage(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.pool(t, "default", []string{"10.0.0.0/8", "192.168.0.0/30"}, "10.0.0.0/9")
	s.mustMap(t, "a", "10.128.0.0/9", "10.128.0.0/9")
	// The largest free range is the half of 192.168.0.0/30 without the allocated address.
	other := "192.168.0.0/31"
	if got := s.mustMap(t, "b", "192.0.2.1",
		"192.168.0.0/30"); netip.MustParsePrefix(other).Contains(netip.MustParseAddr(got)) {
		other = "192.168.0.2/31"
	}
	want := federation.AddressPoolStatus{ObservedGeneration: 1, Mappings: 2, CIDRs: []federation.AddressPoolCIDRStatus{
		{CIDR: "10.0.0.0/8", UsedPercent: 100}, {CIDR: "192.168.0.0/30", UsedPercent: 25, LargestFree: other},
	}}
	expect := func(want federation.AddressPoolStatus) string {
		t.Helper()
		watcher, err := s.pools.Watch(t.Context(), &internalversion.ListOptions{ResourceVersion: "0"})
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Stop()
		deadline := time.After(time.Minute)
		var got federation.AddressPoolStatus
		for {
			select {
			case <-deadline:
				t.Fatalf("the status (-want +got):\n%s", cmp.Diff(want, got))
			case event := <-watcher.ResultChan():
				object := event.Object
				if shared, ok := object.(runtime.CacheableObject); ok {
					object = shared.GetObject()
				}
				pool := object.(*federation.AddressPool)
				if got = pool.Status; cmp.Equal(want, got) {
					return pool.ResourceVersion
				}
			}
		}
	}
	before := expect(want)
	s.delete(t, "a")
	want.Mappings, want.CIDRs = 1, slices.Clone(want.CIDRs)
	want.CIDRs[0].UsedPercent, want.CIDRs[0].LargestFree = 50, "10.128.0.0/9"
	if after := expect(want); after == before {
		t.Error("the status was not updated")
	}
}

func BenchmarkCreate(b *testing.B) {
	s := start(b, etcd.Start(b), true)
	s.pool(b, "default", []string{"10.0.0.0/8"}, "10.0.0.0/16", "10.96.0.0/12")
	var group sync.WaitGroup
	names := make(chan int)
	for range 16 {
		group.Go(func() {
			for i := range names {
				if _, err := s.create(b.Context(), mapping(fmt.Sprint("a-", i), "192.0.2.1")); err != nil {
					b.Error(err)
				}
			}
		})
	}
	i := 0
	for b.Loop() {
		names <- i
		i++
	}
	close(names)
	group.Wait()
}
