// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/test/harness"
)

// movesSurviveLosses fills the target volume of a move, stops the kubelet of the target's node, ends everything that
// runs on this node, and restores the store from a snapshot without the move. In addition it moves a volume with
// keepSource.
func (f fabric) movesSurviveLosses(t *testing.T) {
	grantsStorage(t, "4Gi")
	m := startsMoving(t, nil)
	for _, step := range []struct {
		name string
		run  func(*moving, *testing.T)
	}{
		{"the target is full", (*moving).fillsTarget},
		{"the kubelet of the target hangs", (*moving).stopsKubelet},
		{"the node of the target fails", (*moving).losesTargetNode},
		{"the source is kept", (*moving).keepsSource},
		{"the store is restored", (*moving).restoresStore},
	} {
		t.Run(step.name, func(t *testing.T) {
			t.Cleanup(func() { collect(t) })
			step.run(m, t)
			m.isWhole(t)
		})
	}
}

// crawls returns a move whose rate is so low that the copy takes more than a minute.
func crawls() v1alpha1.MoveSpec {
	return v1alpha1.MoveSpec{Bandwidth: ptr.To(resource.MustParse("64Ki"))}
}

// endsAs waits until a move has ended, and fails the test unless it ended in this phase with this
// text in its message.
func (m *moving) endsAs(t *testing.T, id string, phase v1alpha1.MovePhase, message string) {
	t.Helper()
	if progress := m.ends(t, id); progress.Phase != phase || !strings.Contains(progress.Message, message) {
		t.Errorf("the move ended as %s", show(progress))
	}
}

// targetDirectory returns the directory of the target volume of a move, and its node.
func (m *moving) targetDirectory(t *testing.T) (node, directory string) {
	t.Helper()
	target := volumeThat(t, m.namespace, movedClaim, "be copied", func(v *v1alpha1.VirtualVolume) bool {
		return v.Status.Move != nil && v.Status.Move.Target.VolumeName != ""
	}).Status.Move.Target
	c, name := rome, target.VolumeName
	if target.ClusterName != "" {
		c = milan
		name = must(milan.Kube.CoreV1().PersistentVolumeClaims(target.Namespace).Get(t.Context(), target.ClaimName,
			metav1.GetOptions{}))(t).Spec.VolumeName
	}
	pv := must(c.Kube.CoreV1().PersistentVolumes().Get(t.Context(), name, metav1.GetOptions{}))(t)
	if pv.Spec.Local == nil || pv.Spec.NodeAffinity == nil {
		t.Fatalf("volume %s is no directory of a node", pv.Name)
	}
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, expression := range slices.Concat(term.MatchExpressions, term.MatchFields) {
			if len(expression.Values) == 1 {
				node = expression.Values[0]
			}
		}
	}
	return node, pv.Spec.Local.Path
}

// fillsTarget mounts a small file system on the directory of the target volume, and replaces the
// receiver, so that the next one writes to it. The directory's mount is private, because otherwise
// the end of the receiver's pod would unmount the file system.
func (m *moving) fillsTarget(t *testing.T) {
	id := m.starts(t, crawls())
	// The sender has compared the size of the source with the free space of the target before it
	// copies. The space must become too small afterwards.
	volumeThat(t, m.namespace, movedClaim, "be copied", func(v *v1alpha1.VirtualVolume) bool {
		return v.Status.Move != nil && v.Status.Move.ID == id && v.Status.Move.BytesCopied > 0
	})
	node, directory := m.targetDirectory(t)
	for _, command := range []string{"mount --bind D D", "mount --make-private D", "mount -t tmpfs -o size=1m full D"} {
		must(playground.Exec(t.Context(), node, strings.Fields(strings.ReplaceAll(command, "D", directory))...))(t)
	}
	m.deletesMover(t, "receiver")
	m.endsAs(t, id, v1alpha1.MoveFailed, "full")
	// The provisioner may have deleted the directory, with the mount.
	must(playground.Exec(t.Context(), node, "sh", "-c", "test ! -e "+directory+" || umount --recursive "+directory))(t)
}

