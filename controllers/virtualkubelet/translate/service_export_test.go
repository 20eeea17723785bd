// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestOnlyAServiceExportMarksAService(t *testing.T) {
	for _, test := range []struct {
		name         string
		labels, want map[string]string
		is           bool
	}{
		{
			"not exported", map[string]string{"app": "web"}, map[string]string{"app": "web"},
			false,
		},
		{
			"exported", map[string]string{"app": "web"},
			map[string]string{"app": "web", v1alpha1.LabelExported: "true"}, true,
		},
		{"exported, without labels", nil, map[string]string{v1alpha1.LabelExported: "true"}, true},
		{
			"not exported, label set by a user", map[string]string{"app": "web", v1alpha1.LabelExported: "true"},
			map[string]string{"app": "web"}, false,
		},
		{
			"other value", map[string]string{v1alpha1.LabelExported: "no"},
			map[string]string{v1alpha1.LabelExported: "true"}, true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			local := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: test.labels}}
			before := local.DeepCopy()
			got := MarkExported(local, test.is)
			if diff := cmp.Diff(test.want, got.Labels); diff != "" || Exported(got) != test.is {
				t.Errorf("exported: %t (-want +got):\n%s", Exported(got), diff)
			}
			if diff := cmp.Diff(before, local); diff != "" {
				t.Errorf("the local one was changed:\n%s", diff)
			}
			existing := Service(MarkExported(local, !test.is), "shop-rome", toMilan)
			desired := Service(got, "shop-rome", toMilan)
			if change := UpdateService(existing, desired); change != Update || Exported(existing) != test.is {
				t.Errorf("reflected Service: change %v, exported: %t", change, Exported(existing))
			}
		})
	}
}
