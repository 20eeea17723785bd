// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

type (
	claim       = federation.ShadowVolumeClaim
	claimStatus = federation.ShadowVolumeClaimStatus
)

func goodClaim() *claim {
	return &claim{
		ObjectMeta: metav1.ObjectMeta{Name: "data.db-0-1234abcd", Namespace: "shop-rome",
			Labels: map[string]string{v1alpha1.LabelOrigin: romeID}},
		Spec: federation.ShadowVolumeClaimSpec{
			StorageClassName: "fast.example", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce,
				corev1.ReadOnlyMany},
			Storage: resource.MustParse("10Gi"), DeletionPolicy: federation.VolumeDeletionRetain, Fence: "m-1",
		},
	}
}

func TestValidateShadowVolumeClaim(t *testing.T) {
	modes := func(modes ...corev1.PersistentVolumeAccessMode) func(*claim) {
		return func(c *claim) { c.Spec.AccessModes = modes }
	}
	spec := map[string]wrong[*claim]{
		"no storage":       {func(c *claim) { c.Spec.Storage = resource.Quantity{} }, []string{"spec.storage"}},
		"negative storage": {func(c *claim) { c.Spec.Storage = resource.MustParse("-1Gi") }, []string{"spec.storage"}},
		"absurd storage":   {func(c *claim) { c.Spec.Storage = resource.MustParse("1025Pi") }, []string{"spec.storage"}},
		"unknown policy":   {func(c *claim) { c.Spec.DeletionPolicy = "Recycle" }, []string{"spec.deletionPolicy"}},
		"long fence":       {func(c *claim) { c.Spec.Fence = strings.Repeat("f", 64) }, []string{"spec.fence"}},
		"path as a fence":  {func(c *claim) { c.Spec.Fence = "../f" }, []string{"spec.fence"}},
		"large annotations": {func(c *claim) {
			c.Annotations = map[string]string{"note": strings.Repeat("x", maxPeersMetadata)}
		}, []string{"metadata"}},
	}
	create := map[string]wrong[*claim]{
		"no name":             {func(c *claim) { c.Name = "" }, []string{"metadata.name"}},
		"long name":           {func(c *claim) { c.Name = strings.Repeat("n", 254) }, []string{"metadata.name"}},
		"no class":            {func(c *claim) { c.Spec.StorageClassName = "" }, []string{"spec.storageClassName"}},
		"path as a class":     {func(c *claim) { c.Spec.StorageClassName = "a/b" }, []string{"spec.storageClassName"}},
		"no access mode":      {modes(), []string{"spec.accessModes"}},
		"unknown access mode": {modes("ReadNever"), []string{"spec.accessModes[0]"}},
		"access mode twice":   {modes(corev1.ReadWriteOnce, corev1.ReadWriteOnce), []string{"spec.accessModes[1]"}},
		"one pod and many":    {modes(corev1.ReadWriteOncePod, corev1.ReadWriteMany), []string{"spec.accessModes"}},
		"too many access modes": {modes(many(len(accessModes),
			func(int) corev1.PersistentVolumeAccessMode { return corev1.ReadWriteOnce })...), []string{"spec.accessModes"}},
	}
	for name, test := range spec {
		create[name] = test
	}
	runCreate(t, goodClaim(), ValidateShadowVolumeClaim, create)
	runUpdate(t, goodClaim(), ValidateShadowVolumeClaimUpdate, map[string]wrong[*claim]{
		"no storage":          {spec["no storage"].spoil, []string{"spec.storage"}},
		"absurd storage":      spec["absurd storage"],
		"unknown policy":      spec["unknown policy"],
		"long fence":          spec["long fence"],
		"large annotations":   spec["large annotations"],
		"another class":       {func(c *claim) { c.Spec.StorageClassName = "slow" }, []string{"spec.storageClassName"}},
		"existing since now":  {func(c *claim) { c.Spec.Existing = true }, []string{"spec.existing"}},
		"another access mode": {modes(corev1.ReadWriteMany), []string{"spec.accessModes"}},
		"fewer access modes":  {modes(corev1.ReadWriteOnce), []string{"spec.accessModes"}},
		"another origin": {func(c *claim) { delete(c.Labels, v1alpha1.LabelOrigin) },
			[]string{"metadata.labels[offloading.liqo.io/origin]"}},
		"less before it is bound": {func(c *claim) { c.Spec.Storage = resource.MustParse("9Gi") }, []string{"spec.storage"}},
	})
	status := func(change func(*claimStatus)) func(*claim) {
		return func(c *claim) { change(&c.Status) }
	}
	names := func(most int) []string { return many(most, func(i int) string { return fmt.Sprintf("pod-%d", i) }) }
	good := goodClaim()
	good.Status = claimStatus{
		ForeignCluster: "rome", Phase: federation.ShadowVolumeClaimBound, VolumeName: "pvc-1",
		Capacity:  ptr.To(resource.MustParse("10Gi")),
		Allocated: ptr.To(resource.MustParse("12Gi")), Pods: []string{"db-0"},
		Fence:      &federation.VolumeFenceStatus{ID: "m-1", Users: []string{"db-0"}},
		Conditions: []metav1.Condition{condition()},
	}
	runUpdate(t, good, ValidateShadowVolumeClaimStatusUpdate, map[string]wrong[*claim]{
		"unknown phase": {status(func(s *claimStatus) { s.Phase = "Great" }), []string{"status.phase"}},
		"another consumer": {status(func(s *claimStatus) { s.ForeignCluster = "turin" }),
			[]string{"status.foreignCluster"}},
		"negative generation": {status(func(s *claimStatus) { s.ObservedGeneration = -1 }),
			[]string{"status.observedGeneration"}},
		"path as a volume": {status(func(s *claimStatus) { s.VolumeName = "a/b" }), []string{"status.volumeName"}},
		"no capacity": {status(func(s *claimStatus) { s.Capacity = &resource.Quantity{} }),
			[]string{"status.capacity"}},
		"absurd allocation": {status(func(s *claimStatus) {
			s.Allocated = ptr.To(resource.MustParse("2Ei"))
		}), []string{"status.allocated"}},
		"too many pods":    {status(func(s *claimStatus) { s.Pods = names(maxVolumePods) }), []string{"status.pods"}},
		"path as a pod":    {status(func(s *claimStatus) { s.Pods = []string{"a/b"} }), []string{"status.pods[0]"}},
		"fence without id": {status(func(s *claimStatus) { s.Fence.ID = "" }), []string{"status.fence.id"}},
		"too many users": {status(func(s *claimStatus) { s.Fence.Users = names(maxVolumePods) }),
			[]string{"status.fence.users"}},
		"user twice": {status(func(s *claimStatus) { s.Fence.Users = []string{"a", "a"} }),
			[]string{"status.fence.users[1]"}},
		"terminal codes": {status(func(s *claimStatus) {
			s.Conditions[0].Message = "\x1b[2J"
		}), []string{"status.conditions[0].message"}},
	})
}