// stopsKubelet stops the kubelet of the target's node and cancels the move. The pod must be able to
// write to the source meanwhile, and the target must be deleted after the kubelet continues.
func (m *moving) stopsKubelet(t *testing.T) {
	id := m.starts(t, crawls())
	m.reachesPhase(t, id, v1alpha1.MoveCopying)
	node, _ := m.targetDirectory(t)
	processes := must(playground.Processes(t.Context(), node))(t)
	at := slices.IndexFunc(processes, func(p harness.Process) bool { return p.Program() == "kubelet" })
	if at < 0 {
		t.Fatalf("node %s has no kubelet", node)
	}
	signal := func(name string) {
		if _, err := playground.Exec(context.WithoutCancel(t.Context()), node, "kill", "-"+name,
			strconv.Itoa(processes[at].PID)); err != nil {
			t.Errorf("sending %s to the kubelet of %s: %v", name, node, err)
		}
	}
	signal("STOP")
	m.cancels(t)
	m.isWrittenToDuringRollback(t)
	signal("CONT")
	m.endsAs(t, id, v1alpha1.MoveCancelled, "cancelled")
}

// losesTargetNode ends the kubelet and the receiver on the node of milan that has the target volume, and cancels the
// move. The pod must be able to write to the source while the node is lost. The target must be deleted after the node
// is back.
func (m *moving) losesTargetNode(t *testing.T) {
	if m.target(t).Local {
		m.endsAs(t, m.starts(t, v1alpha1.MoveSpec{}), v1alpha1.MoveSucceeded, "")
		m.isWhole(t)
	}
	defer opensEveryNode(t)()
	// The other programs on the node continue to run.
	needed := []string{
		componentPod(t, milan, "federation-apiserver").Spec.NodeName, must(activeGateway(t.Context(), milan))(t),
	}
	var others []string
	fails := ""
	for _, node := range realNodes(t, milan) {
		if fails == "" && !slices.Contains(needed, node.Name) {
			fails = node.Name
		} else {
			others = append(others, node.Name)
		}
	}
	t.Cleanup(func() {
		for _, other := range others {
			milan.Kubectl(context.WithoutCancel(t.Context()), "uncordon", other)
		}
	})
	for _, other := range others {
		kubectl(t, milan, "cordon", other)
	}
	id := m.starts(t, crawls())
	m.reachesPhase(t, id, v1alpha1.MoveCopying)
	if node, _ := m.targetDirectory(t); node != fails {
		t.Fatalf("the target is on %s, not on %s, the only node that is not cordoned", node, fails)
	}
	comesBack := func(ctx context.Context) error { return playground.Up(ctx, []string{milan.Name}) }
	defer func() {
		if err := comesBack(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	endsOn(t, fails, "kubelet", 1)
	endsOn(t, fails, "federation-mover", 1)
	kubectl(t, milan, "wait", "node", fails, "--for=condition=Ready=Unknown", "--timeout=110s")
	m.cancels(t)
	m.isWrittenToDuringRollback(t)
	if err := comesBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	nodeIsReady(t, milan, fails)
	m.endsAs(t, id, v1alpha1.MoveCancelled, "cancelled")
}

// isWrittenToDuringRollback waits until the move is rolled back, and then until the pod was written to.
func (m *moving) isWrittenToDuringRollback(t *testing.T) {
	t.Helper()
	volumeThat(t, m.namespace, movedClaim, "be rolled back", func(v *v1alpha1.VirtualVolume) bool {
		return v.Status.Move.Phase == v1alpha1.MoveRollingBack
	})
	written := len(m.writer.written())
	eventually(t, soon, "the pod to be written to", func(context.Context) (bool, string, error) {
		return len(m.writer.written()) > written+10, fmt.Sprintf("%d lines", written), nil
	})
}

// keepsSource moves the data with keepSource. The source volume stays until its administrator
// deletes it.
func (m *moving) keepsSource(t *testing.T) {
	before := must(rome.Kube.CoreV1().PersistentVolumeClaims(m.namespace).Get(t.Context(), movedClaim,
		metav1.GetOptions{}))(t)
	m.endsAs(t, m.starts(t, v1alpha1.MoveSpec{KeepSource: true}), v1alpha1.MoveSucceeded, "")
	name := before.Spec.VolumeName
	eventually(t, soon, "the source to be released", func(ctx context.Context) (bool, string, error) {
		pv, err := rome.Kube.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		kept := pv.Status.Phase == corev1.VolumeReleased && pv.DeletionTimestamp == nil &&
			pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
		return kept, show(pv), nil
	})
	if pv := must(rome.Kube.CoreV1().PersistentVolumes().Get(t.Context(), name,
		metav1.GetOptions{}))(t); pv.Spec.Local != nil {
		kubectl(t, rome, "patch", "pv", name, "-p", `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	} else {
		kubectl(t, rome, "patch", "pv", name, "--type=merge", "-p",
			`{"metadata":{"annotations":{"`+volume.AnnotationReclaimPolicy+`":"Delete"}},`+
				`"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	}
	isPrinted(t, rome, "get pv "+name+" --ignore-not-found -o name", "")
}

// restoresStore restores rome's store from a snapshot that was taken before the move began.
// Controllers must find the move by the annotations of the volumes, and roll it back.
func (m *moving) restoresStore(t *testing.T) {
	snapshot := takesSnapshot(t, rome)
	id := m.starts(t, crawls())
	m.reachesPhase(t, id, v1alpha1.MoveCopying)
	losesStore(t, rome, snapshot)
	m.endsAs(t, id, v1alpha1.MoveFailed, "did not record the move")
}

// deletedWhileLocked deletes the namespace of a move while the source volume is bound to a claim of
// the move. In a second move it deletes only the claim. No volume may be available to later claims
// of the same name.
func (f fabric) deletedWhileLocked(t *testing.T) {
	grantsStorage(t, "4Gi")
	for _, phase := range []v1alpha1.MovePhase{v1alpha1.MoveFinalCopy, v1alpha1.MoveSwitching} {
		t.Run("the namespace at "+string(phase), func(t *testing.T) {
			m := startsMoving(t, nil)
			m.reachesPhase(t, m.starts(t, v1alpha1.MoveSpec{}), phase)
			m.writer.stop()
			kubectl(t, rome, "delete", "namespace", m.namespace, "--timeout=110s")
			m.volumesAreClosed(t)
		})
	}
	t.Run("the claim", func(t *testing.T) {
		m := startsMoving(t, nil)
		m.reachesPhase(t, m.starts(t, v1alpha1.MoveSpec{}), v1alpha1.MoveFinalCopy)
		m.writer.stop()
		kubectl(t, rome, "delete", "pvc", movedClaim, "-n", m.namespace, "--wait=false")
		// The StatefulSet creates its claim again, which binds the data or a new volume.
		podReady(t, rome, m.namespace, movedPod)
		m.volumesAreClosed(t)
		isPrinted(t, rome, "get pods -n "+m.namespace+" -o jsonpath={.items[*].metadata.name}", movedPod)
		isPrinted(t, rome, "get pvc -n "+m.namespace+" -o jsonpath={.items[*].metadata.name}", movedClaim)
	})
}

// volumesAreClosed waits until each volume of the namespace is bound to, or released by, one claim
// with a UID, and has no annotation of a move.
func (m *moving) volumesAreClosed(t *testing.T) {
	t.Helper()
	eventually(t, soon, "the volumes to be bound or released", func(ctx context.Context) (bool, string, error) {
		list, err := rome.Kube.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		left := 0
		for _, pv := range list.Items {
			reference := ptr.Deref(pv.Spec.ClaimRef, corev1.ObjectReference{})
			if reference.Namespace != m.namespace {
				continue
			}
			left++
			if reference.UID == "" || pv.Annotations[volume.LabelMove] != "" || pv.Status.Phase == corev1.VolumeAvailable {
				return false, show(pv), nil
			}
		}
		return left > 0, fmt.Sprintf("%d volumes", left), nil
	})
}
