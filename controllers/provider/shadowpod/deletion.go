// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// delete deletes the pod with the grace period of the deletion, and releases the shadow pod
// when the pod is deleted. The end of a pod that can finish is recorded first.
func (r *Reconciler) delete(ctx context.Context, shadow *v1alpha1.ShadowPod, pod *corev1.Pod) (time.Duration, error) {
	if pod == nil {
		return r.release(ctx, shadow)
	}
	grace := gracePeriodOf(shadow)
	if pod.DeletionTimestamp.IsZero() || grace != nil && *grace < ptr.Deref(pod.DeletionGracePeriodSeconds, 0) {
		var options []client.DeleteOption
		if grace != nil {
			options = append(options, client.GracePeriodSeconds(*grace))
		}
		if err := kit.Delete(ctx, r.Client, pod, options...); err != nil {
			return 0, err
		}
	}
	switch {
	case !finishes(pod), shadow.Status.Phase != "":
		return 0, r.removeFinalizer(ctx, pod)
	case podspec.Finished(pod):
		err := r.recordEnd(ctx, shadow, pod)
		// RBAC may change, so that Forbidden is retried.
		if final := remote.Refused(err) && !apierrors.IsForbidden(err); !final {
			return 0, err
		}
		log.FromContext(ctx).Error(err, "The end of the pod cannot be recorded, releasing it without", "pod", klog.KObj(pod))
		return 0, r.removeFinalizer(ctx, pod)
	case pod.DeletionTimestamp.IsZero():
		// A pod that is being deleted is bound to no node any more: only then the cached
		// node is final.
		return 0, nil
	case pod.Spec.NodeName == "":
		return 0, r.removeFinalizer(ctx, pod)
	}
	return r.awaitEnd(ctx, pod)
}

// gracePeriodOf returns the time, in seconds, that the pod of a shadow pod that is being
// deleted has to end; nil is its own time. The pod is never deleted by force, also if its own
// time is 0: it would run on without counting against the quota.
func gracePeriodOf(shadow *v1alpha1.ShadowPod) *int64 {
	switch {
	case ptr.Deref(shadow.DeletionGracePeriodSeconds, 0) > 0:
		return shadow.DeletionGracePeriodSeconds
	case ptr.Deref(shadow.Spec.Pod.TerminationGracePeriodSeconds, 1) <= 0:
		return ptr.To[int64](1)
	}
	return nil
}

// release removes the finalizer of a shadow pod whose pod is deleted. One with the end of its
// pod stays until the consumer confirms, with a deletion without a grace period, that it has
// read it, and not for long.
func (r *Reconciler) release(ctx context.Context, shadow *v1alpha1.ShadowPod) (time.Duration, error) {
	seconds := ptr.Deref(shadow.DeletionGracePeriodSeconds, 0)
	switch {
	case len(shadow.Finalizers) == 0:
		// An API server without grace periods released it and did not delete it.
		return 0, kit.Delete(ctx, r.Client, shadow, client.GracePeriodSeconds(0))
	case !controllerutil.ContainsFinalizer(shadow, v1alpha1.Finalizer):
		return 0, nil
	case shadow.Status.Phase != "" && seconds > 1:
		// The pod has ended: nothing needs the rest of the grace period.
		return unread, kit.Delete(ctx, r.Client, shadow, client.GracePeriodSeconds(1))
	case shadow.Status.Phase != "" && seconds > 0:
		if wait := shadow.DeletionTimestamp.Add(unread).Sub(r.Clock.Now()); wait > 0 {
			return wait, nil
		}
	}
	// Only the finalizers change, so the specs need no comparison.
	held := &v1alpha1.ShadowPod{ObjectMeta: metav1.ObjectMeta{
		Namespace: shadow.Namespace, Name: shadow.Name, UID: shadow.UID,
		ResourceVersion: shadow.ResourceVersion, Finalizers: shadow.Finalizers,
	}}
	released := held.DeepCopy()
	controllerutil.RemoveFinalizer(released, v1alpha1.Finalizer)
	return 0, r.commit(ctx, held, released)
}

// releaseDeleted removes the finalizer of a pod that is being deleted and whose end is
// recorded, or needs no record.
func (r *Reconciler) releaseDeleted(ctx context.Context, pod *corev1.Pod) error {
	if pod == nil || pod.DeletionTimestamp.IsZero() {
		return nil
	}
	return r.removeFinalizer(ctx, pod)
}

func (r *Reconciler) removeFinalizer(ctx context.Context, pod *corev1.Pod) error {
	if !controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer) {
		return nil
	}
	// The list may hold finalizers of others: only this one is removed from it.
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"$deleteFromPrimitiveList/finalizers":[%q]}}`, pod.UID, v1alpha1.Finalizer)
	err := r.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("releasing pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	return nil
}
