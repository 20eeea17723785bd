// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	fedfake "liqo.io/federation/generated/clientset/versioned/fake"
)

func shadowOf(name string, labels map[string]string) *v1alpha1.ShadowPod {
	return &v1alpha1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: name, UID: types.UID(name), Labels: labels},
	}
}

func TestShadowPodsOfDeletedVirtualNodesAreDeleted(t *testing.T) {
	to := translate.Destination{OriginID: "rome", DestinationID: "milan", NodeName: "liqo-milan"}
	of := func(origin, node string) map[string]string {
		labels := translate.Destination{OriginID: origin, DestinationID: "milan", NodeName: node}.Labels()
		if node == "" {
			delete(labels, v1alpha1.LabelVirtualNode)
		}
		return labels
	}
	ending := shadowOf("ending", of("rome", "liqo-milan-2"))
	ending.DeletionTimestamp, ending.Finalizers = ptr.To(metav1.Now()), []string{"test/stays"}
	objects := []runtime.Object{
		shadowOf(
			"own",
			of("rome", "liqo-milan"),
		),
		shadowOf("sibling", of("rome", "liqo-milan-3")),
		shadowOf("former", of("rome", "liqo-milan-2")),
		shadowOf("other", of("naples", "liqo-milan-2")),
		shadowOf("by-hand", of("rome", "")),
		ending,
	}
	for _, test := range []struct {
		name    string
		decides bool
		nodes   []string
		err     error
		want    []string
	}{
		{"by the virtual kubelet that decides", true, []string{"liqo-milan-3", "liqo-milan"}, nil, []string{"former"}},
		{"another virtual kubelet decides", false, []string{"liqo-milan-3", "liqo-milan"}, nil, nil},
		{"unreadable list of nodes", true, nil, errors.New("no luck"), nil},
		{"empty list of nodes", true, nil, nil, nil},
		{"own node is missing", true, []string{"liqo-milan-3"}, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				provider := fedfake.NewSimpleClientset(objects...)
				requested := 0
				l := NewLeftovers(to, provider,
					func(context.Context) ([]string, error) { return test.nodes, test.err },
					func() bool { requested++; return test.decides },
					fixed{"demo": {Namespace: &remotens.Namespace{Local: "demo", Remote: "demo-rome"}}},
					clocktesting.NewFakeClock(metav1.Now().Time))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go l.Run(ctx)
				// Only the deletion of a virtual node causes a sweep.
				l.SetNodes([]string{"liqo-milan", "liqo-milan-2", "liqo-milan-3"})
				synctest.Wait()
				if requested > 0 {
					t.Error("shadow pods are listed although no virtual node was deleted")
				}
				l.SetNodes([]string{"liqo-milan", "liqo-milan-3"})
				synctest.Wait()
				var deleted []string
				for _, action := range provider.Actions() {
					if deletion, ok := action.(clienttesting.DeleteActionImpl); ok {
						deleted = append(deleted, deletion.GetName())
						if uid := deletion.DeleteOptions.Preconditions.UID; uid == nil ||
							string(*uid) != deletion.GetName() {
							t.Errorf("a shadow pod with another UID would be deleted: %v", uid)
						}
					}
				}
				if diff := cmp.Diff(test.want, deleted); diff != "" {
					t.Errorf("deleted (-want +got):\n%s", diff)
				}
				if left := l.pending.Len() > 0; left != (test.err != nil) {
					t.Errorf("retry: %t", left)
				}
			})
		})
	}
}
