// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/reflection"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/storage/mover"
)

func TestMoveBindsTheClaimToTheTarget(t *testing.T) {
	for _, strategy := range []v1alpha1.MoveStrategy{v1alpha1.MoveOnline, v1alpha1.MoveOffline} {
		t.Run(string(strategy), func(t *testing.T) {
			spec := online()
			spec.Strategy = strategy
			w := newWorld(t, spec)
			w.settle()
			progress := w.until(v1alpha1.MoveSucceeded)
			w.settle()
			w.assertBoundTo(w.targetName())
			if progress.BytesCopied != 100 || progress.DowntimeMilliseconds == nil || progress.CompletionTime == nil {
				t.Errorf("progress %+v", progress)
			}
			claim := get(w, claimName, &corev1.PersistentVolumeClaim{})
			if diff := cmp.Diff(map[string]string{"team": "a"}, claim.Annotations); diff != "" {
				t.Errorf("annotations of the new claim (-want +got):\n%s", diff)
			}
			if claim.UID == "claim-0" || claim.Labels["app"] != "db" || len(claim.OwnerReferences) > 0 {
				t.Errorf("the new claim is %+v", claim.ObjectMeta)
			}
		})
	}
}

func TestRoleThatAnotherMoveUnboundIsBoundAgain(t *testing.T) {
	for _, phase := range []v1alpha1.MovePhase{
		v1alpha1.MoveCopying, v1alpha1.MoveLocking, v1alpha1.MoveSwitching, v1alpha1.MoveCleaning,
	} {
		t.Run(string(phase), func(t *testing.T) {
			w := newWorld(t, online())
			w.settle()
			w.until(phase)
			binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Role}}
			w.must(w.kube.Delete(t.Context(), binding))
			w.until(v1alpha1.MoveSucceeded)
			w.settle()
			w.assertBoundTo(w.targetName())
		})
	}
}

func TestRoleIsBoundUntilAllMovesOfTheNamespaceHaveEnded(t *testing.T) {
	w := newWorld(t, online())
	other := &v1alpha1.VirtualVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"},
		Status:     v1alpha1.VirtualVolumeStatus{Move: &v1alpha1.MoveProgress{ID: "x", Phase: v1alpha1.MoveCleaning}},
	}
	w.must(w.kube.Create(t.Context(), other))
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Role}}
	w.settle()
	w.until(v1alpha1.MoveSucceeded)
	w.reconcile()
	if !w.kube.Has(binding) {
		t.Error("the role is not bound while another move runs")
	}
	other.Status.Move.Phase = v1alpha1.MoveSucceeded
	w.must(w.kube.Status().Update(t.Context(), other))
	w.reconcile()
	w.settle()
	w.assertBoundTo(w.targetName())
}

// TestEndOfAMoveIsRecordedBeforeItsRightsAreRemoved ends the process at each write of the phases in which a move ends,
// in a namespace in which the role cannot be bound again, because it is not offloaded any more.
func TestEndOfAMoveIsRecordedBeforeItsRightsAreRemoved(t *testing.T) {
	for _, end := range []v1alpha1.MovePhase{v1alpha1.MoveSucceeded, v1alpha1.MoveCancelled} {
		killed := ptr.To(true)
		for number := 0; *killed; number++ {
			w := newWorld(t, online())
			w.settle()
			if end == v1alpha1.MoveSucceeded {
				w.stopAt(v1alpha1.MoveCleaning)
			} else {
				w.stopAt(v1alpha1.MoveFinalCopy)
				w.cancel()
			}
			w.refused = map[string]error{Role: exceeded}
			killed = w.kill(len(w.kube.Writes)+number, false)
			w.until(end)
			w.settle()
			w.assertBoundTo(get(w, claimName, &corev1.PersistentVolumeClaim{}).Spec.VolumeName)
			if number > 50 {
				t.Fatal("the move has too many writes")
			}
		}
	}
}

func TestCancelledMoveLeavesTheClaimWithTheSource(t *testing.T) {
	for _, phase := range []v1alpha1.MovePhase{
		v1alpha1.MovePreparing, v1alpha1.MoveCopying, v1alpha1.MoveQuiescing, v1alpha1.MoveLocking, v1alpha1.MoveFinalCopy,
	} {
		t.Run(string(phase), func(t *testing.T) {
			spec := online()
			w := newWorld(t, spec)
			w.settle()
			w.stopAt(phase)
			w.cancel()
			w.until(v1alpha1.MoveCancelled)
			w.settle()
			w.assertBoundTo(sourceName)
		})
	}
}

