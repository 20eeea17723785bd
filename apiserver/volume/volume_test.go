// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestRemoteClaimNamesAreValidAndDifferByVolume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		claim := rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,60}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,60}[a-z0-9])?){0,3}`).Draw(t,
			"claim")
		one := rapid.StringMatching(`pvc-[0-9a-f]{8}`).Draw(t, "one volume")
		other := rapid.StringMatching(`pvc-[0-9a-f]{8}`).Draw(t, "other volume")
		name := RemoteClaimName(claim, one)
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("%q: %v", name, problems)
		}
		if (RemoteClaimName(claim, other) == name) != (one == other) {
			t.Errorf("%q for volumes %q and %q", name, one, other)
		}
	})
}

func TestHandlesSurviveThePersistentVolume(t *testing.T) {
	handle := Handle{ClusterID: "9f1c", Namespace: "shop-rome", Claim: "data-db-0-01234567"}
	volume := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: RemoteSource(handle)}}
	got, remote, err := HandleOf(volume)
	if err != nil || !remote {
		t.Fatalf("got %t, %v", remote, err)
	}
	if diff := cmp.Diff(handle, got); diff != "" {
		t.Errorf("handle (-want +got):\n%s", diff)
	}
	if _, remote, err := HandleOf(&corev1.PersistentVolume{}); remote || err != nil {
		t.Errorf("a volume without a source is remote: %v", err)
	}
}

func TestMalformedHandlesAreRefused(t *testing.T) {
	for _, handle := range []string{"", "a", "a/b", "/b/c", "a//c", "a/b/", "a/B/c", "a/b/../c", "a/b/c/d", "a/b/" +
		strings.Repeat("c", 254)} {
		if got, err := ParseHandle(handle); err == nil {
			t.Errorf("%q is read as %+v", handle, got)
		}
	}
}

func TestVolumesOfAProviderFitOnlyItsVirtualNodes(t *testing.T) {
	in := func(key, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
	}
	want := []corev1.NodeSelectorRequirement{
		in("liqo.io/type", "virtual-node"), in("liqo.io/remote-cluster-id", "9f1c"),
		in("topology.kubernetes.io/region", "north"), in("topology.kubernetes.io/zone", "a"),
	}
	got := RemoteAffinity("9f1c", map[string]string{"topology.kubernetes.io/zone": "a",
		"topology.kubernetes.io/region": "north"})
	if diff := cmp.Diff(want, got.Required.NodeSelectorTerms[0].MatchExpressions); diff != "" {
		t.Errorf("affinity (-want +got):\n%s", diff)
	}
}

func TestClaimUsesTheNamedClassThenTheSameNameThenTheDefault(t *testing.T) {
	for _, test := range []struct {
		name, annotation, local string
		offered                 []string
		want, refused           string
	}{
		{name: "the default", offered: []string{"ssd", "disk"}, want: "ssd"},
		{name: "the same name", local: "disk", offered: []string{"ssd", "disk"}, want: "disk"},
		{name: "a class that the provider does not offer", local: "nvme", offered: []string{"ssd", "disk"}, want: "ssd"},
		{name: "the annotation", annotation: "disk", local: "ssd", offered: []string{"ssd", "disk"}, want: "disk"},
		{name: "an annotation that is not offered", annotation: "nvme", offered: []string{"ssd", "disk"}, refused: `"nvme"`},
		{name: "no storage", local: "disk", refused: "offers no storage class"},
	} {
		t.Run(test.name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{}}
			if test.annotation != "" {
				claim.Annotations = map[string]string{v1alpha1.AnnotationRemoteStorageClass: test.annotation}
			}
			got, err := RemoteClass(claim, test.local, test.offered)
			if got != test.want || (err == nil) != (test.refused == "") || err != nil &&
				!strings.Contains(err.Error(), test.refused) {
				t.Errorf("got %q, %v; want %q, %q", got, err, test.want, test.refused)
			}
		})
	}
}
