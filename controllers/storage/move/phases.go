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
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

const (
	// pollInterval is the time between two reads of a phase that waits while the application
	// runs, and fastInterval while the application waits.
	pollInterval = time.Second
	fastInterval = 200 * time.Millisecond

	defaultEvictionTimeout = 300 * time.Second
	maxMessage             = 1024
)

// move is a move in one reconcile.
type move struct {
	*Reconciler
	// volume is the virtual volume as it was read, and progress its new status.
	volume   *v1alpha1.VirtualVolume
	progress *v1alpha1.MoveProgress
	// spec is the request; empty while a cancelled move is rolled back.
	spec v1alpha1.MoveSpec
	names
}

// outcome is the result of a phase: the next phase, or the message about what it waits for.
type outcome struct {
	next    v1alpha1.MovePhase
	wait    time.Duration
	message string
}

func goTo(next v1alpha1.MovePhase) outcome { return outcome{next: next} }

func waitFor(interval time.Duration, format string, args ...any) outcome {
	return outcome{wait: interval, message: fmt.Sprintf(format, args...)}
}

// giveUp rolls the move back. The reason is a sentence.
func giveUp(format string, args ...any) outcome {
	return outcome{next: v1alpha1.MoveRollingBack, message: fmt.Sprintf(format, args...)}
}

// step is the work of one phase.
type step func(*move, context.Context) (outcome, error)

// steps are the phases of a move that has not ended.
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

// cancellable reports whether a move at a phase can be rolled back on request.
func cancellable(phase v1alpha1.MovePhase) bool {
	switch phase {
	case v1alpha1.MovePreparing, v1alpha1.MoveCopying, v1alpha1.MoveQuiescing, v1alpha1.MoveLocking,
		v1alpha1.MoveFinalCopy:
		return true
	}
	return false
}

// begin returns the move of a virtual volume that is to be continued, or nil. It begins requested
// moves without a status, and moves that are recorded only by the marks of their volumes.
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
		case requested != nil && (progress == nil || progress.ID != requested.ID) && !hasBegun(vv):
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

// run executes the phases until one has to wait.
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
			// Another move that ended in the namespace, or its administrator, deleted the binding; so
			// did this move, if its end was not recorded.
			bound, grantErr := m.grant(ctx)
			if bound {
				return ctrl.Result{RequeueAfter: conflictDelay}, nil
			}
			err = errors.Join(err, grantErr)
		}
		switch {
		case errors.Is(err, errNoMark):
			result, err = giveUp("Volume %s has no annotation %s any more: request the move again.",
				m.progress.Source.VolumeName, annotationMark), nil
		case err != nil && m.overdue(err):
			result, err = giveUp("This failed until the deadline: %s.", err), nil
		}
		if err != nil {
			return ctrl.Result{}, m.failed(ctx, err)
		}
		if result.next == "" {
			if m.progress.Phase != v1alpha1.MoveRollingBack {
				m.progress.Message = bounded(result.message)
			}
			return ctrl.Result{RequeueAfter: result.wait}, m.save(ctx)
		}
		if err := m.enter(ctx, result.next, result.message); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}

// step executes the phase. Before the application waits, a move to a provider to which the
// namespace is no longer offloaded is rolled back.
func (m *move) step(ctx context.Context) (outcome, error) {
	if m.progress.Phase == v1alpha1.MovePreparing || m.progress.Phase == v1alpha1.MoveCopying {
		leaving, err := m.leavesTarget(ctx)
		switch {
		case apierrors.IsNotFound(err):
			return giveUp("There is no ForeignCluster %s any more.", m.spec.Target.ClusterName), nil
		case err != nil:
			return outcome{}, err
		case leaving:
			return giveUp("The namespace is being unoffloaded, and the target is a provider: " +
				"move the data to this cluster."), nil
		}
	}
	return steps[m.progress.Phase](m, ctx)
}

// leavesTarget reports whether the target is on a provider and the namespace is no longer
// offloaded.
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

// overdue reports whether a failing write ends the move: the application has waited as long as for
// pods, or the write was refused for moverTimeout. A last pass may take hours, in which only
// refusals count.
func (m *move) overdue(err error) bool {
	if apierrors.IsConflict(err) {
		return false
	}
	switch m.progress.Phase {
	case v1alpha1.MoveQuiescing, v1alpha1.MoveLocking:
		return m.late()
	case v1alpha1.MovePreparing, v1alpha1.MoveFinalCopy:
		return remote.Refused(err) && m.Clock.Since(m.progress.PhaseTime.Time) > moverTimeout
	}
	return false
}

// failed records an error that is retried.
func (m *move) failed(ctx context.Context, err error) error {
	if apierrors.IsConflict(err) {
		return err
	}
	if m.progress.Phase != v1alpha1.MoveRollingBack {
		m.progress.Message = bounded("Retrying: " + err.Error())
		if saveErr := m.save(ctx); saveErr != nil {
			return saveErr
		}
	}
	return err
}

// enter records the next phase before it begins. The message of a move that is rolled back stays
// the reason.
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

// save writes the progress and the condition, if they changed. A change of the virtual
// volume since it was read is a conflict: the move may have been cancelled.
func (m *move) save(ctx context.Context) error {
	wanted := m.volume.DeepCopy()
	wanted.Status.Move = m.progress.DeepCopy()
	apimeta.SetStatusCondition(&wanted.Status.Conditions, m.condition())
	sent, err := kit.Commit(ctx, m.Client, m.volume, wanted)
	if err != nil {
		return fmt.Errorf("recording the move: %w", err)
	}
	if !sent {
		return nil
	}
	key, before := client.ObjectKeyFromObject(m.volume), m.volume.Spec.Move
	m.volume = &v1alpha1.VirtualVolume{}
	if err := m.Live.Get(ctx, key, m.volume); err != nil {
		return fmt.Errorf("reading the virtual volume: %w", err)
	}
	if before != nil && m.volume.Spec.Move == nil && cancellable(m.progress.Phase) {
		m.progress.Cancelled = true
	}
	return nil
}

func bounded(message string) string {
	if len(message) > maxMessage {
		message = message[:maxMessage]
	}
	return message
}

func (m *move) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: m.volume.Namespace, Name: name}
}

// late reports whether the eviction timeout has expired.
func (m *move) late() bool {
	timeout := defaultEvictionTimeout
	if m.spec.EvictionTimeoutSeconds != nil {
		timeout = time.Duration(*m.spec.EvictionTimeoutSeconds) * time.Second
	}
	return m.progress.PhaseTime != nil && m.Clock.Since(m.progress.PhaseTime.Time) > timeout
}

// claim returns the user's claim as it is now, or nil.
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

// found returns an object that was read, or nil if it does not exist.
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

// same reports whether a claim is the one with which the move began, and is not being deleted.
func (m *move) same(claim *corev1.PersistentVolumeClaim) bool {
	return claim != nil && claim.UID == m.progress.ClaimUID && claim.DeletionTimestamp.IsZero()
}