func TestCancelledMoveStaysCancelledWhateverWasRecorded(t *testing.T) {
	for at := 1; at <= 10; at++ {
		t.Run(fmt.Sprintf("after write %d", at), func(t *testing.T) {
			w := newWorld(t, online())
			w.settle()
			w.kube.Kill(at-1, true)
			for len(w.kube.Writes) < at {
				w.reconcile()
			}
			w.cancel()
			w.until(v1alpha1.MoveCancelled)
			for range 5 {
				w.reconcile()
			}
			if progress := w.virtualVolume().Status.Move; progress.Phase != v1alpha1.MoveCancelled {
				t.Errorf("progress %+v", progress)
			}
			w.assertBoundTo(sourceName)
		})
	}
}

// stopAt reconciles until a phase is recorded, and ends the process after that write.
func (w *world) stopAt(phase v1alpha1.MovePhase) {
	w.t.Helper()
	w.killWhen = phase
	w.until(phase)
	w.killWhen = ""
}

func TestFailedCopyRollsTheMoveBackAndNamesTheFile(t *testing.T) {
	w := newWorld(t, online())
	w.report = mover.Report{State: mover.StateFailed, Message: `copying: failed to open "/data/x": Permission denied (13)`}
	w.settle()
	progress := w.until(v1alpha1.MoveFailed)
	w.settle()
	w.assertBoundTo(sourceName)
	if !strings.Contains(progress.Message, "/data/x") {
		t.Errorf("message %q", progress.Message)
	}
}

func TestBudgetThatAllowsNoEvictionRollsTheMoveBackInTime(t *testing.T) {
	for _, test := range []struct {
		name, message string
		answer        error
	}{
		{"allows none", "allows no eviction now", apierrors.NewTooManyRequests("the budget allows none", 1)},
		{"was not processed yet", "not processed yet", context.DeadlineExceeded},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, online())
			w.unevicted = test.answer
			w.settle()
			progress := w.until(v1alpha1.MoveFailed)
			w.settle()
			w.assertBoundTo(sourceName)
			if !strings.Contains(progress.Message, test.message) {
				t.Errorf("message %q", progress.Message)
			}
		})
	}
}

func TestPodThatWasDeletedByForceCountsAsRunning(t *testing.T) {
	for _, phase := range []v1alpha1.MovePhase{
		v1alpha1.MovePreparing, v1alpha1.MoveCopying, v1alpha1.MoveQuiescing,
	} {
		t.Run(string(phase), func(t *testing.T) {
			w := newWorld(t, online())
			w.settle()
			w.unevicted = apierrors.NewTooManyRequests("the budget allows none", 1)
			w.until(phase)
			w.reconcile()
			pod := get(w, appName, &corev1.Pod{})
			w.controller.ends.deleted(pod, w.kube.Clock.Now())
			w.must(w.kube.Delete(t.Context(), pod))
			w.settle()
			w.unevicted = nil
			w.until(v1alpha1.MoveQuiescing)
			for range 5 {
				w.reconcile()
			}
			if progress := w.virtualVolume().Status.Move; progress.Phase != v1alpha1.MoveQuiescing ||
				!strings.Contains(progress.Message, "has not reported its end") {
				t.Fatalf("progress %+v", progress)
			}
			node := get(w, "worker", &corev1.Node{})
			node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
			w.must(w.kube.Update(t.Context(), node))
			w.until(v1alpha1.MoveSucceeded)
		})
	}
}

func TestPodThatEndedDuringTheCopyDoesNotCountAsRunning(t *testing.T) {
	w := newWorld(t, online())
	w.settle()
	w.stopAt(v1alpha1.MoveCopying)
	pod := get(w, appName, &corev1.Pod{})
	if mark := markOrNil(get(w, sourceName, &corev1.PersistentVolume{})); mark.Users[pod.UID].Pod != appName {
		t.Fatalf("the annotation of the source has users %v", mark.Users)
	}
	pod.Status.Phase = corev1.PodSucceeded
	w.controller.ends.deleted(pod, w.kube.Clock.Now())
	w.must(w.kube.Delete(t.Context(), pod))
	w.settle()
	w.until(v1alpha1.MoveQuiescing)
	if mark := markOrNil(get(w, sourceName, &corev1.PersistentVolume{})); len(mark.Users) > 1 {
		t.Errorf("the annotation of the source has users %v", mark.Users)
	}
	w.until(v1alpha1.MoveSucceeded)
}

