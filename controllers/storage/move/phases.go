// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/printable"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

const (
	// pollInterval is the time between two steps of a phase that waits while pods use the source, and fastInterval while
	// pods wait for the move.
	pollInterval = time.Second
	fastInterval = 200 * time.Millisecond

	defaultEvictionTimeout = 300 * time.Second
	maxMessage             = 1024
)

// move is the move of one virtual volume, in one reconcile.
type move struct {
	*Reconciler
	// volume is the virtual volume as it was read, and progress its status.move as it will be written.
	volume   *v1alpha1.VirtualVolume
	progress *v1alpha1.MoveProgress
	// spec is the requested move; empty if spec.move of the virtual volume does not request this move any more, for
	// example because it was cancelled.
	spec v1alpha1.MoveSpec
	// waiting is the reason why a rollback waits. It is part of the condition Moved, because the message in progress
	// remains the reason for the rollback.
	waiting string
	names
}

// outcome is the result of a step: the next phase, or the time to wait and the message why.
type outcome struct {
	next    v1alpha1.MovePhase
	wait    time.Duration
	message string
}

func goTo(next v1alpha1.MovePhase) outcome { return outcome{next: next} }

func waitFor(interval time.Duration, format string, args ...any) outcome {
	return outcome{wait: interval, message: fmt.Sprintf(format, args...)}
}

// giveUp returns the outcome that rolls the move back. The reason is a sentence.
func giveUp(format string, args ...any) outcome {
	return outcome{next: v1alpha1.MoveRollingBack, message: fmt.Sprintf(format, args...)}
}

// step does the work of one phase.
type step func(*move, context.Context) (outcome, error)

// steps has the step of each phase that is not final.
var steps = map[v1alpha1.MovePhase]step{
	v1alpha1.MovePreparing:   (*move).prepare,
	v1alpha1.MoveCopying:     (*move).copy,
	v1alpha1.MoveQuiescing:   (*move).quiesce,
	v1alpha1.MoveLocking:     (*move).lock,
	v1alpha1.MoveFinalCopy:   (*move).copyFinally,
	v1alpha1.MoveSwitching:   (*move).switchOver,
	v1alpha1.MoveReleasing:   (*move).release,
	v1alpha1.MoveCleaning:    (*move).clean,
	v1alpha1.MoveRollingBack: (*move).rollBack,
}

// ended reports whether a phase is final.
func ended(phase v1alpha1.MovePhase) bool {
	return phase == v1alpha1.MoveSucceeded || phase == v1alpha1.MoveFailed || phase == v1alpha1.MoveCancelled
}

// cancellable reports whether a move in this phase can be cancelled.
func cancellable(phase v1alpha1.MovePhase) bool {
	switch phase {
	case v1alpha1.MovePreparing, v1alpha1.MoveCopying, v1alpha1.MoveQuiescing, v1alpha1.MoveLocking,
		v1alpha1.MoveFinalCopy:
		return true
	}
	return false
}

// begin returns the move of a virtual volume to continue or start, or nil. It is the one in progress in the status,
// otherwise the one that only annotationMark of volumes records, otherwise the one that the spec requests.
func (r *Reconciler) begin(ctx context.Context, vv *v1alpha1.VirtualVolume) (*move, error) {
	m := &move{Reconciler: r, volume: vv}
	requested, progress := vv.Spec.Move, vv.Status.Move
	switch {
	case progress != nil && !ended(progress.Phase):
		m.progress = progress.DeepCopy()
		if requested != nil && requested.ID == progress.ID {
			m.spec = requested.MoveSpec
		} else if cancellable(progress.Phase) {
			m.progress.Cancelled = true
		}
	default:
		recovered, err := r.recovered(ctx, vv)
		if err != nil {
			return nil, err
		}
		now := metav1.NewTime(r.Clock.Now())
		switch {
		case recovered != nil:
			m.progress = recovered
			if requested != nil && requested.ID == recovered.ID {
				m.spec = requested.MoveSpec
			}
		case isNewlyRequested(vv):
			m.spec = requested.MoveSpec
			m.progress = &v1alpha1.MoveProgress{ID: requested.ID, Phase: v1alpha1.MovePreparing}
			claim, err := m.claim(ctx)
			if err != nil {
				return nil, err
			}
			if claim != nil {
				m.progress.ClaimUID = claim.UID
			}
		default:
			return nil, nil
		}
		m.progress.StartTime, m.progress.PhaseTime = &now, &now
	}
	m.names = namesOf(m.progress.ID)
	return m, nil
}

// isNewlyRequested reports whether the spec of a virtual volume requests a move that has not begun.
func isNewlyRequested(vv *v1alpha1.VirtualVolume) bool {
	requested, progress := vv.Spec.Move, vv.Status.Move
	return requested != nil && (progress == nil || progress.ID != requested.ID) && !hasBegun(vv)
}