func TestClaimShrinksToMoreThanItsCapacityOnly(t *testing.T) {
	for _, test := range []struct {
		name, from, to string
		capacity       *resource.Quantity
		good           bool
	}{
		{"growth before it is bound", "4Gi", "8Gi", nil, true},
		{"shrinking before it is bound", "8Gi", "4Gi", nil, false},
		{"it grows", "4Gi", "8Gi", ptr.To(resource.MustParse("4Gi")), true},
		{"an expansion that failed is retried with less", "8Gi", "5Gi", ptr.To(resource.MustParse("4Gi")), true},
		{"to the capacity", "8Gi", "4Gi", ptr.To(resource.MustParse("4Gi")), false},
		{"below the capacity", "8Gi", "3Gi", ptr.To(resource.MustParse("4Gi")), false},
		{"as much in another unit", "4Gi", "4096Mi", nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := goodClaim()
			old.ResourceVersion = "1"
			old.Spec.Storage, old.Status.Capacity = resource.MustParse(test.from), test.capacity
			updated := old.DeepCopy()
			updated.Spec.Storage = resource.MustParse(test.to)
			if errs := ValidateShadowVolumeClaimUpdate(updated, old); (len(errs) == 0) != test.good {
				t.Errorf("from %s to %s: %v", test.from, test.to, errs)
			}
		})
	}
}

func FuzzShadowVolumeClaim(f *testing.F) {
	fuzzObject(f, func(t *testing.T, c *claim) field.ErrorList {
		errs := ValidateShadowVolumeClaim(c)
		if len(errs) > 0 {
			return errs
		}
		if c.Spec.Storage.Sign() <= 0 || c.Spec.Storage.Cmp(maxVolumeSize) > 0 {
			t.Errorf("a size of %s is accepted", c.Spec.Storage.String())
		}
		if strings.ContainsAny(c.Name+c.Spec.StorageClassName, "/%\\ ") || len(c.Name) > 253 {
			t.Errorf("claim %q of class %q is accepted", c.Name, c.Spec.StorageClassName)
		}
		c.ResourceVersion = "1"
		if again := ValidateShadowVolumeClaimUpdate(c, c.DeepCopy()); len(again) > 0 {
			t.Errorf("accepted, then refused: %v", again)
		}
		return nil
	}, &v1alpha1.ShadowVolumeClaim{ObjectMeta: meta("data", "shop-rome"), Spec: v1alpha1.ShadowVolumeClaimSpec{
		StorageClassName: "fast", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Storage: resource.MustParse("1Gi"), Fence: "m-1",
	}})
}
