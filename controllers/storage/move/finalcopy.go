// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/storage/mover"
)

// moverTimeout is the time that a move waits for a mover, a request or the end of the movers while pods that use the
// claim cannot start. After it, the move is rolled back.
const moverTimeout = 5 * time.Minute

// copyFinally runs the last pass, which copies the remaining changes and compares source and target. The sender
// of the earlier passes runs it if that sender is ready. Otherwise a new sender does, which mounts the claim
// that the source volume is bound to now.
func (m *move) copyFinally(ctx context.Context) (outcome, error) {
	_, mark, err := m.source(ctx)
	if err != nil {
		return outcome{}, err
	}
	if mark == nil {
		return giveUp("The source volume was deleted."), nil
	}
	late, err := m.lateMover(ctx)
	if err != nil {
		return outcome{}, err
	}
	if late != "" {
		return giveUp("Pod %s was not ready for %s.", late, moverTimeout), nil
	}
	receiver, err := m.keepReceiver(ctx, mark)
	if err != nil {
		return outcome{}, err
	}
	if receiver == nil {
		if forward, err := m.onlyForward(ctx); err != nil || forward.next != "" {
			return forward, err
		}
		return waitFor(fastInterval, "Waiting for pod %s.", m.receiver), nil
	}
	sender, err := m.finalSender(ctx, mark)
	if err != nil {
		return outcome{}, err
	}
	if err := m.startFinalPass(ctx, receiver); err != nil {
		return outcome{}, err
	}
	if sender == nil {
		return waitFor(fastInterval, "Waiting for pod %s.", m.sender), nil
	}
	report, reported := result(sender)
	switch {
	case reported && report.State == mover.StateDone:
		m.record(report)
		return goTo(v1alpha1.MoveSwitching), nil
	case reported:
		m.record(report)
		return giveUp("%s", failure(report)), nil
	}
	// The log reports the result up to two seconds earlier than the status of the pod, and users wait for it.
	if m.follow(ctx) == mover.StateDone {
		return goTo(v1alpha1.MoveSwitching), nil
	}
	return waitFor(fastInterval, "%s", m.progress.Message), nil
}

// lateMover returns the name of a mover whose pod has not become ready within moverTimeout, or empty. A sender that
// runs is never late, because it is not ready while it copies.
func (m *move) lateMover(ctx context.Context) (string, error) {
	for _, name := range []string{m.receiver, m.sender} {
		pod := &corev1.Pod{}
		pod, err := found(pod, m.Live.Get(ctx, m.key(name), pod))
		if err != nil {
			return "", err
		}
		copies := name == m.sender && pod != nil && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp.IsZero()
		if pod == nil || copies || hasEnded(pod) || isPodReady(pod) {
			continue
		}
		if m.exceeds(m.notReadySince(pod), moverTimeout) {
			return name, nil
		}
	}
	return "", nil
}

// notReadySince returns the time since which a pod is not ready, or the start of the current phase if that is later.
func (m *move) notReadySince(pod *corev1.Pod) time.Time {
	since := pod.CreationTimestamp.Time
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.LastTransitionTime.After(since) {
			since = condition.LastTransitionTime.Time
		}
	}
	if began := m.progress.PhaseTime; began != nil && began.After(since) {
		since = began.Time
	}
	return since
}

// finalSender returns the sender of the last pass; nil while it is being created.
func (m *move) finalSender(ctx context.Context, mark *Mark) (*corev1.Pod, error) {
	running := &corev1.Pod{}
	running, err := found(running, m.Live.Get(ctx, m.key(m.sender), running))
	if err != nil {
		return nil, err
	}
	if running != nil && m.isMover(running) && m.continues(running) {
		return running, nil
	}
	return m.ensure(ctx, moverSpec{
		role: roleSender, claim: m.names.source, mark: mark, at: place{clusterID: m.progress.Source.ClusterID},
	})
}

// continues reports whether the sender of the earlier passes, which mounts the user's claim, can run the last pass or
// has ended with a result. A running sender can read the volume although the claim is Lost, but a kubelet would not
// start its container again.
func (m *move) continues(sender *corev1.Pod) bool {
	if claimOf(sender) != m.volume.Name || !sender.DeletionTimestamp.IsZero() {
		return false
	}
	_, reported := result(sender)
	return reported || !hasEnded(sender) && isPodReady(sender)
}

// startFinalPass makes the sender start its last pass, by an annotation of the receiver that is mounted in the receiver
// as a file and that the sender requests from it. A file of the sender would not work, since a kubelet does not update
// the files of a pod whose claim is Lost.
func (m *move) startFinalPass(ctx context.Context, receiver *corev1.Pod) error {
	if receiver.Annotations[AnnotationPass] == mover.PassFinal || hasEnded(receiver) {
		return nil
	}
	wanted := receiver.DeepCopy()
	metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, AnnotationPass, mover.PassFinal)
	if _, err := kit.Commit(ctx, m.Client, receiver, wanted); err != nil {
		return fmt.Errorf("starting the last pass: %w", err)
	}
	return nil
}
