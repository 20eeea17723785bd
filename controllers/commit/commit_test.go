// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package commit

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned/fake"
)

func TestCommit(t *testing.T) {
	old := &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", UID: "u", ResourceVersion: "7", Finalizers: []string{"a"}},
		Spec:       v1alpha1.ForeignClusterSpec{Server: "https://10.0.0.1:6443"},
		Status:     v1alpha1.ForeignClusterStatus{OutgoingPeering: v1alpha1.PeeringPending},
	}
	precondition := map[string]any{"uid": "u", "resourceVersion": "7"}
	for _, test := range []struct {
		name        string
		change      func(*v1alpha1.ForeignCluster)
		subresource string
		patch       map[string]any
		fails       error
	}{
		{name: "no change", change: func(*v1alpha1.ForeignCluster) {}},
		{
			name:   "a changed spec",
			change: func(fc *v1alpha1.ForeignCluster) { fc.Spec.ClusterID = "id" },
			patch:  map[string]any{"metadata": precondition, "spec": map[string]any{"clusterID": "id"}},
		},
		{
			name:   "a changed finalizer, in addition to the precondition",
			change: func(fc *v1alpha1.ForeignCluster) { fc.Finalizers = nil },
			patch:  map[string]any{"metadata": map[string]any{"uid": "u", "resourceVersion": "7", "finalizers": nil}},
		},
		{
			name:        "a changed status",
			change:      func(fc *v1alpha1.ForeignCluster) { fc.Status.OutgoingPeering = v1alpha1.PeeringEstablished },
			subresource: "status",
			patch: map[string]any{
				"metadata": precondition, "status": map[string]any{"outgoingPeering": "Established"},
			},
		},
		{
			name: "a changed spec and a changed status",
			change: func(fc *v1alpha1.ForeignCluster) {
				fc.Spec.ClusterID, fc.Status.OutgoingPeering = "id", v1alpha1.PeeringError
			},
			fails: ErrBothChanged,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := fake.NewClientset(old.DeepCopy())
			desired := old.DeepCopy()
			test.change(desired)
			changed, err := Commit(t.Context(), client.FederationV1alpha1().ForeignClusters(), old, desired)
			if !errors.Is(err, test.fails) {
				t.Fatalf("error %v, want %v", err, test.fails)
			}
			if changed != (test.patch != nil) {
				t.Errorf("changed = %v with patch %v", changed, test.patch)
			}
			var patches []clienttesting.PatchAction
			for _, action := range client.Actions() {
				patches = append(patches, action.(clienttesting.PatchAction))
			}
			if test.patch == nil {
				if len(patches) > 0 {
					t.Fatalf("%d requests were sent", len(patches))
				}
				return
			}
			if len(patches) != 1 || patches[0].GetSubresource() != test.subresource {
				t.Fatalf("patches %v, want one of subresource %q", patches, test.subresource)
			}
			var sent map[string]any
			if err := json.Unmarshal(patches[0].GetPatch(), &sent); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.patch, sent); diff != "" {
				t.Errorf("patch (-want +sent):\n%s", diff)
			}
		})
	}
}
