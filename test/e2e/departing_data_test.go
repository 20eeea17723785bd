// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// storedOnMilan runs a pod that may run on both clusters, and whose volume is on milan. policy is
// the spec.volumes.onUnoffload of its namespace.
func storedOnMilan(t *testing.T, policy v1alpha1.UnoffloadPolicy) offload {
	t.Helper()
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{
		PodOffloadingStrategy: v1alpha1.LocalAndRemote, Volumes: v1alpha1.NamespaceVolumes{OnUnoffload: policy},
	})
	set := storing("db", 1)
	set.Spec.Template.Spec.Affinity = preferringTheVirtualNode().Affinity
	must(rome.Kube.AppsV1().StatefulSets(o.namespace).Create(t.Context(), set, metav1.CreateOptions{}))(t)
	if node := podReady(t, rome, o.namespace, "db-0").Spec.NodeName; node != virtualNode {
		t.Fatalf("the pod runs on %s", node)
	}
	return o
}

// runsWithItsData waits until the pod of storedOnMilan is Ready, on milan or on rome. It fails the
// test unless the pod has started times times on its volume.
func runsWithItsData(t *testing.T, o offload, onMilan bool, times int) {
	t.Helper()
	podThat(t, rome, o.namespace, "db-0", "run where its data is", func(pod *corev1.Pod) bool {
		return isReady(pod) && (pod.Spec.NodeName == virtualNode) == onMilan && pod.DeletionTimestamp == nil
	})
	if got := starts(t, o.namespace, "db-0"); got != times {
		t.Errorf("the volume in namespace %s has %d starts, not %d", o.namespace, got, times)
	}
}

// movesWithinTheProvider moves a volume of milan to another StorageClass of milan.
func (f fabric) movesWithinTheProvider(t *testing.T) {
	offersStorage(t, milan, "1Gi", realClass, immediateClass)
	o := storedOnMilan(t, v1alpha1.UnoffloadRefuse)
	volumes := rome.Federation.FederationV1alpha1().VirtualVolumes(o.namespace)
	move := &v1alpha1.Move{Spec: v1alpha1.MoveSpec{Target: v1alpha1.MoveTarget{StorageClassName: immediateClass}}}
	must(volumes.CreateMove(t.Context(), movedClaim, move, metav1.CreateOptions{}))(t)
	volumeThat(t, o.namespace, movedClaim, "be of the other class", func(v *v1alpha1.VirtualVolume) bool {
		return v.Status.Move != nil && v.Status.Move.Phase == v1alpha1.MoveSucceeded &&
			v.Status.Location.StorageClassName == immediateClass
	})
	runsWithItsData(t, o, true, 2)
}

