// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const fastStorage = "fast.storageclass.storage.k8s.io/requests.storage"

func TestStorageIsOfferedWithALimitOnly(t *testing.T) {
	limits := map[string]string{"cpu": "2", "requests.storage": "100Gi", "persistentvolumeclaims": "20",
		fastStorage: "10Gi"}
	all := map[string]string{"requests.storage": "100Gi", "persistentvolumeclaims": "20", fastStorage: "10Gi"}
	for _, test := range []struct {
		name      string
		limits    map[string]string
		incoming  corev1.ResourceList
		requested corev1.ResourceList
		want      map[string]string
		classes   []string
	}{
		{"no limit", map[string]string{"cpu": "2"}, nil, nil, map[string]string{}, nil},
		{"a limit for one class alone", map[string]string{fastStorage: "10Gi"}, nil, nil, map[string]string{}, nil},
		{"limits of the policy", limits, nil, nil, all, []string{"fast", "slow"}},
		{"limits of the consumer", nil, list("requests.storage", "5Gi"), nil, map[string]string{"requests.storage": "5Gi"},
			[]string{"fast", "slow"}},
		{
			"a limit of the consumer before the limit of the policy", limits, list("requests.storage", "5Gi"), nil,
			map[string]string{"requests.storage": "5Gi", "persistentvolumeclaims": "20", fastStorage: "10Gi"},
			[]string{"fast", "slow"},
		},
		{"no storage for this consumer", limits, list("requests.storage", "0"), nil, map[string]string{}, nil},
		{
			"less is requested", limits, nil, list("requests.storage", "1Gi"),
			map[string]string{"requests.storage": "1Gi", "persistentvolumeclaims": "20", fastStorage: "10Gi"},
			[]string{"fast", "slow"},
		},
		{"more is requested", limits, nil, list("requests.storage", "1Ti"), all, []string{"fast", "slow"}},
		{"a request offers nothing", nil, nil, list("requests.storage", "1Gi"), map[string]string{}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			policy := DefaultPolicy()
			policy.Limits, policy.StorageClasses = test.limits, []string{"fast", "slow"}
			if errs := policy.Validate(); len(errs) > 0 {
				t.Fatal(errs)
			}
			w := newWorld(t, policy)
			addClasses(w, "fast", "slow")
			w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Spec.IncomingPolicy.Limits = test.incoming })
			w.changeRequest(func(request *v1alpha1.ResourceRequest) { request.Spec.Resources = test.requested })
			w.pass()
			offer := w.offer().Spec
			if diff := cmp.Diff(test.want, text(offer.Storage)); diff != "" {
				t.Errorf("storage (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.classes, offer.StorageClasses); diff != "" {
				t.Errorf("storage classes (-want +got):\n%s", diff)
			}
			for name := range offer.Resources {
				if v1alpha1.IsStorage(name) {
					t.Errorf("%s would become a capacity of a Node", name)
				}
			}
			w.rests("offered")
		})
	}
}

func TestCordonedConsumerIsOfferedNoStorage(t *testing.T) {
	policy := DefaultPolicy()
	policy.Limits, policy.StorageClasses = map[string]string{"requests.storage": "100Gi"}, []string{"fast"}
	w := newWorld(t, policy)
	addClasses(w, "fast")
	w.pass()
	for _, cordoned := range []bool{true, false} {
		w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Spec.Cordoned = cordoned })
		w.pass()
		want := map[string]string{"requests.storage": "100Gi"}
		if cordoned {
			want = map[string]string{}
		}
		if diff := cmp.Diff(want, text(w.offer().Spec.Storage)); diff != "" {
			t.Errorf("storage while cordoned is %t (-want +got):\n%s", cordoned, diff)
		}
	}
}

func TestStorageClassesThatDoNotExistAreNotOffered(t *testing.T) {
	policy := DefaultPolicy()
	policy.Limits, policy.StorageClasses = map[string]string{"requests.storage": "100Gi"}, []string{"fast", "slow", "nope"}
	w := newWorld(t, policy)
	for _, stage := range []struct {
		created, offered []string
		contains         string
	}{
		{[]string{"slow"}, []string{"slow"}, "are not offered: fast, nope."},
		{[]string{"fast", "nope"}, []string{"fast", "slow", "nope"}, ""},
	} {
		addClasses(w, stage.created...)
		w.pass()
		w.pass()
		if diff := cmp.Diff(stage.offered, w.offer().Spec.StorageClasses); diff != "" {
			t.Errorf("offered (-want +got):\n%s", diff)
		}
		_, message := w.answer()
		if !strings.HasSuffix(message, stage.contains) || stage.contains == "" &&
			strings.Contains(message, "storage classes") {
			t.Errorf("answer %q", message)
		}
	}
}

func TestExternalVolumesAreThoseOfTheForeignClusterOrOfThePolicy(t *testing.T) {
	policy := DefaultPolicy()
	policy.ExternalVolumesTypes, policy.ExternalVolumesCSIDrivers = []string{"nfs"}, []string{"secrets-store.csi.k8s.io"}
	w := newWorld(t, policy)
	for _, test := range []struct{ incoming, want v1alpha1.ExternalVolumes }{
		{v1alpha1.ExternalVolumes{}, v1alpha1.ExternalVolumes{Types: []string{"nfs"},
			CSIDrivers: []string{"secrets-store.csi.k8s.io"}}},
		{v1alpha1.ExternalVolumes{Types: []string{"iscsi"}}, v1alpha1.ExternalVolumes{Types: []string{"iscsi"}}},
	} {
		w.changeCluster(func(fc *v1alpha1.ForeignCluster) { fc.Spec.IncomingPolicy.ExternalVolumes = test.incoming })
		w.pass()
		if diff := cmp.Diff(test.want, w.offer().Spec.ExternalVolumes); diff != "" {
			t.Errorf("external volumes (-want +got):\n%s", diff)
		}
	}
}

func TestStorageFlagsAreValidated(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Policy)
		want   string
	}{
		"a path of the node": {func(p *Policy) { p.ExternalVolumesTypes = []string{"hostPath"} },
			"--policy-external-volumes-types"},
		"a type twice": {func(p *Policy) { p.ExternalVolumesTypes = []string{"nfs", "nfs"} },
			"--policy-external-volumes-types"},
		"a driver of no name": {func(p *Policy) { p.ExternalVolumesCSIDrivers = []string{"a/b"} },
			"--policy-external-volumes-csi-drivers"},
		"this driver": {func(p *Policy) { p.ExternalVolumesCSIDrivers = []string{"storage.liqo.io"} },
			"--policy-external-volumes-csi-drivers"},
		"a class of no name": {func(p *Policy) { p.Limits = map[string]string{"A." + fastStorage: "1"} }, "--policy-limits"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := DefaultPolicy()
			test.change(&policy)
			if err := errors.Join(policy.Validate()...); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v does not name %s", err, test.want)
			}
		})
	}
}

func addClasses(w *world, names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.Add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com"})
	}
}
