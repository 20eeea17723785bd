// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowvolumeclaim

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/etcd"
)

var (
	now = &metav1.UpdateOptions{}
	dry = &metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}
)

func (s *server) mustCreate(t *testing.T, namespace, name, class, size string) {
	t.Helper()
	if err := s.create(t.Context(), namespace, name, class, size); err != nil {
		t.Fatalf("%s/%s: %v", namespace, name, err)
	}
}

// mustReport updates the status of a claim in namespace web. The test fails if the update fails.
func (s *server) mustReport(t *testing.T, name string, change func(*federation.ShadowVolumeClaimStatus)) {
	t.Helper()
	if err := s.report(t.Context(), "web", name, change); err != nil {
		t.Fatal(err)
	}
}

// mustExceed fails the test unless err is Forbidden with a cause for this resource, whose message contains message.
func mustExceed(t *testing.T, err error, resource, message string) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusForbidden || status.Status().Details == nil {
		t.Fatalf("not refused as exceeding a quota: %v", err)
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == v1alpha1.CauseStorageExceeded && cause.Field == resource &&
			strings.Contains(cause.Message, message) {
			return
		}
	}
	t.Fatalf("no cause for %s with the message %q: %v", resource, message, status.Status().Details.Causes)
}

func TestConsumerStoresWithinItsStorageQuota(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	create := func(namespace, name, class, size string) error {
		return s.create(t.Context(), namespace, name, class, size)
	}

	mustExceed(t, create("web", "a", "fast", "1Gi"), "requests.storage", "0 of 0 granted used")
	s.offer(t, "milan", "classes", amounts("fast.storageclass.storage.k8s.io/requests.storage", "1Ti"), "fast")
	mustExceed(t, create("web", "a", "fast", "1Gi"), "requests.storage", "0 of 0 granted used")

	s.offer(t, "milan", "rome", amounts("requests.storage", "10Gi", "persistentvolumeclaims", "4",
		"fast.storageclass.storage.k8s.io/requests.storage", "4Gi"), "slow", "fast")
	s.mustCreate(t, "web", "a", "slow", "5Gi")
	s.mustCreate(t, "shop", "a", "fast", "3Gi")
	mustExceed(t, create("web", "b", "fast", "2Gi"), "fast.storageclass.storage.k8s.io/requests.storage",
		"3Gi of 4Gi granted used")
	mustExceed(t, create("web", "b", "slow", "3Gi"), "requests.storage", "8Gi of 10Gi granted used, 2Gi left")
	s.mustCreate(t, "web", "b", "slow", "512Mi")
	s.mustCreate(t, "web", "c", "slow", "512Mi")
	mustExceed(t, create("web", "d", "slow", "1"), "persistentvolumeclaims", "4 of 4 granted used")

	mustExceed(t, create("lab", "a", "fast", "1Gi"), "requests.storage", "0 of 0 granted used")
	if err := create("unlabelled", "a", "fast", "1Gi"); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), v1alpha1.LabelForeignCluster) {
		t.Errorf("in a remote namespace without a consumer: %v", err)
	}
	s.mustCreate(t, "local", "a", "any", "1Ti")
	if got := s.get(t, "local", "a").Status.ForeignCluster; got != "" {
		t.Errorf("a claim outside of remote namespaces has the consumer %q", got)
	}
	if got := s.get(t, "web", "a").Status.ForeignCluster; got != "milan" {
		t.Errorf("a claim of milan has the consumer %q", got)
	}

	s.offers.Change(t, "milan", "rome", func(o *federation.ResourceOffer) { o.Spec.Withdrawn = true })
	mustExceed(t, create("web", "d", "slow", "1"), "requests.storage", "9Gi of 0 granted used")
}

func TestClassThatIsNotOfferedIsRefusedWithItsField(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "rome", amounts("requests.storage", "10Gi"), "slow", "fast")
	var status apierrors.APIStatus
	if err := s.create(t.Context(), "web", "a", "secret", "1Gi"); !errors.As(err, &status) ||
		status.Status().Code != http.StatusUnprocessableEntity {
		t.Fatalf("got %v", err)
	}
	want := []metav1.StatusCause{{
		Type: metav1.CauseTypeFieldValueNotSupported, Field: "spec.storageClassName",
		Message: `Unsupported value: "secret": supported values: "slow", "fast"`,
	}}
	if diff := cmp.Diff(want, status.Status().Details.Causes); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
}

