// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
)

// pods returns the scheduled pods of the namespace, and reports whether all are cached. If the spec allows pods on all
// nodes, it ends the watch of the pods, and returns no pods and true.
func (r *Reconciler) pods(ctx context.Context, offloading *v1alpha1.NamespaceOffloading) ([]*corev1.Pod, bool, error) {
	if placement.PlacesAnywhere(&offloading.Spec) {
		r.Pods.Forget(offloading.Namespace)
		return nil, true, nil
	}
	return r.Pods.List(ctx, offloading.Namespace)
}

// misplaced returns the pods on nodes that the spec does not allow, sorted by name; none if its selector is invalid.
func (o options) misplaced(pods []*corev1.Pod) []evictee {
	if o.selectorErr != nil {
		return nil
	}
	var all []evictee
	for _, pod := range pods {
		if why := o.placement.Misplaced(pod); why != "" {
			all = append(all, evictee{pod, reasonMisplaced, why})
		}
	}
	slices.SortFunc(all, func(a, b evictee) int { return strings.Compare(a.Name, b.Name) })
	return all
}

const (
	// Pods without a node are listed every pendingInterval during pendingTime after a spec was first observed, also
	// after a restart. Some may have been created under the previous spec, because admission in kube-apiserver
	// observes a change with a delay.
	pendingInterval = 10 * time.Second
	pendingTime     = time.Minute
	// pendingPause is the minimum time from a list without misplaced pods to the next list. Without it, the many events
	// of pods without a node while an application starts would each cause a list.
	pendingPause = time.Second
)

// seenSpec is the last reconciled spec of a NamespaceOffloading, and the time at which it was first observed.
type seenSpec struct {
	uid        types.UID
	generation int64
	seen       time.Time
	// none is the time of the last list of pods without a node if it found no misplaced pod; otherwise zero.
	none time.Time
	// warned reports whether the last list found misplaced pods that are only reported, because spec.enforcement is not
	// Evict.
	warned bool
}

// misplacedPending returns the misplaced pods without a node, which wait for a node that only a previous spec allowed,
// and the time after which to list them again; zero means never. It reads the API server, because pods without a node
// are not watched. Until pendingTime has passed since the spec was first observed, it lists them every pendingInterval;
// after that every pendingTime, and only while the last list found some and spec.enforcement is not Evict, so that the
// condition PodsInPlace reports them.
func (r *Reconciler) misplacedPending(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, o options,
) ([]evictee, time.Duration, error) {
	if o.selectorErr != nil {
		return nil, 0, nil
	}
	now := r.Clock.Now()
	current := seenSpec{uid: offloading.UID, generation: offloading.Generation, seen: now}
	if stored, ok := r.specs.Load(offloading.Namespace); ok {
		if spec := stored.(seenSpec); spec.uid == current.uid && spec.generation == current.generation {
			current = spec
		}
	}
	retryAfter := pendingInterval
	if now.Sub(current.seen) > pendingTime {
		if retryAfter = pendingTime; !current.warned {
			return nil, 0, nil
		}
	}
	if pause := pendingPause - now.Sub(current.none); pause > 0 {
		return nil, pause, nil
	}
	var pods corev1.PodList
	withoutNode := client.MatchingFields{"spec.nodeName": ""}
	if err := r.Live.List(ctx, &pods, client.InNamespace(offloading.Namespace), withoutNode); err != nil {
		return nil, 0, fmt.Errorf(
			"listing the pods of namespace %s that wait for a node: %w", offloading.Namespace, err,
		)
	}
	var all []evictee
	for i := range pods.Items {
		if why := o.placement.MisplacedPending(&pods.Items[i]); why != "" {
			all = append(all, evictee{&pods.Items[i], reasonMisplaced, why})
		}
	}
	current.warned = len(all) > 0 && offloading.Spec.Enforcement != v1alpha1.Evict
	if current.none = (time.Time{}); len(all) == 0 {
		current.none = now
	}
	r.specs.Store(offloading.Namespace, current)
	return all, retryAfter, nil
}

// inPlace returns the condition PodsInPlace of a namespace with the misplaced pods that have a node, and the number of
// pending ones. selectorErr is not nil if the selector is invalid, so that misplaced pods are unknown. Pending pods
// that are evicted are not reported, because they are deleted at once.
func (r *Reconciler) inPlace(offloading *v1alpha1.NamespaceOffloading, misplaced []evictee, pending int,
	selectorErr error,
) *metav1.Condition {
	condition := &metav1.Condition{
		Type: v1alpha1.ConditionPodsInPlace, Status: metav1.ConditionFalse,
		ObservedGeneration: offloading.Generation, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	}
	const restart = "restart them (kubectl rollout restart), or set spec.enforcement to Evict."
	switch {
	case selectorErr != nil:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionUnknown, reasonInvalidSelector,
			selectorErr.Error()
	case offloading.Spec.Enforcement != v1alpha1.Evict && pending > 0:
		condition.Reason = reasonMisplaced
		condition.Message = fmt.Sprintf(
			"%d pod(s) run on nodes that spec no longer allows, and %d wait for nodes that only an earlier spec allowed: %s",
			len(misplaced), pending, restart)
	case len(misplaced) == 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, reasonInPlace
	case offloading.Spec.Enforcement != v1alpha1.Evict:
		condition.Reason = reasonMisplaced
		condition.Message = fmt.Sprintf("%d pod(s) run on nodes that spec no longer allows: %s", len(misplaced), restart)
	case blocked(misplaced, r.evictions) > 0:
		condition.Reason = reasonEvictionBlocked
		condition.Message = fmt.Sprintf(
			"%d pod(s) run on nodes that spec no longer allows; "+
				"not all of them can be evicted now: see the events of this object.",
			len(misplaced))
	default:
		condition.Reason = reasonEvicting
		condition.Message = fmt.Sprintf("%d pod(s) run on nodes that spec no longer allows, and are evicted.",
			len(misplaced))
	}
	return condition
}

// evictMisplaced evicts misplaced pods if spec.enforcement is Evict, and returns the time after which to retry.
func (r *Reconciler) evictMisplaced(ctx context.Context, offloading *v1alpha1.NamespaceOffloading,
	misplaced []evictee,
) time.Duration {
	if offloading.Spec.Enforcement != v1alpha1.Evict {
		r.evictions.GC()
		return 0
	}
	return r.evictAll(ctx, offloading, misplaced, r.evictions)
}
