// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

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
