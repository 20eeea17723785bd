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

// delete deletes the pod of a ShadowPod that is being deleted, with the same grace period, and removes the finalizer
// of the ShadowPod once the pod is deleted. If the pod can finish by itself, its final status is first written to the
// ShadowPod. delete returns the time after which to reconcile again; zero means that only an event causes it.
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
		// Forbidden is retried, because an administrator may change the RBAC rules.
		if final := remote.Refused(err) && !apierrors.IsForbidden(err); !final {
			return 0, err
		}
		log.FromContext(ctx).Error(err, "Recording the end of the pod failed, removing its finalizer without a record",
			"pod", klog.KObj(pod))
		return 0, r.removeFinalizer(ctx, pod)
	case pod.DeletionTimestamp.IsZero():
		// The cached node of the pod is final only once the pod is being deleted, because such a pod is no
		// longer scheduled.
		return 0, nil
	case pod.Spec.NodeName == "":
		return 0, r.removeFinalizer(ctx, pod)
	}
	return r.awaitEnd(ctx, pod)
}

// gracePeriodOf returns the grace period in seconds with which to delete the pod of a deleted ShadowPod; nil
// means the pod's own grace period. It is never 0, even if the pod's own grace period is 0, because the
// containers of a force deleted pod may keep running without counting against the quota.
func gracePeriodOf(shadow *v1alpha1.ShadowPod) *int64 {
	switch {
	case ptr.Deref(shadow.DeletionGracePeriodSeconds, 0) > 0:
		return shadow.DeletionGracePeriodSeconds
	case ptr.Deref(shadow.Spec.Pod.TerminationGracePeriodSeconds, 1) <= 0:
		return ptr.To[int64](1)
	}
	return nil
}

// release removes the finalizer of a ShadowPod whose pod is deleted. If the status records the end of the pod, the
// ShadowPod is kept until the consumer confirms that it has read it, by a deletion with grace period 0, but no longer
// than unread. release returns the time after which to reconcile again, or zero.
func (r *Reconciler) release(ctx context.Context, shadow *v1alpha1.ShadowPod) (time.Duration, error) {
	seconds := ptr.Deref(shadow.DeletionGracePeriodSeconds, 0)
	switch {
	case len(shadow.Finalizers) == 0:
		// A federation API server of a version without grace periods does not delete the object by itself.
		return 0, kit.Delete(ctx, r.Client, shadow, client.GracePeriodSeconds(0))
	case !controllerutil.ContainsFinalizer(shadow, v1alpha1.Finalizer):
		return 0, nil
	case shadow.Status.Phase != "" && seconds > 1:
		// The pod has ended, so the rest of the grace period is not needed.
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

// releaseDeleted removes the finalizer of a pod that is being deleted; pod may be nil. The caller has recorded the
// end of the pod in the ShadowPod before, or has nothing to record.
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
	// The patch removes only this finalizer, and keeps the finalizers of other clients.
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"$deleteFromPrimitiveList/finalizers":[%q]}}`, pod.UID, v1alpha1.Finalizer)
	err := r.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("removing the finalizer of pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	return nil
}
