// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/controllers/kit/kittest"
)

func TestOnlyVirtualKubeletsReadAddresses(t *testing.T) {
	w := newWorld(t)
	reconciler := &ReaderReconciler{Client: w.Controller, Namespace: installation, bindings: w.Cluster}
	request := reconciler.toBinding(t.Context(), nil)[0]
	if _, writes := w.Pass(reconciler, request); len(writes) > 0 {
		t.Errorf("before the chart installs the binding, %v is written", writes)
	}
	w.Add(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: installation, Name: readersBinding},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: readersBinding},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "stranger"}},
	})
	expect := func(want ...rbacv1.Subject) {
		t.Helper()
		w.Pass(reconciler, request)
		binding := kittest.Read(w.Cluster, installation, readersBinding, &rbacv1.RoleBinding{})
		if diff := cmp.Diff(want, binding.Subjects); diff != "" {
			t.Errorf("subjects (-want +got):\n%s", diff)
		}
		if _, writes := w.Pass(reconciler, request); len(writes) > 0 {
			t.Errorf("a pass with nothing to change writes %v", writes)
		}
	}
	kubelet := func(cluster string) rbacv1.Subject {
		return rbacv1.Subject{
			Kind: rbacv1.ServiceAccountKind, Namespace: "liqo-peer-" + cluster, Name: "federation-virtual-kubelet-" + cluster,
		}
	}
	milan, naples := kubelet("milan"), kubelet("naples")
	expect(milan, naples)
	w.withoutNode("milan")
	expect(naples)
}