func TestSenderThatIsDeletedInFinalCopyIsReplacedOnTheLockedSource(t *testing.T) {
	w := newWorld(t, online())
	w.settle()
	w.stopAt(v1alpha1.MoveFinalCopy)
	w.must(w.kube.Delete(t.Context(), get(w, namesOf(moveID).sender, &corev1.Pod{})))
	w.reconcile()
	sender := get(w, namesOf(moveID).sender, &corev1.Pod{})
	if claim := claimOf(sender); claim != namesOf(moveID).source {
		t.Errorf("the new sender mounts %s", claim)
	}
	w.until(v1alpha1.MoveSucceeded)
	w.settle()
	w.assertBoundTo(w.targetName())
}

func TestMoveDoesNotWaitForTheEndOfASenderThatIsDone(t *testing.T) {
	w := newWorld(t, online())
	w.log = `{"state":"Copying"}`
	w.settle()
	w.until(v1alpha1.MoveFinalCopy)
	w.log = `{"state":"Done","passes":2,"bytesTotal":100,"bytesCopied":100}`
	progress := w.until(v1alpha1.MoveSucceeded)
	w.settle()
	w.assertBoundTo(w.targetName())
	if progress.Passes != 2 || progress.BytesCopied != 100 {
		t.Errorf("progress %+v", progress)
	}
}

func TestMoverThatIsLostInFinalCopyRollsTheMoveBack(t *testing.T) {
	for _, name := range []string{namesOf(moveID).sender, namesOf(moveID).receiver} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, online())
			w.log = `{"state":"Copying"}`
			w.settle()
			w.stopAt(v1alpha1.MoveFinalCopy)
			lost := get(w, name, &corev1.Pod{})
			// The node of the mover failed, so nothing reports that the mover ended.
			lost.Finalizers = []string{"example.com/node"}
			lost.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(w.kube.Clock.Now()),
			}}
			w.store(lost)
			w.reconcile()
			if phase := w.virtualVolume().Status.Move.Phase; phase != v1alpha1.MoveFinalCopy {
				t.Fatalf("the move is in phase %s before moverTimeout", phase)
			}
			w.wait(moverTimeout)
			w.until(v1alpha1.MoveRollingBack)
			for range 10 {
				w.reconcile()
			}
			claim, app := get(w, claimName, &corev1.PersistentVolumeClaim{}), get(w, appName, &corev1.Pod{})
			if claim.Status.Phase != corev1.ClaimBound || app.Status.Phase != corev1.PodRunning {
				t.Errorf("while %s is unreachable, the claim is %s and the pod %s", name, claim.Status.Phase, app.Status.Phase)
			}
			lost = get(w, name, &corev1.Pod{})
			lost.Finalizers = nil
			w.must(w.kube.Update(t.Context(), lost))
			progress := w.until(v1alpha1.MoveFailed)
			w.settle()
			w.assertBoundTo(sourceName)
			if !strings.Contains(progress.Message, name) {
				t.Errorf("message %q", progress.Message)
			}
		})
	}
}

func TestClaimThatTheUserDeletedWhileLockedLeavesItsDataRetained(t *testing.T) {
	for name, finalizers := range map[string][]string{"deleted": nil, "held by a finalizer": {"example.com/held"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, online())
			w.runsWithoutStatefulSet()
			w.settle()
			w.stopAt(v1alpha1.MoveFinalCopy)
			w.must(w.kube.Delete(t.Context(), get(w, namesOf(moveID).sender, &corev1.Pod{})))
			claim := get(w, claimName, &corev1.PersistentVolumeClaim{})
			claim.Finalizers = finalizers
			w.must(w.kube.Update(t.Context(), claim))
			w.must(w.kube.Delete(t.Context(), claim))
			w.report = mover.Report{State: mover.StateFailed, Message: "x"}
			w.until(v1alpha1.MoveFailed)
			w.settle()
			source := get(w, sourceName, &corev1.PersistentVolume{})
			if source.Status.Phase != corev1.VolumeReleased || source.Annotations[volume.AnnotationReclaimPolicy] != "Retain" {
				t.Errorf("source is %s with policy %s", source.Status.Phase, source.Annotations[volume.AnnotationReclaimPolicy])
			}
		})
	}
}