// run runs the steps of the move until one must wait or the move has ended.
func (m *move) run(ctx context.Context) (ctrl.Result, error) {
	if m.volume.Status.Move == nil || m.volume.Status.Move.ID != m.progress.ID || ended(m.volume.Status.Move.Phase) {
		if err := m.enter(ctx, m.progress.Phase, m.progress.Message); err != nil {
			return ctrl.Result{}, err
		}
	}
	for !ended(m.progress.Phase) {
		if m.progress.Cancelled && m.progress.Phase != v1alpha1.MoveRollingBack {
			if err := m.enter(ctx, v1alpha1.MoveRollingBack, "The move was cancelled."); err != nil {
				return ctrl.Result{}, err
			}
		}
		result, err := m.step(ctx)
		if apierrors.IsForbidden(err) {
			// The RoleBinding is missing: another move that ended in the namespace deleted it, an administrator did, or this
			// move did when it ended before and that was not recorded.
			bound, grantErr := m.grant(ctx)
			if bound {
				return ctrl.Result{RequeueAfter: stepDelay}, nil
			}
			err = errors.Join(err, grantErr)
		}
		switch {
		case errors.Is(err, errNoMark):
			result, err = giveUp("Volume %s has no annotation %s any more: request the move again.",
				m.progress.Source.VolumeName, annotationMark), nil
		case err != nil && m.overdue(err):
			result, err = giveUp("The deadline has passed, and a request still fails: %s.", err), nil
		}
		if err != nil {
			return ctrl.Result{}, m.failed(ctx, err)
		}
		if result.next == "" {
			m.report(result.message)
			return ctrl.Result{RequeueAfter: result.wait}, m.save(ctx)
		}
		if err := m.enter(ctx, result.next, result.message); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}

// step runs the step of the current phase. In the phases Preparing and Copying, it rolls the move back if the peering
// with the provider of the source or of the target is ending, or its ForeignCluster does not exist, and a move to a
// provider also if the namespace is no longer offloaded.
func (m *move) step(ctx context.Context) (outcome, error) {
	if m.progress.Phase == v1alpha1.MovePreparing || m.progress.Phase == v1alpha1.MoveCopying {
		if ending, err := m.endsWithPeering(ctx); err != nil || ending.next != "" {
			return ending, err
		}
		leaving, err := m.leavesTarget(ctx)
		switch {
		case err != nil:
			return outcome{}, err
		case leaving:
			return giveUp("The namespace is being unoffloaded, and the target is a provider: " +
				"move the data to this cluster."), nil
		}
	}
	return steps[m.progress.Phase](m, ctx)
}

// endsWithPeering returns the outcome that rolls the move back if no mover can run on the provider of the source or of
// the target, because its virtual nodes are deleted when its peering ends. Otherwise the outcome is empty.
func (m *move) endsWithPeering(ctx context.Context) (outcome, error) {
	for _, name := range []string{m.progress.Source.ClusterName, m.spec.Target.ClusterName} {
		if name == "" {
			continue
		}
		cluster := &v1alpha1.ForeignCluster{}
		cluster, err := found(cluster, m.Live.Get(ctx, types.NamespacedName{Name: name}, cluster))
		switch {
		case err != nil:
			return outcome{}, err
		case cluster == nil:
			return giveUp("ForeignCluster %s does not exist any more.", name), nil
		case placement.Ending(cluster):
			return giveUp("The peering with %s is ending.", name), nil
		}
	}
	return outcome{}, nil
}

// leavesTarget reports whether the target is on a provider and the NamespaceOffloading of the namespace is being
// deleted or does not exist. It fails with NotFound if the ForeignCluster that the target names does not exist.
func (m *move) leavesTarget(ctx context.Context) (bool, error) {
	at, err := m.targetPlace(ctx)
	if err != nil || at.clusterID == "" {
		return false, err
	}
	offloading := &v1alpha1.NamespaceOffloading{}
	offloading, err = found(offloading, m.Live.Get(ctx, m.key(v1alpha1.NamespaceOffloadingName), offloading))
	if err != nil {
		return false, err
	}
	return offloading == nil || !offloading.DeletionTimestamp.IsZero(), nil
}

// overdue reports whether an error ends the move. A conflict never does. In Quiescing and Locking, while pods are
// evicted, any other error does after spec.evictionTimeoutSeconds of the Move. In Preparing and FinalCopy, only a
// refused request does, after moverTimeout, because the last pass may take hours.
func (m *move) overdue(err error) bool {
	if apierrors.IsConflict(err) {
		return false
	}
	switch m.progress.Phase {
	case v1alpha1.MoveQuiescing, v1alpha1.MoveLocking:
		return m.late()
	case v1alpha1.MovePreparing, v1alpha1.MoveFinalCopy:
		return remote.Refused(err) && m.timedOut()
	}
	return false
}

// failed records an error in the progress and returns it, so that the move is retried.
func (m *move) failed(ctx context.Context, err error) error {
	if apierrors.IsConflict(err) {
		return err
	}
	m.report("Retrying: " + err.Error())
	if saveErr := m.save(ctx); saveErr != nil {
		return saveErr
	}
	return err
}

// report sets the reason why the current phase waits.
func (m *move) report(message string) {
	if m.progress.Phase == v1alpha1.MoveRollingBack {
		m.waiting = bounded(message)
		return
	}
	m.progress.Message = bounded(message)
}

// enter records the next phase before its step runs. When a rolled-back move ends, the message remains the reason for
// the rollback.
func (m *move) enter(ctx context.Context, phase v1alpha1.MovePhase, message string) error {
	now := metav1.NewTime(m.Clock.Now())
	m.progress.Phase, m.progress.PhaseTime = phase, &now
	if message != "" || m.progress.Phase != v1alpha1.MoveFailed && m.progress.Phase != v1alpha1.MoveCancelled {
		m.progress.Message = bounded(message)
	}
	m.progress.BytesPerSecond, m.progress.RemainingSeconds = 0, nil
	if ended(phase) {
		m.progress.CompletionTime = &now
	}
	if err := m.save(ctx); err != nil {
		return err
	}
	m.announce(ctx)
	return nil
}

// save updates the progress and the condition in the status, if they changed, and the metrics of the move. It fails
// with a conflict if the virtual volume changed since it was read, because the move may have been cancelled.
func (m *move) save(ctx context.Context) error {
	wanted := m.volume.DeepCopy()
	wanted.Status.Move = m.progress.DeepCopy()
	apimeta.SetStatusCondition(&wanted.Status.Conditions, m.condition())
	sent, err := kit.Commit(ctx, m.Client, m.volume, wanted)
	if err != nil {
		return fmt.Errorf("recording the move: %w", err)
	}
	key, before := client.ObjectKeyFromObject(m.volume), m.volume.Spec.Move
	show(key, m.progress)
	if !sent {
		return nil
	}
	m.volume = &v1alpha1.VirtualVolume{}
	if err := m.Live.Get(ctx, key, m.volume); err != nil {
		return fmt.Errorf("reading the virtual volume: %w", err)
	}
	if before != nil && m.volume.Spec.Move == nil && cancellable(m.progress.Phase) {
		m.progress.Cancelled = true
	}
	return nil
}

// bounded returns a message without control characters, cut to maxMessage bytes. The API server accepts no other
// messages.
func bounded(message string) string { return printable.Text(message, maxMessage) }

func (m *move) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: m.volume.Namespace, Name: name}
}

