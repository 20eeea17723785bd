// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/controllers/kit/kittest"
)

const (
	evictWeb         = "create eviction Pod web"
	deleteDeployment = "delete Deployment " + kubelet
	deleteNode       = "delete Node liqo-milan"
)

// revoked are the last writes of the teardown of a virtual node.
var revoked = []string{"delete ClusterRoleBinding " + role, "delete ServiceAccount " + kubelet,
	"patch VirtualNode milan"}

// newDrainingWorld returns a world whose virtual node is being deleted: its Node is cordoned,
// and has the pod web.
func newDrainingWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.deploy()
	w.addNode(cordoned)
	w.addPod("shop", "web")
	w.remove()
	return w
}

// refuse makes writes with a verb to objects with a name fail with err.
func (w *world) refuse(verb, name string, err error) {
	w.Fault = func(write kittest.Write, done bool) error {
		if write.Verb == verb && (name == "" || write.Name == name) && !done {
			return err
		}
		return nil
	}
}

func TestVirtualNodeIsRemovedInOrder(t *testing.T) {
	w := newWorld(t)
	w.deploy()
	w.addNode()
	w.addPod("shop", "web")
	w.remove()
	w.expect("patch Node liqo-milan", evictWeb)
	w.expect()
	w.end("shop", "web")
	w.expect(deleteDeployment)
	w.expect(append([]string{deleteNode}, revoked...)...)
	if !slices.Equal(w.forgotten, []string{"liqo-milan"}) {
		t.Errorf("forgotten nodes %v", w.forgotten)
	}
	w.expect()
}

func TestKilledAtAnyWriteTheVirtualNodeIsRemoved(t *testing.T) {
	for number := range 6 {
		for _, done := range []bool{false, true} {
			w := newWorld(t)
			w.deploy()
			w.addNode()
			w.remove()
			w.Kill(len(w.Writes)+number, done)
			var err error
			for range 2 {
				if _, err = w.pass(); err != nil {
					break
				}
			}
			if !errors.Is(err, kittest.ErrKilled) {
				t.Fatalf("write %d, done %t: error %v", number, done, err)
			}
			w.Fault = nil
			for range 2 {
				if _, err := w.pass(); err != nil {
					t.Fatal(err)
				}
			}
			if w.Has(&v1alpha1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: peer, Name: "milan"}}) ||
				w.Has(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "liqo-milan"}}) || w.deployment() != nil {
				t.Errorf("write %d, done %t: not everything is deleted", number, done)
			}
		}
	}
}

func TestPodsThatWereNeverOffloadedAreNotDrained(t *testing.T) {
	w := newDrainingWorld(t)
	w.addPod(metav1.NamespaceSystem, "kube-proxy")
	// The DaemonSet would create this pod again at once.
	w.addPod("shop", "collector", func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "collector",
			Controller: ptr.To(true)}}
	})
	w.expect(evictWeb)
	w.end("shop", "web")
	w.expect(deleteDeployment)
}

func TestPodWhoseEvictionIsForbiddenBlocksNoOthers(t *testing.T) {
	w := newDrainingWorld(t)
	w.addPod("shop", "first")
	w.refuse(
		"create eviction", "first", apierrors.NewForbidden(corev1.Resource("pods"), "first", errors.New("a policy")),
	)
	writes, err := w.pass()
	if !apierrors.IsForbidden(err) || !slices.Contains(writes, evictWeb) {
		t.Errorf("wrote %v, error %v", writes, err)
	}
	if kittest.Read(w.Cluster, "shop", "web", &corev1.Pod{}).DeletionTimestamp == nil {
		t.Error("the other pod is not evicted")
	}
}

func TestDrainEndsAtTheDeadline(t *testing.T) {
	w := newDrainingWorld(t)
	w.expect(evictWeb)
	w.after(199 * time.Second)
	w.expect()
	w.after(200 * time.Second)
	w.expect(deleteDeployment)
	w.expect(append([]string{"delete Pod web", deleteNode}, revoked...)...)
}

func TestNodeIsCordonedAlsoIfNoTimeIsLeft(t *testing.T) {
	w := newDrainingWorld(t)
	w.changeNode(func(node *corev1.Node) { node.Spec.Unschedulable = false })
	w.after(200 * time.Second)
	w.expect("patch Node liqo-milan", deleteDeployment)
}

func TestPodsThatCannotBeDeletedDoNotBlockTheirNode(t *testing.T) {
	w := newDrainingWorld(t)
	w.after(200 * time.Second)
	w.expect(deleteDeployment)
	w.refuse("delete", "web", apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New("a policy")))
	w.expect(append([]string{"delete Pod web", deleteNode}, revoked...)...)
}

func TestPodsWhoseEndIsNotObservedAreNotDrainedLong(t *testing.T) {
	for _, test := range []struct {
		name    string
		revoked time.Duration
		left    time.Duration
	}{
		{"revoked long before", -time.Hour, 10 * time.Second},
		{"revoked shortly before", -40 * time.Second, 20 * time.Second},
		{"revoked near the deadline", 190 * time.Second, 200 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newDrainingWorld(t)
			since := metav1.NewTime(w.virtual().DeletionTimestamp.Add(test.revoked))
			w.changeCluster(func(fc *v1alpha1.ForeignCluster) {
				fc.Status.Conditions = []metav1.Condition{{
					Type: v1alpha1.ConditionAuthenticated, Reason: identity.ReasonIdentityRevoked,
					LastTransitionTime: since,
				}}
			})
			w.expect(evictWeb)
			w.after(test.left - time.Second)
			w.expect()
			w.after(test.left)
			w.expect(deleteDeployment)
		})
	}
}

func TestNodeOfAnotherClusterIsNotChanged(t *testing.T) {
	for name, change := range map[string]func(*corev1.Node){
		"a node of this cluster":     func(n *corev1.Node) { n.Labels = nil },
		"a node of another provider": func(n *corev1.Node) { n.Labels[v1alpha1.LabelRemoteClusterID] = romeID },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.deploy()
			w.addNode(change)
			w.remove()
			w.expect(deleteDeployment)
			w.expect(revoked...)
			if kittest.Read(w.Cluster, "", "liqo-milan", &corev1.Node{}).Spec.Unschedulable {
				t.Error("the node is cordoned")
			}
		})
	}
}

func TestDrainRetriesPDB(t *testing.T) {
	w := newDrainingWorld(t)
	w.refuse("create eviction", "", apierrors.NewTooManyRequests("the disruption budget does not allow it", 0))
	for range 2 {
		w.expect(evictWeb)
		if kittest.Read(w.Cluster, "shop", "web", &corev1.Pod{}).DeletionTimestamp != nil {
			t.Error("the pod is evicted")
		}
	}
	w.Fault = nil
	w.expect(evictWeb)
	w.expect()
}