func TestClaimThatTheUserCreatedAgainWhileLockedGetsTheSourceIfItFits(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*corev1.PersistentVolumeClaim)
		fits   bool
	}{
		{"the same claim", func(*corev1.PersistentVolumeClaim) {}, true},
		{"a larger claim", func(claim *corev1.PersistentVolumeClaim) {
			claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
		}, false},
		{"a claim of another class",
			func(claim *corev1.PersistentVolumeClaim) { claim.Spec.StorageClassName = ptr.To("ssd") }, false},
		{"a claim of another volume",
			func(claim *corev1.PersistentVolumeClaim) { claim.Spec.VolumeName = "pvc-other" }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, online())
			w.runsWithoutStatefulSet()
			w.settle()
			w.stopAt(v1alpha1.MoveFinalCopy)
			claim := get(w, claimName, &corev1.PersistentVolumeClaim{})
			claim.Finalizers = nil
			w.must(w.kube.Update(t.Context(), claim))
			w.must(w.kube.Delete(t.Context(), claim))
			again := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claimName, UID: "claim-1"}, Spec: claim.Spec,
			}
			again.Spec.VolumeName = ""
			test.change(again)
			w.must(w.kube.Create(t.Context(), again))
			w.until(v1alpha1.MoveFailed)
			w.settle()
			source := get(w, sourceName, &corev1.PersistentVolume{})
			if bound := source.Spec.ClaimRef.UID == "claim-1" && source.Status.Phase == corev1.VolumeBound; bound != test.fits {
				t.Errorf("the source is %s with claimRef %v", source.Status.Phase, source.Spec.ClaimRef)
			}
			if policy := source.Annotations[volume.AnnotationReclaimPolicy]; !test.fits &&
				(source.Status.Phase != corev1.VolumeReleased || policy != "Retain") {
				t.Errorf("the source is %s with policy %s", source.Status.Phase, policy)
			}
		})
	}
}

func TestEndedPodsDoNotHoldTheClaim(t *testing.T) {
	w := newWorld(t, online())
	w.settle()
	backup := podOf("backup-1")
	w.number(backup)
	backup.Spec.NodeName, backup.Status.Phase = "worker", corev1.PodSucceeded
	w.must(w.kube.Create(t.Context(), backup))
	w.until(v1alpha1.MoveSucceeded)
	if claim := get(w, claimName, &corev1.PersistentVolumeClaim{}); claim.UID == "claim-0" {
		t.Error("the claim is still the old one")
	}
}

func TestMoveWithoutARecordIsFinishedOrRolledBack(t *testing.T) {
	for _, test := range []struct {
		at   v1alpha1.MovePhase
		want v1alpha1.MovePhase
	}{
		{v1alpha1.MoveFinalCopy, v1alpha1.MoveFailed},
		{v1alpha1.MoveReleasing, v1alpha1.MoveSucceeded},
	} {
		t.Run(string(test.at), func(t *testing.T) {
			w := newWorld(t, online())
			w.settle()
			w.stopAt(test.at)
			vv := w.virtualVolume()
			vv.Status = v1alpha1.VirtualVolumeStatus{}
			w.must(w.kube.Status().Update(t.Context(), vv))
			w.cancel()
			w.until(test.want)
			w.settle()
			if test.want == v1alpha1.MoveSucceeded {
				w.assertBoundTo(w.targetName())
			} else {
				w.assertBoundTo(sourceName)
			}
		})
	}
}

func TestRequestOfARestoredStoreIsNotRepeated(t *testing.T) {
	w := newWorld(t, online())
	w.settle()
	w.stopAt(v1alpha1.MoveFinalCopy)
	vv := w.virtualVolume()
	vv.Generation, vv.Spec.Move.ID = 7, "olderolder"
	w.must(w.kube.Update(t.Context(), vv))
	now := metav1.NewTime(w.kube.Clock.Now())
	vv.Status = v1alpha1.VirtualVolumeStatus{
		Move: &v1alpha1.MoveProgress{ID: "olderolder", Phase: v1alpha1.MoveSucceeded, CompletionTime: &now},
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionVolumeMoved, Status: metav1.ConditionTrue, Reason: string(v1alpha1.MoveSucceeded),
			ObservedGeneration: vv.Generation, LastTransitionTime: now,
		}},
	}
	w.must(w.kube.Status().Update(t.Context(), vv))
	w.until(v1alpha1.MoveFailed)
	for range 5 {
		w.reconcile()
	}
	if progress := w.virtualVolume().Status.Move; progress.ID != moveID || progress.Phase != v1alpha1.MoveFailed {
		t.Errorf("progress %+v", progress)
	}
	w.assertBoundTo(sourceName)
}