// late reports whether the current phase has taken longer than spec.evictionTimeoutSeconds of the Move.
func (m *move) late() bool {
	timeout := defaultEvictionTimeout
	if m.spec.EvictionTimeoutSeconds != nil {
		timeout = time.Duration(*m.spec.EvictionTimeoutSeconds) * time.Second
	}
	return m.progress.PhaseTime != nil && m.exceeds(m.progress.PhaseTime.Time, timeout)
}

// exceeds reports whether a deadline has passed, which is timeout after the time since, and the move has waited in the
// current phase for waitConfirmed, or for timeout if that is shorter. Each step that waits must call it.
func (m *move) exceeds(since time.Time, timeout time.Duration) bool {
	now := m.Clock.Now()
	waited := m.waits.in(m.progress.ID, m.progress.Phase, now)
	return waited >= min(waitConfirmed, timeout) && now.Sub(since) > timeout
}

// claim returns the user's claim from the API server, or nil if it does not exist.
func (m *move) claim(ctx context.Context) (*corev1.PersistentVolumeClaim, error) {
	return m.claimNamed(ctx, m.volume.Name)
}

func (m *move) claimNamed(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, error) {
	claim := &corev1.PersistentVolumeClaim{}
	return found(claim, m.Live.Get(ctx, m.key(name), claim))
}

func (r *Reconciler) persistentVolume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	if name == "" {
		return nil, nil
	}
	pv := &corev1.PersistentVolume{}
	return found(pv, r.Live.Get(ctx, types.NamespacedName{Name: name}, pv))
}

// found returns the object of a read, or nil if err, the error of the read, is NotFound. It fails for other errors.
func found[T client.Object](object T, err error) (T, error) {
	var none T
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("reading %s: %w", kindOf(object), err)
	}
	return object, nil
}

// same reports whether a claim is the user's claim from the start of the move, and is not being deleted.
func (m *move) same(claim *corev1.PersistentVolumeClaim) bool {
	return claim != nil && claim.UID == m.progress.ClaimUID && claim.DeletionTimestamp.IsZero()
}
