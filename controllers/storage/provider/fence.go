// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
)

const (
	// annotationUnended is the annotation of a claim with the pods, as JSON, that mounted it and were deleted before their
	// kubelet reported their end. An administrator removes it to confirm that they have ended.
	annotationUnended = "storage.liqo.io/unended-pods"
	// maxUnended is the maximum number of pods in annotationUnended.
	maxUnended = 64
	// heartbeatDelay is longer than the time after which a Node whose kubelet sends no heartbeats is no longer ready.
	heartbeatDelay = time.Minute
)

// unendedPod is a pod that was deleted by force, so that its containers may still run. A kubelet reports the final
// phase of a pod before it deletes the pod, so another client deleted a pod that has no final phase.
//
// Pods that were deleted by force while no controller manager was active are not detected, and neither are processes
// that continue after the end of their container.
type unendedPod struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	Node string    `json:"node"`
	// Boot is the boot id of the node when the pod was deleted. After the node has booted again, the pod has ended.
	Boot string `json:"boot,omitempty"`
	// Missed is set if the watch was interrupted when the pod was deleted, so that its last state is not known. It is the
	// Unix time at which the watch continued, and Grace the termination grace period of the pod in seconds.
	Missed int64 `json:"missed,omitempty"`
	Grace  int64 `json:"grace,omitempty"`
}

// endedOn reports whether the pod has ended on its node, which exists. A pod whose last state is not known has most
// probably ended in the usual way. Otherwise the kubelet ended it after its grace period, if the kubelet was connected.
// A condition without a later heartbeat does not prove that: it becomes Unknown only if another controller runs.
func (p unendedPod) endedOn(node *corev1.Node, now time.Time) bool {
	if p.Boot != "" && node.Status.NodeInfo.BootID != p.Boot ||
		slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }) {
		return true
	}
	return p.Missed != 0 && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		connected := time.Unix(max(p.Missed, c.LastTransitionTime.Unix()), 0)
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue &&
			now.Sub(connected) >= time.Duration(p.Grace)*time.Second+heartbeatDelay &&
			c.LastHeartbeatTime.Unix() >= p.Missed+p.Grace
	})
}

// vanishedPods has the pods that were deleted by force and are not in the annotation of their claims yet.
type vanishedPods struct {
	mutex   sync.Mutex
	byClaim map[types.NamespacedName][]unendedPod
}

// add records a deleted pod for each of its claims, unless the pod has ended or never had a node. boot is the boot id
// of the node. missed is when the watch continued, if it was interrupted when the pod was deleted, and zero otherwise.
func (v *vanishedPods) add(pod *corev1.Pod, boot string, missed time.Time) {
	if podspec.Finished(pod) || pod.Spec.NodeName == "" {
		return
	}
	vanished := unendedPod{Name: pod.Name, UID: pod.UID, Node: pod.Spec.NodeName, Boot: boot}
	if !missed.IsZero() {
		vanished.Missed, vanished.Grace = missed.Unix(), kit.GraceSeconds(pod)
	}
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if v.byClaim == nil {
		v.byClaim = map[types.NamespacedName][]unendedPod{}
	}
	for _, claim := range kit.ClaimsOf(pod) {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: claim}
		v.byClaim[key] = append(v.byClaim[key], vanished)
	}
}

func (v *vanishedPods) of(claim types.NamespacedName) []unendedPod {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return slices.Clone(v.byClaim[claim])
}

// recorded removes the given pods of a claim, which the annotation of the claim contains now.
func (v *vanishedPods) recorded(claim types.NamespacedName, pods []unendedPod) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	left := slices.DeleteFunc(v.byClaim[claim], func(p unendedPod) bool { return slices.Contains(pods, p) })
	if len(left) == 0 {
		delete(v.byClaim, claim)
		return
	}
	v.byClaim[claim] = left
}

// forget removes all pods of a claim that has no ShadowVolumeClaim.
func (v *vanishedPods) forget(claim types.NamespacedName) { v.recorded(claim, v.of(claim)) }

