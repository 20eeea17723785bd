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
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/controllers/commit"
)

// reconcileOffloading labels the namespace, so that its pods are placed, lets
// virtual kubelets read what the pods need, tells how the namespace stands at
// each cluster, and moves the pods that are misplaced; or it brings it home.
func (c *Consumer) reconcileOffloading(ctx context.Context, namespace string) (time.Duration, error) {
	offloading, err := c.offloadings.NamespaceOffloadings(namespace).Get(v1alpha1.NamespaceOffloadingName)
	if apierrors.IsNotFound(err) {
		c.forgetPods(namespace)
		c.specs.Delete(namespace)
		return 0, c.endReflection(ctx, namespace)
	}
	if err != nil {
		return 0, err
	}
	if c.leaving(offloading) {
		return c.leave(ctx, offloading)
	}
	if err := c.setLabel(ctx, namespace, true); err != nil {
		return 0, err
	}
	pods, complete, err := c.pods(ctx, offloading)
	if err != nil {
		return 0, fmt.Errorf("watch the pods of namespace %s: %w", namespace, err)
	}
	around, err := c.surroundings(offloading)
	if err != nil {
		return 0, err
	}
	standings, err := c.standings(offloading, around, pods)
	if err != nil {
		return 0, err
	}
	if err := c.allowReflection(ctx, namespace, standings); err != nil {
		return 0, err
	}
	var misplaced, stranded []leaver
	var again time.Duration
	var inPlace *metav1.Condition
	if complete {
		if stranded, again, err = c.stranded(ctx, offloading, around); err != nil {
			return 0, err
		}
		misplaced = around.misplaced(pods)
		inPlace = c.inPlace(offloading, misplaced, len(stranded), around.selectorErr)
	}
	storing, released, err := c.releasing(ctx, offloading, standings)
	if err != nil {
		return 0, err
	}
	changed, err := c.commitStatus(ctx, offloading, standings, summary(standings), inPlace, released)
	if err != nil {
		return 0, err
	}
	if changed {
		c.tellFailures(offloading, standings)
	}
	if !complete {
		// The arrival of pods is an event, their absence is not.
		return pollInterval, nil
	}
	for _, s := range standings {
		if s.asked && !s.selected && !s.inhabited {
			c.mapQueue.Add(s.cluster)
		}
		if slices.Contains(storing, s.cluster) && !s.inhabited && !s.ending {
			if err := c.releaseVolumes(ctx, offloading, []string{s.cluster}); err != nil {
				return 0, err
			}
			// The last pod and the last volume may go without an event of the namespace.
			again = pollInterval
		}
	}
	if soon := c.evictMisplaced(ctx, offloading, append(misplaced, stranded...)); again == 0 || soon > 0 && soon < again {
		again = soon
	}
	return again, nil
}

// commitStatus writes the status if it changed, and tells whether it did.
// A condition that is nil is not known, and stays as it is.
func (c *Consumer) commitStatus(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, standings []standing, phase v1alpha1.OffloadingPhase, conditions ...*metav1.Condition) (bool, error) {
	changed := offloading.DeepCopy()
	changed.Status = statusOf(offloading, c.remoteName(offloading), standings, phase, c.clock.Now())
	for _, condition := range conditions {
		if condition != nil {
			meta.SetStatusCondition(&changed.Status.Conditions, *condition)
		}
	}
	return commit.Commit(ctx, c.federation.FederationV1alpha1().NamespaceOffloadings(offloading.Namespace), offloading, changed)
}

// setLabel puts the label that makes the placement of pods look at a
// namespace, or takes it off.
func (c *Consumer) setLabel(ctx context.Context, name string, wanted bool) error {
	namespace, err := c.namespaces.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	value, labelled := namespace.Labels[v1alpha1.LabelSchedulingEnabled]
	patch := []byte(`{"metadata":{"labels":{"` + v1alpha1.LabelSchedulingEnabled + `":"true"}}}`)
	switch {
	case wanted && value == "true", !wanted && !labelled:
		return nil
	case !wanted:
		// Whose tokens virtual kubelets may have ends with it, also when the
		// product is removed in the next moment.
		patch = []byte(`{"metadata":{"labels":{"` + v1alpha1.LabelSchedulingEnabled + `":null},"annotations":{"` + v1alpha1.AnnotationAccounts + `":null}}}`)
	}
	_, err = c.kube.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("set the label %s of namespace %s: %w", v1alpha1.LabelSchedulingEnabled, name, err)
	}
	return nil
}

// surroundings are what one pass over a namespace goes by.
type surroundings struct {
	lenders []placement.Provider
	// placement is empty where selectorErr says why the selector cannot be read.
	placement   placement.Placement
	selectorErr error
}

func (c *Consumer) surroundings(offloading *v1alpha1.NamespaceOffloading) (surroundings, error) {
	lenders, err := c.lenders()
	if err != nil {
		return surroundings{}, fmt.Errorf("list the clusters that lend: %w", err)
	}
	placement, err := placement.NewPlacement(&offloading.Spec, lenders, c.node)
	return surroundings{lenders: lenders, placement: placement, selectorErr: err}, nil
}

// standings collects how a namespace with these pods stands at each cluster
// that lends.
func (c *Consumer) standings(offloading *v1alpha1.NamespaceOffloading, around surroundings, pods []*corev1.Pod) ([]standing, error) {
	all := make([]standing, 0, len(around.lenders))
	for _, l := range around.lenders {
		s := standing{cluster: l.Cluster.Name, selectorErr: around.selectorErr, pods: l.PodsAt(pods), inhabited: staying(offloading, l, pods) > 0, ending: l.Unwanted()}
		if around.selectorErr == nil && !c.leaving(offloading) {
			s.refusal = around.placement.Choose(l)
			s.selected = s.refusal == ""
		}
		current, err := c.maps.NamespaceMaps(naming.PeerNamespace(l.Cluster.Name)).Get(c.clusterName)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		if err == nil {
			s.full = len(current.Spec.Namespaces) >= maxMappings
			asked := c.remoteName(offloading)
			if i := slices.IndexFunc(current.Spec.Namespaces, func(entry v1alpha1.NamespaceMapping) bool { return entry.Name == offloading.Namespace }); i >= 0 {
				s.asked, asked = true, current.Spec.Namespaces[i].RemoteName
			}
			s.taken = slices.ContainsFunc(current.Spec.Namespaces, func(entry v1alpha1.NamespaceMapping) bool {
				return entry.Name != offloading.Namespace && entry.RemoteName == c.remoteName(offloading)
			})
			i := slices.IndexFunc(current.Status.Namespaces, func(answer v1alpha1.NamespaceMappingStatus) bool { return answer.Name == offloading.Namespace })
			if i >= 0 {
				s.hear(&current.Status.Namespaces[i], asked)
			}
		}
		all = append(all, s)
	}
	return all, nil
}