func TestTargetOfADeletedNamespaceIsNeverLeftForAClaimOfItsName(t *testing.T) {
	w := newWorld(t, online())
	w.settle()
	w.stopAt(v1alpha1.MoveSwitching)
	for range 50 {
		w.reconcile()
		if pv := get(w, w.targetName(), &corev1.PersistentVolume{}); pv.Spec.ClaimRef.UID == "" {
			break
		}
	}
	w.noStatefulSet = true
	for _, object := range []client.Object{&corev1.Pod{}, &corev1.PersistentVolumeClaim{}} {
		w.must(w.kube.DeleteAllOf(t.Context(), object, client.InNamespace(namespace)))
	}
	for _, claim := range w.claims() {
		claim.Finalizers = nil
		w.must(client.IgnoreNotFound(w.kube.Update(t.Context(), &claim)))
	}
	w.must(w.kube.Delete(t.Context(), w.virtualVolume()))
	w.must(w.kube.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	for range 5 {
		w.reconcile()
	}
	for _, pv := range w.volumes() {
		if pv.Spec.ClaimRef.UID == "" || pv.Annotations[volume.AnnotationReclaimPolicy] != "Retain" ||
			pv.Annotations[annotationMark] != "" {
			t.Errorf("volume %s names %+v, annotations %v", pv.Name, pv.Spec.ClaimRef, pv.Annotations)
		}
	}
}

func TestVolumesAreReleasedWhileTheirNamespaceIsBeingDeleted(t *testing.T) {
	w := newWorld(t, online())
	w.runsWithoutStatefulSet()
	w.settle()
	w.stopAt(v1alpha1.MoveFinalCopy)
	going := &corev1.Namespace{}
	w.must(w.kube.Get(t.Context(), client.ObjectKey{Name: namespace}, going))
	going.Finalizers = []string{"kubernetes"}
	w.must(w.kube.Update(t.Context(), going))
	w.must(w.kube.Delete(t.Context(), going))
	w.must(w.kube.Delete(t.Context(), w.virtualVolume()))
	w.reconcile()
	if pv := get(w, sourceName, &corev1.PersistentVolume{}); pv.Annotations[annotationMark] == "" {
		t.Error("the source is released while a claim is bound to it")
	}
	w.must(w.kube.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(namespace)))
	w.must(w.kube.DeleteAllOf(t.Context(), &corev1.PersistentVolumeClaim{}, client.InNamespace(namespace)))
	w.settle()
	w.reconcile()
	for _, pv := range w.volumes() {
		if pv.Status.Phase != corev1.VolumeReleased || pv.Annotations[volume.AnnotationReclaimPolicy] != "Retain" ||
			pv.Annotations[annotationMark] != "" {
			t.Errorf("volume %s is %s, annotations %v", pv.Name, pv.Status.Phase, pv.Annotations)
		}
	}
}

func TestMoveEndsWithANamespaceThatIsBeingDeleted(t *testing.T) {
	for _, phase := range []v1alpha1.MovePhase{
		v1alpha1.MovePreparing, v1alpha1.MoveCopying, v1alpha1.MoveQuiescing, v1alpha1.MoveLocking, v1alpha1.MoveFinalCopy,
		v1alpha1.MoveSwitching,
	} {
		t.Run(string(phase), func(t *testing.T) {
			w := newWorld(t, online())
			w.settle()
			w.stopAt(phase)
			vv := w.virtualVolume()
			vv.Finalizers = []string{v1alpha1.Finalizer}
			w.must(w.kube.Update(t.Context(), vv))
			w.must(w.kube.Delete(t.Context(), vv))
			going := &corev1.Namespace{}
			w.must(w.kube.Get(t.Context(), client.ObjectKey{Name: namespace}, going))
			going.Finalizers = []string{"kubernetes"}
			w.must(w.kube.Update(t.Context(), going))
			w.must(w.kube.Delete(t.Context(), going))
			pods := len(w.pods())
			for range 3 {
				w.reconcile()
			}
			if progress := w.virtualVolume().Status.Move; progress.Phase != v1alpha1.MoveFailed ||
				progress.CompletionTime == nil {
				t.Errorf("progress %+v", progress)
			}
			if now := len(w.pods()); now > pods {
				t.Errorf("%d pods before, %d after", pods, now)
			}
		})
	}
}

