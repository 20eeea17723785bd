// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
)

const (
	// endsKept is the time for which ends keeps the record of a deleted pod.
	endsKept = 15 * time.Minute
	// endDelay is the time after which the watch of pods must have reported a deletion.
	endDelay = 3 * time.Second
)

// ends records for deleted pods that mounted claims whether they had a final phase. A kubelet reports the final phase
// of a pod before it deletes the pod. A pod that was deleted by force has no final phase, and its containers may still
// run.
type ends struct {
	mu  sync.Mutex
	all map[types.UID]end
	// missed is the time at which a pod was first found deleted although the watch did not report it, by UID.
	missed map[types.UID]time.Time
}

type end struct {
	reported bool
	at       time.Time
}

// deleted records whether a pod that was deleted at the time now had a final phase.
func (e *ends) deleted(pod *corev1.Pod, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.all, func(_ types.UID, old end) bool { return now.Sub(old.at) > endsKept })
	if e.all == nil {
		e.all = map[types.UID]end{}
	}
	e.all[pod.UID] = end{reported: hasEnded(pod), at: now}
}

// of reports whether a deleted pod had a final phase. unseen is true if the watch has not reported the deletion within
// delay after the first call for this pod, for example because this process did not run then.
func (e *ends) of(pod types.UID, now time.Time, delay time.Duration) (reported, unseen bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if last, ok := e.all[pod]; ok {
		delete(e.missed, pod)
		return last.reported, false
	}
	since, ok := e.missed[pod]
	if !ok {
		if e.missed == nil {
			e.missed = map[types.UID]time.Time{}
		}
		e.missed[pod] = now
		return false, false
	}
	return false, now.Sub(since) >= delay
}

// handler returns an event handler that records deleted pods and enqueues the virtual volumes of pods with a scheduling
// gate, so that settle removes it if no move runs.
func (e *ends) handler(clock clock.PassiveClock) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(object client.Object, q queue) {
		if pod, ok := object.(*corev1.Pod); ok && isGated(pod) {
			for _, claim := range kit.ClaimsOf(pod) {
				q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: claim}})
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, event event.CreateEvent, q queue) { enqueue(event.Object, q) },
		UpdateFunc: func(_ context.Context, event event.UpdateEvent, q queue) { enqueue(event.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, event event.DeleteEvent, _ queue) {
			if pod, ok := event.Object.(*corev1.Pod); ok && len(kit.ClaimsOf(pod)) > 0 && !event.DeleteStateUnknown {
				e.deleted(pod, clock.Now())
			}
		},
	}
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func isGated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, func(gate corev1.PodSchedulingGate) bool {
		return gate.Name == v1alpha1.SchedulingGateMoving
	})
}

// isMover reports whether a pod is a mover of this move.
func (m *move) isMover(pod *corev1.Pod) bool {
	return pod.Labels[volume.LabelMove] == m.progress.ID && (pod.Name == m.sender || pod.Name == m.receiver)
}

// users returns the pods, except the movers, that mount the claim of the VirtualVolume, as the API server lists them.
func (m *move) users(ctx context.Context) ([]corev1.Pod, error) {
	return m.mounting(ctx, m.volume.Name)
}

// mounting returns the pods, except the movers, that mount a claim in the namespace of the VirtualVolume.
func (m *move) mounting(ctx context.Context, claim string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := m.Live.List(ctx, &pods, client.InNamespace(m.volume.Namespace)); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	return m.thatMount(pods.Items, claim), nil
}

// thatMount returns those of the pods that mount a claim, without the movers.
func (m *move) thatMount(pods []corev1.Pod, claim string) []corev1.Pod {
	return slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		return m.isMover(&pod) || !slices.Contains(kit.ClaimsOf(&pod), claim)
	})
}

// followUsers calls recordUsers while pods use a local source, so that a pod that is deleted by force before the phase
// Quiescing counts as running in that phase. It reads the pods from the cache, because it is called once per second.
// For a source on a provider, the fence reports such pods.
func (m *move) followUsers(ctx context.Context, source *corev1.PersistentVolume, mark *Mark) error {
	if m.progress.Source.ClusterName != "" {
		return nil
	}
	var pods corev1.PodList
	if err := m.Client.List(ctx, &pods, client.InNamespace(m.volume.Namespace)); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	_, err := m.recordUsers(ctx, source, mark, m.thatMount(pods.Items, m.volume.Name))
	return err
}

