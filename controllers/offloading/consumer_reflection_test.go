// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

// reflectionOf is what lets virtual kubelets of milan read the namespace "shop".
func reflectionOf(virtualNodes ...string) *rbacv1.RoleBinding {
	b := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "federation-reflection", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "federation-reflection"},
	}
	for _, name := range virtualNodes {
		b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "liqo-peer-milan", Name: "virtual-kubelet-" + name})
	}
	return b
}

func otherRole(b *rbacv1.RoleBinding) *rbacv1.RoleBinding {
	b.RoleRef.Name = "cluster-admin"
	return b
}

func TestVirtualKubeletsReadExactlyWhatIsOffloadedToTheirCluster(t *testing.T) {
	second := milanNode()
	second.Name, second.Spec.NodeName = "gpu", "liqo-milan-gpu"
	notLent := milanNode()
	notLent.Namespace = naming.PeerNamespace("paris")
	disabled := foreignCluster()
	disabled.Spec.Outgoing = v1alpha1.PeeringDisabled
	left := leavingSince(offloadingOf("shop", time.Hour), 0)
	toldLeaving(t, left, []standing{{cluster: "milan"}})
	atHome := leavingSince(offloadingOf("shop", time.Hour), 0)
	toldLeaving(t, atHome, nil)
	going := leavingSince(offloadingOf("shop", time.Hour), 0)
	toldLeaving(t, going, []standing{{cluster: "milan", asked: true, answer: &mapWith("shop").Status.Namespaces[0]}})
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		before  *rbacv1.RoleBinding
		want    *rbacv1.RoleBinding
	}{
		{
			name:    "those of a selected cluster",
			objects: []runtime.Object{foreignCluster(), milanNode(), notLent, offloadingOf("shop", 0)},
			want:    reflectionOf("milan"),
		},
		{
			name:    "all virtual nodes of a cluster share its twins",
			objects: []runtime.Object{foreignCluster(), milanNode(), second, offloadingOf("shop", 0), mapWith("shop")},
			before:  reflectionOf("milan"),
			want:    reflectionOf("gpu", "milan"),
		},
		{
			name:    "a cluster that is not selected any more, until it has given the namespace back",
			objects: []runtime.Object{disabled, milanNode(), offloadingOf("shop", 0), mapWith("shop")},
			before:  reflectionOf("milan"),
			want:    reflectionOf("milan"),
		},
		{
			name:    "no cluster, no binding",
			objects: []runtime.Object{disabled, milanNode(), offloadingOf("shop", 0), mapWith()},
			before:  reflectionOf("milan"),
		},
		{
			name:    "another role is not for them",
			objects: []runtime.Object{foreignCluster(), milanNode(), offloadingOf("shop", 0)},
			before:  otherRole(reflectionOf("milan")),
			want:    reflectionOf("milan"),
		},
		{
			name:    "while it leaves, its pods still need it",
			objects: []runtime.Object{foreignCluster(), milanNode(), going, mapWith("shop")},
			before:  reflectionOf("milan"),
			want:    reflectionOf("milan"),
		},
		{
			name:    "nobody when it is home",
			objects: []runtime.Object{foreignCluster(), milanNode(), left},
			before:  reflectionOf("milan"),
		},
		{
			name:    "nobody when there is nothing to leave",
			objects: []runtime.Object{atHome},
			before:  reflectionOf("milan"),
		},
		{
			name:    "nobody when it was never offloaded",
			objects: []runtime.Object{foreignCluster(), milanNode()},
			before:  reflectionOf("milan"),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, append(test.objects, labelled("shop"))...)
			c := w.consumer(t)
			if test.before != nil {
				if err := w.kube.Tracker().Add(test.before); err != nil {
					t.Fatal(err)
				}
				if err := c.reflection.Rbac().V1().RoleBindings().Informer().GetIndexer().Add(test.before); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.reconcileOffloading(t.Context(), "shop"); err != nil {
				t.Fatal(err)
			}
			got, err := w.kube.RbacV1().RoleBindings("shop").Get(t.Context(), "federation-reflection", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				got, err = nil, nil
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("binding (-want +got):\n%s", diff)
			}
			if wrote := w.bindings(); (test.before == nil) != (test.want == nil) || !cmp.Equal(test.before, test.want) {
				if wrote == 0 {
					t.Error("nothing was written")
				}
			} else if wrote > 0 {
				t.Errorf("%d writes where nothing changed", wrote)
			}
		})
	}
}

// bindings is how often a role binding was written.
func (w world) bindings() int {
	count := 0
	for _, action := range w.kube.Actions() {
		if action.GetResource().Resource == "rolebindings" && action.GetVerb() != "get" && action.GetVerb() != "list" && action.GetVerb() != "watch" {
			count++
		}
	}
	return count
}