func TestGrowthReservesTheDifference(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "rome", amounts("requests.storage", "10Gi"), "fast")
	s.mustCreate(t, "web", "a", "fast", "4Gi")
	s.mustCreate(t, "web", "b", "fast", "4Gi")
	for _, options := range []*metav1.UpdateOptions{dry, now} {
		mustExceed(t, s.resize(t.Context(), "web", "a", "7Gi", options), "requests.storage",
			"3Gi requested, 8Gi of 10Gi granted used")
	}
	for _, options := range []*metav1.UpdateOptions{dry, dry, now} {
		if err := s.resize(t.Context(), "web", "a", "6Gi", options); err != nil {
			t.Fatal(err)
		}
	}
	mustExceed(t, s.create(t.Context(), "shop", "c", "fast", "1"), "requests.storage", "10Gi of 10Gi granted used")

	s.mustCreate(t, "local", "a", "any", "1Gi")
	if err := s.resize(t.Context(), "local", "a", "1Ti", now); err != nil {
		t.Errorf("a claim that does not count cannot grow: %v", err)
	}
}

func TestShrinkingReleasesNothingBeforeTheProviderHasShrunk(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "rome", amounts("requests.storage", "10Gi"), "fast")
	s.mustCreate(t, "web", "a", "fast", "2Gi")
	s.mustReport(t, "a", func(s *federation.ShadowVolumeClaimStatus) { s.Capacity = ptr.To(resource.MustParse("2Gi")) })
	for _, size := range []string{"10Gi", "3Gi", "4Gi", "3Gi"} {
		if err := s.resize(t.Context(), "web", "a", size, now); err != nil {
			t.Fatalf("to %s: %v", size, err)
		}
		mustExceed(t, s.create(t.Context(), "web", "b", "fast", "1"), "requests.storage", "10Gi of 10Gi granted used")
	}
	if allocated := s.get(t, "web", "a").Status.Allocated; allocated == nil || allocated.String() != "10Gi" {
		t.Errorf("allocated are %v", allocated)
	}
	s.mustReport(t, "a", func(s *federation.ShadowVolumeClaimStatus) { s.Allocated = nil })
	s.mustCreate(t, "web", "b", "fast", "7Gi")
	mustExceed(t, s.create(t.Context(), "web", "c", "fast", "1"), "requests.storage", "10Gi of 10Gi granted used")
}

func TestActualSizeCounts(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "rome", amounts("requests.storage", "10Gi"), "fast")
	s.mustCreate(t, "web", "a", "fast", "1Gi")
	s.mustReport(t, "a", func(s *federation.ShadowVolumeClaimStatus) { s.Capacity = ptr.To(resource.MustParse("8Gi")) })
	mustExceed(t, s.create(t.Context(), "web", "b", "fast", "3Gi"), "requests.storage", "8Gi of 10Gi granted used")
	// The volume already has this size, so the resize needs no quota.
	if err := s.resize(t.Context(), "web", "a", "8Gi", now); err != nil {
		t.Fatal(err)
	}
	s.mustCreate(t, "web", "b", "fast", "2Gi")
}

func TestClaimCountsUntilItIsDeleted(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "rome", amounts("requests.storage", "1Gi"), "fast")
	for range 10 {
		s.mustCreate(t, "web", "a", "fast", "1Gi")
		s.mustReport(t, "a", func(s *federation.ShadowVolumeClaimStatus) { s.Phase = federation.ShadowVolumeClaimLost })
		if err := s.remove(t.Context(), "web", "a"); err != nil {
			t.Fatal(err)
		}
		mustExceed(t, s.create(t.Context(), "shop", "b", "fast", "1"), "requests.storage", "1Gi of 1Gi granted used")
		if err := s.release(t.Context(), "web", "a"); err != nil {
			t.Fatal(err)
		}
	}
	s.mustCreate(t, "shop", "b", "fast", "1Gi")
}

func TestRetainedVolumesCountUntilTheyAreReleased(t *testing.T) {
	volumes := &retained{}
	s := startWith(t, etcd.Start(t), true, volumes)
	s.offer(t, "milan", "rome", amounts("requests.storage", "10Gi", "persistentvolumeclaims", "4",
		"fast.storageclass.storage.k8s.io/requests.storage", "4Gi"), "slow", "fast")
	s.offer(t, "turin", "rome", amounts("requests.storage", "10Gi"), "fast")
	create := func(name, class, size string) error { return s.create(t.Context(), "web", name, class, size) }

	volumes.add("milan", "pv-2", "fast", "3Gi")
	mustExceed(t, create("a", "fast", "2Gi"), "fast.storageclass.storage.k8s.io/requests.storage",
		"3Gi of 4Gi granted used")
	s.mustCreate(t, "web", "a", "slow", "1Gi")
	volumes.add("milan", "pv-1", "slow", "5Gi")
	err := create("b", "slow", "2Gi")
	mustExceed(t, err, "requests.storage", "9Gi of 10Gi granted used")
	const retainedText = "8Gi are used by retained PersistentVolumes, which an administrator of the provider can " +
		"delete or take over: pv-1, pv-2"
	if !strings.HasSuffix(err.Error(), retainedText) {
		t.Errorf("got %q, want a message that ends with %q", err, retainedText)
	}
	for _, options := range []*metav1.UpdateOptions{dry, now} {
		mustExceed(t, s.resize(t.Context(), "web", "a", "3Gi", options), "requests.storage", "9Gi of 10Gi granted used")
	}
	volumes.add("milan", "pv-3", "slow", "1Mi")
	err = create("b", "slow", "1Mi")
	mustExceed(t, err, "persistentvolumeclaims", "4 of 4 granted used")
	if !strings.HasSuffix(err.Error(), "take over: pv-1, pv-2 and 1 more") {
		t.Errorf("got %q, want the number of volumes", err)
	}
	s.mustCreate(t, "lab", "a", "fast", "10Gi")

	volumes.set(nil, errors.New("kube-apiserver does not respond"))
	if err := create("b", "slow", "1Mi"); !apierrors.IsInternalError(err) {
		t.Errorf("while the retained volumes cannot be read: got %v, want InternalError", err)
	}
	volumes.set(nil, nil)
	if err := s.resize(t.Context(), "web", "a", "3Gi", now); err != nil {
		t.Errorf("after the volumes were released: %v", err)
	}
	s.mustCreate(t, "web", "b", "fast", "4Gi")
}