func TestPodsThatAreHeldBackWithoutAMoveAreReleased(t *testing.T) {
	w := newWorld(t, online())
	w.noStatefulSet = true
	vv := w.virtualVolume()
	vv.Spec.Move = nil
	w.must(w.kube.Update(t.Context(), vv))
	pod := podOf(appName)
	w.number(pod)
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGateMoving},
		{Name: "example.com/other"}}
	w.must(w.kube.Create(t.Context(), pod))
	w.reconcile()
	if diff := cmp.Diff([]corev1.PodSchedulingGate{{Name: "example.com/other"}},
		get(w, appName, &corev1.Pod{}).Spec.SchedulingGates); diff != "" {
		t.Errorf("gates (-want +got):\n%s", diff)
	}
}

func TestProviderOfTheSourceReportsItsUsers(t *testing.T) {
	w := newWorld(t, online())
	w.settle()
	source := get(w, sourceName, &corev1.PersistentVolume{})
	source.Spec.PersistentVolumeSource = volume.RemoteSource(volume.Handle{ClusterID: "9f1c", Namespace: "shop-rome",
		Claim: "data-db-0-01234567"})
	w.must(w.kube.Update(t.Context(), source))
	w.offer("shop-rome", "data-db-0-01234567")
	w.until(v1alpha1.MoveLocking)
	for range 10 {
		w.reconcile()
	}
	if progress := w.virtualVolume().Status.Move; progress.Phase != v1alpha1.MoveLocking ||
		!strings.Contains(progress.Message, "milan") {
		t.Fatalf("progress %+v", progress)
	}
	w.answerFence(moveID, "db-0")
	w.reconcile()
	if progress := w.virtualVolume().Status.Move; progress.Phase != v1alpha1.MoveLocking ||
		!strings.Contains(progress.Message, "db-0") {
		t.Fatalf("progress %+v", progress)
	}
	w.answerFence(moveID)
	w.until(v1alpha1.MoveSucceeded)
}

func TestMoversHaveNoTokenAndOnlyWhatBaselineAllows(t *testing.T) {
	w := newWorld(t, online())
	m := &move{Reconciler: w.controller, volume: w.virtualVolume(), progress: &v1alpha1.MoveProgress{ID: moveID},
		names: namesOf(moveID)}
	for _, role := range []string{roleSender, roleReceiver} {
		pod := m.moverPod(moverSpec{role: role, claim: "c", mark: &Mark{}, at: place{clusterID: "9f1c"}})
		container := pod.Spec.Containers[0]
		if pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken || len(container.Env) > 0 {
			t.Errorf("%s: token %v, env %v", role, pod.Spec.AutomountServiceAccountToken, container.Env)
		}
		if readOnly := container.VolumeMounts[0].ReadOnly; readOnly != (role == roleSender) {
			t.Errorf("%s mounts the volume read-only: %t", role, readOnly)
		}
		term := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
		if term.MatchExpressions[0].Key != v1alpha1.LabelRemoteClusterID {
			t.Errorf("%s runs at %v", role, term)
		}
	}
	owned, security := securityContexts(&Mark{Owner: &Owner{User: 1000}}, roleReceiver)
	if *owned.RunAsUser != 1000 || *owned.FSGroup != 1000 || len(security.Capabilities.Add) > 0 {
		t.Errorf("restricted: %+v, %+v", owned, security)
	}
}

