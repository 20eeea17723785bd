// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestAccountsOnVirtualNodesArePublished(t *testing.T) {
	const milan = "liqo-peer-milan:federation-virtual-kubelet-milan:"
	node := func(namespace, name string, access, inherited v1alpha1.APIAccess) *v1alpha1.VirtualNode {
		return &v1alpha1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       v1alpha1.VirtualNodeSpec{NodeName: "liqo-" + name, APIAccess: access},
			Status:     v1alpha1.VirtualNodeStatus{APIAccess: inherited},
		}
	}
	const given, disabled = v1alpha1.APIAccessConsumer, v1alpha1.APIAccessDisabled
	offloaded := map[string]string{v1alpha1.LabelSchedulingEnabled: "true"}
	for _, test := range []struct {
		name   string
		labels map[string]string
		access v1alpha1.APIAccess
		// inherited is status.apiAccess of the VirtualNode; Consumer if nil.
		inherited           *v1alpha1.APIAccess
		deleted             bool
		before              string
		milan               []string
		unknown             bool
		lingers, retryAfter time.Duration
		want                string
	}{
		{name: "an account of a pod", labels: offloaded, milan: []string{"robot"}, want: milan + "robot"},
		{name: "two accounts, in order", labels: offloaded, before: milan + "robot", milan: []string{"robot", "default"},
			want: milan + "default " + milan + "robot"},
		{name: "the same accounts", labels: offloaded, before: milan + "robot", milan: []string{"robot"}, want: milan + "robot"},
		{name: "no accounts", labels: offloaded},
		{name: "the last account is removed", labels: offloaded, before: milan + "robot"},
		{name: "an account of pods that just ended", labels: offloaded, before: milan + "robot",
			milan:   []string{"robot"},
			lingers: time.Second, retryAfter: time.Second, want: milan + "robot"},
		{name: "no accounts before pods are cached", labels: offloaded, unknown: true, retryAfter: accountsRetry},
		{name: "published accounts before pods are cached", labels: offloaded, before: milan + "robot", unknown: true,
			retryAfter: accountsRetry, want: milan + "robot"},
		{name: "no accounts of a deleted node", labels: offloaded, before: "liqo-peer-rome:federation-virtual-kubelet-rome:robot"},
		{name: "no accounts in a namespace that is not offloaded", milan: []string{"robot"}},
		{name: "the accounts of a namespace that is no longer offloaded are removed", before: milan + "robot", milan: []string{"robot"}},
		{name: "no accounts in a remote namespace", milan: []string{"robot"},
			labels: map[string]string{v1alpha1.LabelSchedulingEnabled: "true",
				v1alpha1.LabelRole: v1alpha1.RoleRemoteNamespace}},
		{name: "no accounts of a node without access", labels: offloaded, access: disabled, milan: []string{"robot"}},
		{name: "the accounts of a node that lost its access are removed", labels: offloaded, access: disabled,
			before: milan + "robot", unknown: true},
		{name: "no accounts of a node whose ForeignCluster gives no access", labels: offloaded, inherited: ptr.To(disabled),
			before: milan + "robot", milan: []string{"robot"}},
		{name: "the VirtualNode overrides the ForeignCluster", labels: offloaded, access: given, inherited: ptr.To(disabled),
			milan: []string{"robot"}, want: milan + "robot"},
		{name: "published accounts before the access is in the status", labels: offloaded, before: milan + "robot",
			inherited: ptr.To[v1alpha1.APIAccess](""), milan: []string{"default", "robot"}, want: milan + "robot"},
		{name: "a use of a namespace that is not offloaded is removed", milan: []string{"robot"},
			lingers:    time.Second,
			retryAfter: time.Second},
		{name: "a use of a deleted namespace is removed", deleted: true, milan: []string{"robot"}, lingers: time.Second,
			retryAfter: time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := kittest.New(t, node("liqo-peer-milan", "milan", test.access, ptr.Deref(test.inherited, given)),
				node("liqo-peer-paris", "paris", "", given), node("liqo-tenant-milan", "milan", "", given))
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "1", Labels: test.labels}}
			if test.before != "" {
				namespace.Annotations = map[string]string{v1alpha1.AnnotationAccounts: test.before}
			}
			if !test.deleted {
				if err := c.Create(t.Context(), namespace); err != nil {
					t.Fatal(err)
				}
			}
			a := &accounts{client: c.Controller, used: func(node, namespace string) ([]string, time.Duration, bool) {
				if node != "liqo-milan" || namespace != "shop" {
					return nil, 0, true
				}
				return test.milan, test.lingers, !test.unknown
			}}
			result, err := a.Reconcile(t.Context(), kit.Request("", "shop"))
			if err != nil {
				t.Fatal(err)
			}
			if result.RequeueAfter != test.retryAfter {
				t.Errorf("requeued after %s, want %s", result.RequeueAfter, test.retryAfter)
			}
			var writes []string
			if test.before != test.want {
				writes = []string{"patch Namespace shop"}
			}
			if diff := cmp.Diff(writes, c.WritesSince(0)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if test.deleted {
				return
			}
			published := kittest.Read(c, "", "shop", &corev1.Namespace{}).Annotations[v1alpha1.AnnotationAccounts]
			if diff := cmp.Diff(test.want, published); diff != "" {
				t.Errorf("published (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAccountsAreAwaitedOnlyIfTokensAreSent(t *testing.T) {
	published := "liqo-peer-milan:federation-virtual-kubelet-milan:robot"
	// A node that never comes is never watched.
	unknown := newAccountUses(nil, func(string) bool { return false }, func(string) {})
	for name, test := range map[string]struct {
		used       func(node, namespace string) ([]string, time.Duration, bool)
		access     v1alpha1.APIAccess
		retryAfter time.Duration
		want       string
	}{
		"with a URL of the consumer's API server": {unknown.of, v1alpha1.APIAccessConsumer, accountsRetry, published},
		"without one": {noUses, v1alpha1.APIAccessDisabled, 0, ""},
	} {
		c := kittest.New(t,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: "shop", Labels: map[string]string{v1alpha1.LabelSchedulingEnabled: "true"},
				Annotations: map[string]string{v1alpha1.AnnotationAccounts: published},
			}},
			&v1alpha1.VirtualNode{
				ObjectMeta: metav1.ObjectMeta{Namespace: peer, Name: "milan"},
				Spec:       v1alpha1.VirtualNodeSpec{NodeName: "liqo-milan"},
				Status:     v1alpha1.VirtualNodeStatus{APIAccess: test.access},
			})
		reconciler := &accounts{client: c.Controller, used: test.used}
		result, err := reconciler.Reconcile(t.Context(), kit.Request("", "shop"))
		if err != nil || result.RequeueAfter != test.retryAfter {
			t.Errorf("%s: requeued after %s, want %s; error %v", name, result.RequeueAfter, test.retryAfter, err)
		}
		got := kittest.Read(c, "", "shop", &corev1.Namespace{}).Annotations[v1alpha1.AnnotationAccounts]
		if got != test.want {
			t.Errorf("%s: published %q, want %q", name, got, test.want)
		}
	}
}

func TestOnlyAccessChangesAccounts(t *testing.T) {
	old := &v1alpha1.VirtualNode{}
	disabled := &v1alpha1.VirtualNode{Spec: v1alpha1.VirtualNodeSpec{APIAccess: v1alpha1.APIAccessDisabled}}
	inherited := &v1alpha1.VirtualNode{Status: v1alpha1.VirtualNodeStatus{APIAccess: v1alpha1.APIAccessDisabled}}
	if accessChanged.Create(event.CreateEvent{Object: old}) || !accessChanged.Delete(event.DeleteEvent{Object: old}) ||
		accessChanged.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: old}) ||
		accessChanged.Update(event.UpdateEvent{ObjectOld: inherited, ObjectNew: disabled}) ||
		!accessChanged.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: disabled}) ||
		!accessChanged.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: inherited}) {
		t.Error("not selected are deletions and changes of the access")
	}
}
