// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const fastStorage = "fast.storageclass.storage.k8s.io/requests.storage"

func TestStorageIsOfferedWithALimitOnly(t *testing.T) {
	limits := map[string]string{"cpu": "2", "requests.storage": "100Gi", "persistentvolumeclaims": "20",
		fastStorage: "10Gi"}
	all := map[string]string{"requests.storage": "100Gi", "persistentvolumeclaims": "20", fastStorage: "10Gi"}
	for _, test := range []struct {
		name    string
		limits  map[string]string
		lending corev1.ResourceList
		asked   corev1.ResourceList
		want    map[string]string
		classes []string
	}{
		{"no limit", map[string]string{"cpu": "2"}, nil, nil, map[string]string{}, nil},
		{"a limit for one class alone", map[string]string{fastStorage: "10Gi"}, nil, nil, map[string]string{}, nil},
		{"limits of the policy", limits, nil, nil, all, []string{"fast", "slow"}},
		{"limits of the consumer", nil, list("requests.storage", "5Gi"), nil, map[string]string{"requests.storage": "5Gi"},
			[]string{"fast", "slow"}},
		{
			"a limit of the consumer before that of the policy", limits, list("requests.storage", "5Gi"), nil,
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
			w := provides()
			w.fc.Spec.Lending.Limits = test.lending
			w.requests[0].Spec.Resources = test.asked
			r := w.provider(policy)
			w.pass(t, r)
			offer := w.offers[0].Spec
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
			if writes := w.pass(t, r); len(writes) > 0 {
				t.Errorf("a pass with nothing to change wrote %v", writes)
			}
		})
	}
}

func TestACordonedConsumerIsOfferedNoStorage(t *testing.T) {
	policy := DefaultPolicy()
	policy.Limits, policy.StorageClasses = map[string]string{"requests.storage": "100Gi"}, []string{"fast"}
	w := provides()
	r := w.provider(policy)
	w.pass(t, r)
	for _, cordoned := range []bool{true, false} {
		w.fc = w.fc.DeepCopy()
		w.fc.Spec.Cordoned = cordoned
		w.pass(t, r)
		want := map[string]string{"requests.storage": "100Gi"}
		if cordoned {
			want = map[string]string{}
		}
		if diff := cmp.Diff(want, text(w.offers[0].Spec.Storage)); diff != "" {
			t.Errorf("storage while cordoned is %t (-want +got):\n%s", cordoned, diff)
		}
	}
}

func TestStorageClassesThatDoNotExistAreNotOffered(t *testing.T) {
	policy := DefaultPolicy()
	policy.Limits, policy.StorageClasses = map[string]string{"requests.storage": "100Gi"}, []string{"fast", "slow", "nope"}
	w := provides()
	r := w.provider(policy)
	for _, stage := range []struct {
		missing, offered []string
		says             string
	}{
		{[]string{"fast", "nope"}, []string{"slow"}, "since the provider does not have them, are the storage classes fast, nope."},
		{nil, []string{"fast", "slow", "nope"}, ""},
	} {
		w.missing = stage.missing
		w.pass(t, r)
		w.pass(t, r)
		if diff := cmp.Diff(stage.offered, w.offers[0].Spec.StorageClasses); diff != "" {
			t.Errorf("offered (-want +got):\n%s", diff)
		}
		accepted := meta.FindStatusCondition(w.requests[0].Status.Conditions, v1alpha1.ConditionAccepted)
		if accepted == nil || !strings.HasSuffix(accepted.Message, stage.says) || stage.says == "" && strings.Contains(accepted.Message, "storage classes") {
			t.Errorf("Accepted is %+v", accepted)
		}
	}
}

func TestExternalVolumesAreThoseOfTheForeignClusterOrOfThePolicy(t *testing.T) {
	policy := DefaultPolicy()
	policy.ExternalVolumeTypes, policy.ExternalCSIDrivers = []string{"nfs"}, []string{"secrets-store.csi.k8s.io"}
	w := provides()
	r := w.provider(policy)
	for _, test := range []struct{ lending, want v1alpha1.ExternalVolumes }{
		{v1alpha1.ExternalVolumes{}, v1alpha1.ExternalVolumes{Types: []string{"nfs"},
			CSIDrivers: []string{"secrets-store.csi.k8s.io"}}},
		{v1alpha1.ExternalVolumes{Types: []string{"iscsi"}}, v1alpha1.ExternalVolumes{Types: []string{"iscsi"}}},
	} {
		w.fc = w.fc.DeepCopy()
		w.fc.Spec.Lending.ExternalVolumes = test.lending
		w.pass(t, r)
		if diff := cmp.Diff(test.want, w.offers[0].Spec.ExternalVolumes); diff != "" {
			t.Errorf("external volumes (-want +got):\n%s", diff)
		}
	}
}

func TestStorageFlagsAreValidated(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Policy)
		want   string
	}{
		"a path of the node": {func(p *Policy) { p.ExternalVolumeTypes = []string{"hostPath"} },
			"--offer-external-volume-types"},
		"a type twice": {func(p *Policy) { p.ExternalVolumeTypes = []string{"nfs", "nfs"} },
			"--offer-external-volume-types"},
		"a driver of no name": {func(p *Policy) { p.ExternalCSIDrivers = []string{"a/b"} }, "--offer-external-csi-drivers"},
		"this driver": {func(p *Policy) { p.ExternalCSIDrivers = []string{"storage.liqo.io"} },
			"--offer-external-csi-drivers"},
		"a class of no name": {func(p *Policy) { p.Limits = map[string]string{"A." + fastStorage: "1"} }, "--offer-limits"},
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

func TestAVirtualNodeReportsTheStorageOfItsAcceptedOffer(t *testing.T) {
	accepted := &v1alpha1.ResourceOffer{
		Spec:   v1alpha1.ResourceOfferSpec{StorageClasses: []string{"fast"}, Storage: list("requests.storage", "10Gi")},
		Status: v1alpha1.ResourceOfferStatus{Phase: v1alpha1.NegotiationAccepted},
	}
	with := func(change func(*v1alpha1.ResourceOffer)) *v1alpha1.ResourceOffer {
		changed := accepted.DeepCopy()
		change(changed)
		return changed
	}
	for name, test := range map[string]struct {
		offer   *v1alpha1.ResourceOffer
		storage map[string]string
		classes []string
	}{
		"accepted":     {accepted, map[string]string{"requests.storage": "10Gi"}, []string{"fast"}},
		"not accepted": {with(func(o *v1alpha1.ResourceOffer) { o.Status.Phase = "" }), map[string]string{}, nil},
		"withdrawn":    {with(func(o *v1alpha1.ResourceOffer) { o.Spec.Withdrawn = true }), map[string]string{}, nil},
		"no storage":   {with(func(o *v1alpha1.ResourceOffer) { o.Spec.Storage = nil }), map[string]string{}, nil},
		"no offer":     {nil, map[string]string{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := &virtualNodes{offer: func(_, name string) (*v1alpha1.ResourceOffer, error) {
				if test.offer == nil {
					return nil, apierrors.NewNotFound(v1alpha1.Resource("resourceoffers"), name)
				}
				return test.offer, nil
			}}
			node := &v1alpha1.VirtualNode{Status: v1alpha1.VirtualNodeStatus{StorageClasses: []string{"old"},
				Storage: list("requests.storage", "1")}}
			if err := r.observeStorage(node); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.storage, text(node.Status.Storage)); diff != "" {
				t.Errorf("storage (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.classes, node.Status.StorageClasses); diff != "" {
				t.Errorf("storage classes (-want +got):\n%s", diff)
			}
		})
	}
}