// retainsDataOnTheProvider unoffloads a namespace whose policy retains data. It also deletes a
// namespace whose claim was deleted before, with a retained volume. Both remote namespaces must be
// deleted, and both volumes must stay on milan.
func (f fabric) retainsDataOnTheProvider(t *testing.T) {
	grantsStorage(t, "1Gi")
	unoffloaded, deleted := storedOnMilan(t, v1alpha1.UnoffloadRetain), storedOnMilan(t, v1alpha1.UnoffloadRefuse)
	kubectl(t, rome, "delete", "namespaceoffloading", "offloading", "-n", unoffloaded.namespace, "--timeout=110s")

	kept := must(rome.Kube.CoreV1().PersistentVolumeClaims(deleted.namespace).Get(t.Context(), movedClaim,
		metav1.GetOptions{}))(t).Spec.VolumeName
	kubectl(t, rome, "patch", "pv", kept, "-p", `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	kubectl(t, rome, "delete", "statefulset", "db", "-n", deleted.namespace, "--timeout=110s")
	kubectl(t, rome, "delete", "pvc", movedClaim, "-n", deleted.namespace, "--timeout=110s")
	isPrinted(t, rome, "get pv "+kept+" -o jsonpath={.status.phase}", string(corev1.VolumeReleased))
	kubectl(t, rome, "delete", "namespace", deleted.namespace, "--timeout=110s")
	isPrinted(t, rome, "get pv "+kept+" --ignore-not-found -o name", "")

	for _, o := range []offload{unoffloaded, deleted} {
		eventually(t, soon, "the remote namespace to be gone", func(ctx context.Context) (bool, string, error) {
			_, err := milan.Kube.CoreV1().Namespaces().Get(ctx, o.remote, metav1.GetOptions{})
			return gone(err)
		})
		of := `get pv -o jsonpath={.items[?(@.spec.claimRef.namespace=="` + o.remote + `")]`
		isPrinted(t, milan, of+".status.phase}", string(corev1.VolumeReleased))
		kubectl(t, milan, "delete", "pv", kubectl(t, milan, strings.Fields(of+".metadata.name}")...))
	}
}

// drainsTheData runs the command of docs/moving-volumes.md that moves all data of rome's namespaces
// from milan to rome.
func (f fabric) drainsTheData(t *testing.T) {
	grantsStorage(t, "1Gi")
	first, second := storedOnMilan(t, v1alpha1.UnoffloadRefuse), storedOnMilan(t, v1alpha1.UnoffloadRefuse)
	runsThePage(t, rome, "storage.md", "-n shop", "-n "+first.namespace, "namespaces/shop", "namespaces/"+first.namespace,
		`{"clusterName": "milan"}`, `{"local": true}`)
	volumeThat(t, first.namespace, movedClaim, "be at its source", func(v *v1alpha1.VirtualVolume) bool {
		return v.Status.Move != nil && v.Status.Move.Phase == v1alpha1.MoveCancelled
	})
	podReady(t, rome, first.namespace, "db-0")
	runsThePage(t, rome, "moving-volumes.md", "-n shop", "-n "+first.namespace)
	for _, o := range []offload{first, second} {
		runsWithItsData(t, o, false, 2)
	}
}

// endsAPeeringWithData unpeers while milan stores data of two namespaces. The data of the first one
// is moved to rome before. The data of the second one stays on milan, and its pod uses it again
// after the clusters are peered again.
func (f fabric) endsAPeeringWithData(t *testing.T) {
	grantsStorage(t, "1Gi")
	moved, retained := storedOnMilan(t, v1alpha1.UnoffloadMove), storedOnMilan(t, v1alpha1.UnoffloadRetain)
	claim := volumeThat(t, retained.namespace, movedClaim, "be bound", func(v *v1alpha1.VirtualVolume) bool {
		return v.Status.Phase == v1alpha1.VirtualVolumeBound && v.Status.Location != nil
	}).Status.Location.ClaimName

	plan := kubectl(t, rome, "delete", "--raw", group+"foreignclusters/milan/peer?dryRun=All")
	for _, o := range []offload{moved, retained} {
		if !strings.Contains(plan, o.namespace) {
			t.Errorf("the plan does not name the volume in namespace %s: %s", o.namespace, plan)
		}
	}
	kubectl(t, rome, "delete", "--raw", group+"foreignclusters/milan/peer")
	eventually(t, 2*soon, "ForeignCluster milan to be deleted", func(ctx context.Context) (bool, string, error) {
		fc, err := rome.Federation.FederationV1alpha1().ForeignClusters().Get(ctx, "milan", metav1.GetOptions{})
		if err == nil {
			return false, show(fc.Status), nil
		}
		return gone(err)
	})
	runsWithItsData(t, moved, false, 2)
	if got := must(milan.Kube.CoreV1().PersistentVolumeClaims(retained.remote).Get(t.Context(), claim,
		metav1.GetOptions{}))(t); got.DeletionTimestamp != nil {
		t.Errorf("claim %s on milan is being deleted", claim)
	}
	volumeThat(t, retained.namespace, movedClaim, "report that its provider is not peered",
		func(v *v1alpha1.VirtualVolume) bool {
			condition := apimeta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionVolumeReady)
			return condition != nil && condition.Reason == "ProviderNotPeered"
		})

	peers(t, rome, milan)
	agreed(t)
	runsWithItsData(t, retained, true, 2)
	for _, o := range []offload{moved, retained} {
		kubectl(t, rome, "delete", "statefulset", "db", "-n", o.namespace, "--timeout=110s")
		kubectl(t, rome, "delete", "pvc", movedClaim, "-n", o.namespace, "--timeout=110s")
	}
	isPrinted(t, milan, "get shvc,pvc -n "+retained.remote+" -o name", "")
	for c, namespaces := range map[*harness.Cluster][]string{rome: {moved.namespace, retained.namespace},
		milan: {moved.remote, retained.remote}} {
		for _, namespace := range namespaces {
			isPrinted(t, c, `get pv -o jsonpath={.items[?(@.spec.claimRef.namespace=="`+namespace+`")].metadata.name}`, "")
		}
	}
}
