// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/storage/mover"
)

// mountDelay is the time after which a pod that was scheduled, and whose volumes are not mounted, counts as waiting for
// a volume that is attached to another node.
const mountDelay = 30 * time.Second

// copy runs the sender, which copies while pods use the source, until the sender is ready, which means that all passes
// before the last one are done.
func (m *move) copy(ctx context.Context) (outcome, error) {
	source, mark, err := m.source(ctx)
	if err != nil {
		return outcome{}, err
	}
	claim, err := m.claim(ctx)
	if err != nil {
		return outcome{}, err
	}
	if !m.same(claim) || source == nil || !refersTo(source, m.key(claim.Name), claim.UID) {
		return giveUp("The claim or its volume was deleted."), nil
	}
	if err := m.followUsers(ctx, source, mark); err != nil {
		return outcome{}, err
	}
	if _, err := m.keepReceiver(ctx, mark); err != nil {
		return outcome{}, err
	}
	at, users, err := m.sourcePlace(ctx)
	if err != nil {
		return outcome{}, err
	}
	sender, err := m.ensure(ctx, moverSpec{role: roleSender, claim: claim.Name, at: at, mark: mark})
	if err != nil {
		return outcome{}, err
	}
	if sender == nil {
		return waitFor(pollInterval, "Waiting for pod %s.", m.sender), nil
	}
	if report, reported := result(sender); reported {
		m.record(report)
		return giveUp("%s", failure(report)), nil
	}
	m.follow(ctx)
	if isPodReady(sender) {
		return goTo(v1alpha1.MoveQuiescing), nil
	}
	if at.clusterID == "" && m.isLeftBehind(sender, claim, users) {
		return waitFor(pollInterval, "Waiting for pod %s, which follows the pods that mount the claim to node %s.",
			m.sender, at.node), kit.Delete(ctx, m.Client, sender)
	}
	if sender.Status.Phase != corev1.PodRunning {
		return waitFor(pollInterval, "Waiting for pod %s: see its events.", m.sender), nil
	}
	return waitFor(pollInterval, "%s", m.progress.Message), nil
}

// errNoMark is returned if annotationMark of the source volume is missing or of another move. Either the move has ended
// and the VirtualVolume was restored from an older backup, or another client removed the annotation.
var errNoMark = errors.New("it has no annotation " + annotationMark + " of this move")

// source returns the source volume and the Mark in its annotation; both are nil if the volume does not exist. It fails
// with errNoMark if the annotation is missing or of another move.
func (m *move) source(ctx context.Context) (*corev1.PersistentVolume, *Mark, error) {
	source, err := m.persistentVolume(ctx, m.progress.Source.VolumeName)
	if err != nil || source == nil {
		return nil, nil, err
	}
	mark, ok := markOf(source)
	if !ok || mark.ID != m.progress.ID {
		return nil, nil, fmt.Errorf("reading volume %s: %w", source.Name, errNoMark)
	}
	return source, mark, nil
}

// sourcePlace returns where a sender runs while pods use the source: in this cluster on the node of one of these pods,
// and on a provider preferably on the node of one of their remote pods. It also returns these pods, without those that
// are not scheduled or have ended.
func (m *move) sourcePlace(ctx context.Context) (at place, users []corev1.Pod, err error) {
	at.clusterID = m.progress.Source.ClusterID
	if users, err = m.users(ctx); err != nil {
		return at, nil, err
	}
	users = slices.DeleteFunc(users, func(pod corev1.Pod) bool { return pod.Spec.NodeName == "" || hasEnded(&pod) })
	switch {
	case len(users) == 0:
	case at.clusterID == "":
		at.node = users[0].Spec.NodeName
	default:
		at.near = users[0].Labels
	}
	return at, users, nil
}

// isLeftBehind reports whether all pods that mount the claim, which has no access mode for several nodes, are on other
// nodes than the sender, and one of them or the sender cannot mount the volume. The volume then stays attached to one
// node, and pods on other nodes cannot start. Some drivers let pods on several nodes mount a ReadWriteOnce volume;
// there no pod waits.
func (m *move) isLeftBehind(sender *corev1.Pod, claim *corev1.PersistentVolumeClaim, users []corev1.Pod) bool {
	if slices.ContainsFunc(claim.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany
	}) {
		return false
	}
	onNode := func(pod corev1.Pod) bool { return pod.Spec.NodeName == sender.Spec.NodeName }
	if sender.Spec.NodeName == "" || len(users) == 0 || slices.ContainsFunc(users, onNode) {
		return false
	}
	return m.waitsForVolume(sender) ||
		slices.ContainsFunc(users, func(pod corev1.Pod) bool { return m.waitsForVolume(&pod) })
}

// waitsForVolume reports whether a kubelet has not mounted the volumes of a pod within mountDelay after the pod was
// scheduled.
func (m *move) waitsForVolume(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodRunning {
		return false
	}
	since := pod.CreationTimestamp.Time
	for _, condition := range pod.Status.Conditions {
		switch {
		case condition.Status != corev1.ConditionTrue:
		case condition.Type == corev1.PodReadyToStartContainers:
			return false
		case condition.Type == corev1.PodScheduled:
			since = condition.LastTransitionTime.Time
		}
	}
	return m.Clock.Since(since) >= mountDelay
}

// keepReceiver ensures that the receiver exists, and returns it; nil while it is being created.
func (m *move) keepReceiver(ctx context.Context, mark *Mark) (*corev1.Pod, error) {
	return m.ensure(ctx, moverSpec{
		role: roleReceiver, claim: m.target, mark: mark,
		at: place{clusterID: m.progress.Target.ClusterID, node: m.spec.Target.NodeName},
	})
}

// follow reads the log of the sender, writes the last report in it to the progress of the move, and returns the state
// of the sender. If the log cannot be read, it returns empty and the move continues.
func (m *move) follow(ctx context.Context) mover.State {
	log, err := m.Logs(ctx, types.NamespacedName{Namespace: m.volume.Namespace, Name: m.sender})
	if err != nil {
		return ""
	}
	report, ok := mover.ParseReport(log)
	if !ok {
		return ""
	}
	m.record(report)
	return report.State
}

// record writes a report of the sender to the progress of the move.
func (m *move) record(report mover.Report) {
	p := m.progress
	p.Passes, p.BytesTotal, p.FilesTotal = report.Passes, report.BytesTotal, report.FilesTotal
	p.BytesCopied, p.FilesCopied, p.BytesPerSecond = report.BytesCopied, report.FilesCopied, report.BytesPerSecond
	p.RemainingSeconds = nil
	if report.State == mover.StateCopying {
		p.RemainingSeconds = report.RemainingSeconds
	}
	switch report.State {
	case mover.StateConnecting:
		p.Message = bounded("The connection to the receiver failed, and the sender retries: " + report.Message)
	case mover.StateCopying:
		p.Message = fmt.Sprintf("Copying, pass %d.", report.Passes+1)
	case mover.StateVerifying:
		p.Message = "Comparing the source and the target."
	}
}

// failure returns a sentence about why a sender ended too early, from its last report.
func failure(report mover.Report) string {
	if report.State == mover.StateDone {
		return "The sender ended before its last pass."
	}
	return bounded("Copying failed: " + report.Message + ".")
}
