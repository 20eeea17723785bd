// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
)

// release removes the scheduling gates from pods that mount the claim, and evicts those that replaceConfined describes.
// An error for one pod does not keep the other pods waiting.
func (m *move) release(ctx context.Context) (outcome, error) {
	return goTo(v1alpha1.MoveCleaning), errors.Join(m.replaceConfined(ctx), m.ungate(ctx))
}

// replaceConfined evicts pending pods that can only run in the local cluster, if the target is on a provider, so that
// their controllers replace them. Such a pod was created after the claim was deleted and before it was created again:
// admission adds no scheduling gate then, and confines the pod to the local cluster, because it does not know the class
// of the claim. Pods without a controller are kept, because no controller would replace them.
func (m *move) replaceConfined(ctx context.Context) error {
	if m.progress.Target.ClusterID == "" {
		return nil
	}
	pods, err := m.users(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName != "" || hasEnded(pod) || isGated(pod) || !pod.DeletionTimestamp.IsZero() ||
			metav1.GetControllerOfNoCopy(pod) == nil || placement.MayStillBindToVirtualNode(pod) {
			continue
		}
		_, err := m.evict(ctx, pod)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ungate removes the annotation volume.AnnotationMoving of the claim, and then the scheduling gates of pods that mount
// the claim, also if the annotation could not be removed. In this order, no pod gets a gate after the gates were
// removed, except one that is being created.
func (m *move) ungate(ctx context.Context) error {
	claim, err := m.claim(ctx)
	if err != nil {
		return err
	}
	if claim != nil {
		err = m.annotateMoving(ctx, claim, "")
	}
	return errors.Join(err, m.removeGates(ctx))
}

func (m *move) removeGates(ctx context.Context) error {
	pods, err := m.users(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for i := range pods {
		pod := &pods[i]
		if !isGated(pod) {
			continue
		}
		held, err := m.heldByAnother(ctx, pod)
		if err != nil {
			errs = append(errs, err)
		}
		if err != nil || held {
			continue
		}
		wanted := pod.DeepCopy()
		wanted.Spec.SchedulingGates = slices.DeleteFunc(wanted.Spec.SchedulingGates,
			func(gate corev1.PodSchedulingGate) bool {
				return gate.Name == v1alpha1.SchedulingGateMoving
			})
		if _, err := kit.Commit(ctx, m.Client, pod, wanted); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("removing the scheduling gate of pod %s: %w", pod.Name, err))
		}
	}
	return errors.Join(errs...)
}

// heldByAnother reports whether another claim that the pod mounts is being moved.
func (m *move) heldByAnother(ctx context.Context, pod *corev1.Pod) (bool, error) {
	for _, name := range kit.ClaimsOf(pod) {
		if name == m.volume.Name {
			continue
		}
		claim, err := m.claimNamed(ctx, name)
		if err != nil {
			return false, err
		}
		if claim != nil && claim.Annotations[volume.AnnotationMoving] != "" {
			return true, nil
		}
	}
	return false, nil
}

// settle removes the scheduling gates from pods that mount the claim of a virtual volume that is not being moved, and
// then the rights of moves in the namespace.
func (r *Reconciler) settle(ctx context.Context, vv *v1alpha1.VirtualVolume) error {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(vv.Namespace)); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	if slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
		return isGated(&pod) && slices.Contains(kit.ClaimsOf(&pod), vv.Name)
	}) {
		m := &move{Reconciler: r, volume: vv, progress: &v1alpha1.MoveProgress{}}
		if _, err := m.grant(ctx); err != nil {
			return err
		}
		if err := m.ungate(ctx); err != nil {
			return err
		}
	} else if vv.Status.Move == nil {
		return nil
	}
	return r.revoke(ctx, vv.Namespace)
}