// A third provider of the namespace, naples, gets neither the key of the movers nor the Service.
func TestSharedObjectsAreReflectedOnlyToTheProvidersOfTheMovers(t *testing.T) {
	const milan, turin, naples = "9f1c", "7a2b", "5d3e"
	for _, test := range []struct {
		name, source, target string
		want                 []string
	}{
		{"within this cluster", "", "", nil},
		{"to a provider", "", milan, []string{milan}},
		{"from a provider", milan, "", []string{milan}},
		{"within a provider", milan, milan, []string{milan}},
		{"between providers", milan, turin, []string{milan, turin}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, online())
			m := &move{
				Reconciler: w.controller, volume: w.virtualVolume(), names: namesOf(moveID),
				progress: &v1alpha1.MoveProgress{ID: moveID, Source: v1alpha1.VolumeLocation{ClusterID: test.source}},
			}
			_, err := m.grant(t.Context())
			w.must(err)
			w.must(m.share(t.Context(), m.reflection(place{clusterID: test.target})))
			for kind, object := range map[string]client.Object{
				"Secret": get(w, m.shared, &corev1.Secret{}), "Service": get(w, m.shared, &corev1.Service{}),
			} {
				var got []string
				for _, id := range []string{milan, turin, naples} {
					if !reflection.Excludes(object, id) {
						got = append(got, id)
					}
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("%s is reflected to (-want +got):\n%s", kind, diff)
				}
				// The reflection policy of a provider may be an allow list.
				if allowed := object.GetAnnotations()[v1alpha1.AnnotationAllowReflection]; allowed == "" && len(test.want) > 0 {
					t.Errorf("%s is not in an allow list", kind)
				}
			}
		})
	}
}

// The controller manager may give a mover only SELinux options that the Pod Security Standard baseline allows.
func TestMoversHaveTheSELinuxLevelOfTheVolumeOnly(t *testing.T) {
	for _, test := range []struct {
		name string
		of   *corev1.SELinuxOptions
		want *corev1.SELinuxOptions
	}{
		{"none", nil, nil},
		{"a level", &corev1.SELinuxOptions{Level: "s0:c1,c2"}, &corev1.SELinuxOptions{Level: "s0:c1,c2"}},
		{
			"a type of containers", &corev1.SELinuxOptions{Level: "s0:c1", Type: "container_init_t"},
			&corev1.SELinuxOptions{Level: "s0:c1", Type: "container_init_t"},
		},
		{
			"a privileged type, user and role",
			&corev1.SELinuxOptions{Level: "s0", Type: "spc_t", User: "system_u", Role: "system_r"},
			&corev1.SELinuxOptions{Level: "s0"},
		},
		{"a privileged type without a level", &corev1.SELinuxOptions{Type: "spc_t"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod, container := securityContexts(&Mark{SELinux: test.of}, roleSender)
			if diff := cmp.Diff(test.want, pod.SELinuxOptions); diff != "" || container.SELinuxOptions != nil {
				t.Errorf("container %v; pod (-want +got):\n%s", container.SELinuxOptions, diff)
			}
		})
	}
}

func TestEachMoveHasItsOwnCertificateUntilItEnds(t *testing.T) {
	keys := map[string]bool{}
	for range 2 {
		w := newWorld(t, online())
		w.settle()
		w.until(v1alpha1.MoveCopying)
		var secrets corev1.SecretList
		w.must(w.kube.List(t.Context(), &secrets))
		if len(secrets.Items) != 1 || secrets.Items[0].Labels[volume.LabelMove] != moveID {
			t.Fatalf("secrets %+v", secrets.Items)
		}
		if _, err := tls.X509KeyPair(secrets.Items[0].Data[corev1.TLSCertKey],
			secrets.Items[0].Data[corev1.TLSPrivateKeyKey]); err != nil {
			t.Fatal(err)
		}
		keys[string(secrets.Items[0].Data[corev1.TLSPrivateKeyKey])] = true
		w.until(v1alpha1.MoveSucceeded)
		w.settle()
		// assertBoundTo also fails if a Secret is left.
		w.assertBoundTo(w.targetName())
	}
	if len(keys) != 2 {
		t.Error("two moves have one key")
	}
}

// offer creates the ShadowVolumeClaim of the source on milan.
func (w *world) offer(namespace, name string) {
	w.provider = newProvider(&v1alpha1.ShadowVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		UID: types.UID(name)}})
}

func TestPodThatHoldsTheClaimOfTheMoveIsNamed(t *testing.T) {
	w := newWorld(t, online())
	w.settle()
	w.stopAt(v1alpha1.MoveSwitching)
	foreign := podOf("debug")
	foreign.Spec.NodeName = "worker"
	foreign.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = namesOf(moveID).target
	w.must(w.kube.Create(t.Context(), foreign))
	for range 10 {
		w.reconcile()
	}
	if progress := w.virtualVolume().Status.Move; !strings.Contains(progress.Message, "delete pod debug") {
		t.Errorf("progress %+v", progress)
	}
	w.must(w.kube.Delete(t.Context(), foreign))
	w.until(v1alpha1.MoveSucceeded)
	w.settle()
	w.assertBoundTo(w.targetName())
}