// recordVanished updates annotationUnended of a claim with at most maxUnended pods that were deleted by force, so that
// the list survives a restart of this process. It removes pods that have ended since.
func (r *Reconciler) recordVanished(ctx context.Context, o *observed) error {
	key := client.ObjectKeyFromObject(o.claim)
	seen := r.vanished.of(key)
	var all []unendedPod
	// If another client wrote an invalid value, it is replaced.
	_ = json.Unmarshal([]byte(o.claim.Annotations[annotationUnended]), &all)
	for _, pod := range seen {
		if !slices.Contains(all, pod) {
			all = append(all, pod)
		}
	}
	all = slices.DeleteFunc(all, func(p unendedPod) bool { return r.ended(ctx, p) })
	o.unended = all[:min(len(all), maxUnended)]

	wanted := o.claim.DeepCopy()
	delete(wanted.Annotations, annotationUnended)
	if len(o.unended) > 0 {
		list, err := json.Marshal(o.unended)
		if err != nil {
			return fmt.Errorf("encoding the pods of claim %s: %w", key, err)
		}
		metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, annotationUnended, string(list))
	}
	if _, err := kit.Commit(ctx, r.Client, o.claim, wanted); err != nil {
		return fmt.Errorf("recording the pods of claim %s: %w", key, err)
	}
	r.vanished.recorded(key, seen)
	return nil
}

// ended reports whether a pod has ended because its node was deleted, or as endedOn reports.
func (r *Reconciler) ended(ctx context.Context, p unendedPod) bool {
	var node corev1.Node
	if err := r.Client.Get(ctx, client.ObjectKey{Name: p.Node}, &node); err != nil {
		return apierrors.IsNotFound(err)
	}
	return p.endedOn(&node, r.Clock.Now())
}

// bootOf returns the boot id of a node; empty if the node does not exist.
func (r *Reconciler) bootOf(ctx context.Context, name string) string {
	var node corev1.Node
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
		return ""
	}
	return node.Status.NodeInfo.BootID
}

// podsOf returns the pods that mount a claim and have not ended, sorted by name.
func podsOf(ctx context.Context, reader client.Reader, claim types.NamespacedName) ([]corev1.Pod, error) {
	var pods corev1.PodList
	mounting := client.MatchingFields{kit.IndexClaims: claim.Name}
	if err := reader.List(ctx, &pods, client.InNamespace(claim.Namespace), mounting); err != nil {
		return nil, fmt.Errorf("listing the pods of claim %s: %w", claim, err)
	}
	return using(pods.Items, claim.Name), nil
}

func using(pods []corev1.Pod, claim string) []corev1.Pod {
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		return podspec.Finished(&p) || !slices.Contains(kit.ClaimsOf(&p), claim)
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods
}

// fence returns the status of the fence: the names of the pods, except the movers, that may still use the volume, at
// most maxPods. It is nil if spec.fence is empty.
func (o *observed) fence() *v1alpha1.VolumeFenceStatus {
	id := o.shadow.Spec.Fence
	if id == "" {
		return nil
	}
	var users []string
	for i := range o.pods {
		if o.pods[i].Labels[volume.LabelMove] != id {
			users = append(users, o.pods[i].Name)
		}
	}
	for _, pod := range o.unended {
		if !slices.Contains(users, pod.Name) {
			users = append(users, pod.Name)
		}
	}
	return &v1alpha1.VolumeFenceStatus{ID: id, Users: bounded(users)}
}

// confirmFence reads the pods from the API server before the status first reports that no pod uses the volume, since
// the cache may not have received the newest pod.
func (r *Reconciler) confirmFence(ctx context.Context, o *observed) error {
	fence, reported := o.fence(), o.shadow.Status.Fence
	if fence == nil || len(fence.Users) > 0 || reported != nil && reported.ID == fence.ID && len(reported.Users) == 0 {
		return nil
	}
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(o.shadow.Namespace)); err != nil {
		return fmt.Errorf("listing the pods of namespace %s: %w", o.shadow.Namespace, err)
	}
	o.pods = using(pods.Items, o.shadow.Name)
	return nil
}