// recordUsers writes to Mark.Users of the source which pods use it: those of the given pods that are on a node and have
// not ended, and pods in Mark.Users that were deleted and may still run. It returns the names of the deleted pods, each
// with the reason.
func (m *move) recordUsers(
	ctx context.Context, source *corev1.PersistentVolume, mark *Mark, pods []corev1.Pod,
) ([]string, error) {
	users, left := usersOf(pods), []string(nil)
	for uid, user := range mark.Users {
		if slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.UID == uid }) {
			continue
		}
		ended, err := m.deletedPodEnded(ctx, uid, user)
		if err != nil {
			return nil, err
		}
		if !ended {
			users[uid] = user
			left = append(left, fmt.Sprintf("%s (deleted, and node %s has not reported its end)", user.Pod, user.Node))
		}
	}
	if len(mark.Users)+len(users) == 0 || equality.Semantic.DeepEqual(mark.Users, users) {
		return left, nil
	}
	mark.Users = users
	return left, m.remark(ctx, source, mark)
}

// usersOf returns the pods that are on a node and have not ended, by UID.
func usersOf(pods []corev1.Pod) map[types.UID]User {
	users := map[types.UID]User{}
	for i := range pods {
		if pod := &pods[i]; pod.Spec.NodeName != "" && !hasEnded(pod) {
			users[pod.UID] = User{Pod: pod.Name, Node: pod.Spec.NodeName, GraceSeconds: kit.GraceSeconds(pod)}
		}
	}
	return users
}

// drain evicts the pods that mount the claim. It returns the names of the pods that may still use the claim, sorted,
// each with the reason in parentheses if its eviction or its end is delayed. Pods with a scheduling gate and pods that
// have ended do not use it, and neither do pods without a node while the source is bound to the sender's claim:
// kubelets do not mount it for them. A deleted pod has ended only if it had a final phase, or its node cannot run it
// any more.
func (m *move) drain(ctx context.Context, source *corev1.PersistentVolume) ([]string, error) {
	pods, err := m.users(ctx)
	if err != nil {
		return nil, err
	}
	mark, ok := markOf(source)
	if !ok {
		return nil, fmt.Errorf("reading volume %s: it has no annotation %s any more", source.Name, annotationMark)
	}
	locked := m.isLocked(source)
	// annotationMark is updated before the eviction, because a pod may be deleted before the next reconcile.
	left, err := m.recordUsers(ctx, source, mark, pods)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		pod := &pods[i]
		reason := ""
		switch {
		case hasEnded(pod), pod.Spec.NodeName == "" && isGated(pod):
			continue
		case pod.DeletionTimestamp.IsZero():
			if reason, err = m.evict(ctx, pod); err != nil {
				return nil, err
			}
		}
		if pod.Spec.NodeName != "" || !locked {
			left = append(left, pod.Name+reason)
		}
	}
	slices.Sort(left)
	return left, nil
}

// deletedPodEnded reports whether a deleted pod has ended. It returns true on a provider, where the fence reports the
// pods instead.
func (m *move) deletedPodEnded(ctx context.Context, uid types.UID, user User) (bool, error) {
	if m.progress.Source.ClusterName != "" {
		return true, nil
	}
	reported, unseen := m.ends.of(uid, m.Clock.Now(), endDelay+time.Duration(user.GraceSeconds)*time.Second)
	if reported {
		return true, nil
	}
	node := &corev1.Node{}
	node, err := found(node, m.Live.Get(ctx, types.NamespacedName{Name: user.Node}, node))
	if err != nil {
		return false, err
	}
	outOfService := func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }
	if node == nil || slices.ContainsFunc(node.Spec.Taints, outOfService) {
		return true, nil
	}
	// The watch did not report the deletion because this process started later. The kubelet of a ready node ends a pod
	// within its grace period, also one that was deleted by force.
	return unseen && isReady(node), nil
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// evict evicts a pod. It returns the reason, in parentheses, if the pod cannot be evicted yet.
func (m *move) evict(ctx context.Context, pod *corev1.Pod) (string, error) {
	err := kit.Evict(ctx, m.Client, pod)
	switch {
	case apierrors.IsTooManyRequests(err):
		return " (its PodDisruptionBudget allows no eviction now)", nil
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return " (its PodDisruptionBudget was not processed yet)", nil
	case err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return "", nil
	}
	return "", fmt.Errorf("evicting pod %s: %w", pod.Name, err)
}

// remark writes a Mark to annotationMark of a volume, and reads the volume again into pv.
func (m *move) remark(ctx context.Context, pv *corev1.PersistentVolume, mark *Mark) error {
	wanted := pv.DeepCopy()
	if err := mark.set(wanted); err != nil {
		return err
	}
	if _, err := kit.Commit(ctx, m.Client, pv, wanted); err != nil {
		return fmt.Errorf("updating the annotation of the move on volume %s: %w", pv.Name, err)
	}
	if err := m.Live.Get(ctx, client.ObjectKeyFromObject(pv), pv); err != nil {
		return fmt.Errorf("reading volume %s: %w", pv.Name, err)
	}
	return nil
}