func TestRetainedVolumesAreReadOnlyIfStorageIsOffered(t *testing.T) {
	volumes := &retained{}
	volumes.set(nil, errors.New("kube-apiserver does not respond"))
	s := startWith(t, etcd.Start(t), true, volumes)
	mustExceed(t, s.create(t.Context(), "web", "a", "fast", "1Gi"), "requests.storage", "")
	s.offer(t, "milan", "rome", amounts("requests.storage", "10Gi"), "fast")
	if err := s.create(t.Context(), "web", "a", "fast", "1Gi"); !apierrors.IsInternalError(err) {
		t.Errorf("with an offer: got %v, want InternalError", err)
	}
}

func TestRetainedVolumesAreBoundedWithoutALimitOfClaims(t *testing.T) {
	volumes, small := &retained{}, make([]corev1.PersistentVolume, maxClaims)
	volumes.set(map[string][]corev1.PersistentVolume{"milan": small}, nil)
	s := startWith(t, etcd.Start(t), true, volumes)
	s.offer(t, "milan", "rome", amounts("requests.storage", "10Gi"), "fast")
	mustExceed(t, s.create(t.Context(), "web", "a", "fast", "1"), "persistentvolumeclaims", "10k of 10k granted used")
	volumes.set(map[string][]corev1.PersistentVolume{"milan": small[1:]}, nil)
	s.mustCreate(t, "web", "a", "fast", "1")
}

func TestPeerCannotReleaseTheQuotaOfItsClaim(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	s.offer(t, "milan", "rome", amounts("requests.storage", "1Gi"), "fast")
	peer := genericapirequest.WithUser(t.Context(),
		&user.DefaultInfo{Name: "the-peering", Groups: []string{v1alpha1.PeerGroup}})
	sent := claim("web", "a", "fast", "1Gi")
	sent.Finalizers = []string{metav1.FinalizerOrphanDependents}
	sent.Status.ForeignCluster = "turin"
	if _, err := s.claims.Create(in(peer, "web"), sent, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	checkHeld := func() {
		t.Helper()
		stored := s.get(t, "web", "a")
		if diff := cmp.Diff([]string{v1alpha1.Finalizer}, stored.Finalizers); diff != "" ||
			stored.Status.ForeignCluster != "milan" {
			t.Fatalf("the claim counts against %q; finalizers (-want +got):\n%s", stored.Status.ForeignCluster, diff)
		}
	}
	checkHeld()
	if err := s.release(peer, "web", "a"); err != nil {
		t.Fatal(err)
	}
	checkHeld()
	orphan := &metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)}
	if _, _, err := s.claims.Delete(in(peer, "web"), "a", rest.ValidateAllObjectFunc,
		orphan); !apierrors.IsBadRequest(err) {
		t.Errorf("a deletion that orphans the volume: got %v, want BadRequest", err)
	}
	if err := s.remove(peer, "web", "a"); err != nil {
		t.Fatal(err)
	}
	checkHeld()
	mustExceed(t, s.create(t.Context(), "web", "b", "fast", "1"), "requests.storage", "1Gi of 1Gi granted used")
}

func TestClaimsAreSelectedByTheirPhase(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	for _, name := range []string{"a", "b"} {
		s.mustCreate(t, "local", name, "fast", "1Gi")
	}
	if err := s.report(t.Context(), "local", "b",
		func(s *federation.ShadowVolumeClaimStatus) { s.Phase = federation.ShadowVolumeClaimBound }); err != nil {
		t.Fatal(err)
	}
	list, err := s.claims.List(in(t.Context(), "local"),
		&internalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("status.phase", "Bound")})
	if err != nil {
		t.Fatal(err)
	}
	if items := list.(*federation.ShadowVolumeClaimList).Items; len(items) != 1 || items[0].Name != "b" {
		t.Errorf("selected are %v", items)
	}
}
