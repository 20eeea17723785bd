// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/controllers/kit"
)

// Reconcile offloads or unoffloads one namespace according to its NamespaceOffloading.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	return kit.Result(r.reconcile(ctx, request.NamespacedName))
}

// reconcile offloads or unoffloads the namespace. To offload it, it labels the namespace so that its pods may be placed
// on virtual nodes, binds the role of virtual kubelets, writes the state of each provider to the status, and evicts
// misplaced pods. It returns the time after which to reconcile again.
func (r *Reconciler) reconcile(ctx context.Context, key client.ObjectKey) (time.Duration, error) {
	offloading := &v1alpha1.NamespaceOffloading{}
	err := r.Client.Get(ctx, key, offloading)
	if apierrors.IsNotFound(err) {
		r.Pods.Forget(key.Namespace)
		r.specs.Delete(key.Namespace)
		return 0, r.unbindReflection(ctx, key.Namespace)
	}
	if err != nil {
		return 0, fmt.Errorf("reading namespace offloading %s: %w", key, err)
	}
	if r.unoffloading(ctx, offloading) {
		return r.unoffload(ctx, offloading)
	}
	if err := r.setLabel(ctx, key.Namespace, true); err != nil {
		return 0, err
	}
	pods, complete, err := r.pods(ctx, offloading)
	if err != nil {
		return 0, fmt.Errorf("watching the pods of namespace %s: %w", key.Namespace, err)
	}
	options, err := r.optionsOf(ctx, offloading)
	if err != nil {
		return 0, err
	}
	states, err := r.states(ctx, offloading, options, pods)
	if err != nil {
		return 0, err
	}
	if err := r.bindReflection(ctx, key.Namespace, states); err != nil {
		return 0, err
	}
	var misplaced, pending []evictee
	var retryAfter time.Duration
	var inPlace *metav1.Condition
	if complete {
		if pending, retryAfter, err = r.misplacedPending(ctx, offloading, options); err != nil {
			return 0, err
		}
		misplaced = options.misplaced(pods)
		inPlace = r.inPlace(offloading, misplaced, len(pending), options.selectorErr)
	}
	storing, released, err := r.releasing(ctx, offloading, states)
	if err != nil {
		return 0, err
	}
	changed, err := r.commitStatus(ctx, offloading, states, phaseOf(states), inPlace, released)
	if err != nil {
		return 0, err
	}
	if changed {
		r.recordFailures(offloading, states)
	}
	if !complete {
		// No event reports when the pods of all virtual nodes are cached.
		return pollInterval, nil
	}
	for _, s := range states {
		if s.requested && !s.selected && !s.kept {
			r.maps.Add(kit.Request("", s.cluster))
		}
		if slices.Contains(storing, s.cluster) && !s.kept && !s.ending {
			if err := r.releaseVolumes(ctx, offloading, []string{s.cluster}); err != nil {
				return 0, err
			}
			// The deletion of the last pod or volume may not enqueue the namespace.
			retryAfter = pollInterval
		}
	}
	if soon := r.evictMisplaced(ctx, offloading, append(misplaced, pending...)); retryAfter == 0 || soon > 0 &&
		soon < retryAfter {
		retryAfter = soon
	}
	return retryAfter, nil
}

// commitStatus writes the status, and reports whether it changed. If a condition is nil, the existing condition of that
// type stays unchanged.
func (r *Reconciler) commitStatus(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, states []state,
	phase v1alpha1.OffloadingPhase, conditions ...*metav1.Condition,
) (bool, error) {
	desired := offloading.DeepCopy()
	desired.Status = statusOf(offloading, r.remoteName(offloading), states, phase, r.Clock.Now())
	for _, condition := range conditions {
		if condition != nil {
			meta.SetStatusCondition(&desired.Status.Conditions, *condition)
		}
	}
	return kit.Commit(ctx, r.Client, offloading, desired)
}

// setLabel sets the label of a namespace that allows its pods on virtual nodes. If set is false, it removes the label
// and the annotation AnnotationAccounts.
func (r *Reconciler) setLabel(ctx context.Context, name string, set bool) error {
	current := r.namespace(ctx, name)
	if current == nil {
		return nil
	}
	desired := current.DeepCopy()
	value, labelled := current.Labels[v1alpha1.LabelSchedulingEnabled]
	switch {
	case set && value == "true", !set && !labelled:
		return nil
	case set:
		metav1.SetMetaDataLabel(&desired.ObjectMeta, v1alpha1.LabelSchedulingEnabled, "true")
	default:
		delete(desired.Labels, v1alpha1.LabelSchedulingEnabled)
		// Virtual kubelets must get no more tokens, even if the controller of accounts is uninstalled next.
		delete(desired.Annotations, v1alpha1.AnnotationAccounts)
	}
	if _, err := kit.Commit(ctx, r.Client, current, desired); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("setting the label %s of namespace %s: %w", v1alpha1.LabelSchedulingEnabled, name, err)
	}
	return nil
}

// options are the providers of this cluster, and the parsed placement of one NamespaceOffloading.
type options struct {
	providers []placement.Provider
	// placement is empty if the selector is invalid; selectorErr is the reason then.
	placement   placement.Placement
	selectorErr error
}

func (r *Reconciler) optionsOf(ctx context.Context, offloading *v1alpha1.NamespaceOffloading) (options, error) {
	providers, err := r.providers(ctx)
	if err != nil {
		return options{}, fmt.Errorf("listing providers: %w", err)
	}
	chosen, err := placement.NewPlacement(&offloading.Spec, providers, r.nodes(ctx))
	return options{providers: providers, placement: chosen, selectorErr: err}, nil
}

// states returns the state of the namespace on each provider. pods are the pods of the namespace.
func (r *Reconciler) states(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, o options,
	pods []*corev1.Pod,
) ([]state, error) {
	all := make([]state, 0, len(o.providers))
	remoteName := r.remoteName(offloading)
	for _, provider := range o.providers {
		s := state{
			cluster: provider.Cluster.Name, selectorErr: o.selectorErr, pods: provider.PodsAt(pods),
			kept: keeping(offloading, provider, pods) > 0, ending: provider.Unwanted(),
		}
		if o.selectorErr == nil && !r.unoffloading(ctx, offloading) {
			s.refusal = o.placement.Choose(provider)
			s.selected = s.refusal == ""
		}
		current := &v1alpha1.NamespaceMap{}
		key := client.ObjectKey{Namespace: naming.PeerNamespace(s.cluster), Name: r.ClusterName}
		err := r.Client.Get(ctx, key, current, client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading namespace map %s: %w", key, err)
		}
		if err == nil {
			s.observe(current, offloading.Namespace, remoteName)
		}
		all = append(all, s)
	}
	return all, nil
}
