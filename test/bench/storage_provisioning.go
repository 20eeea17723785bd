// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"

	"liqo.io/federation/test/bench/figures"
	"liqo.io/federation/test/harness"
)

// provisioningBudget is the maximal ratio of the time until a claim on the virtual node is bound to
// the time for a claim of the same class on the provider.
const provisioningBudget = 3.0

// provisioningsPerRun is the number of claims of each kind that a run provisions.
const provisioningsPerRun = 5

// provisioningKind describes a claim, and the pod that mounts it.
type provisioningKind struct {
	name               string
	cluster            *harness.Cluster
	namespace          string
	class, remoteClass string
	selector           map[string]string
}

// provisioned has, for claims of one kind, the seconds from the creation until the claim was bound
// and until its pod was Ready.
type provisioned struct{ bound, ready figures.Series }

// measureProvisioning provisions claims of each kind in turn, so that all kinds are measured under
// the same conditions.
func (b *bench) measureProvisioning(ctx context.Context) ([]storageRow, error) {
	kinds := []provisioningKind{
		{"class local on milan", b.milan, vanilla, waitingClass, "", nil},
		{"class liqo on the virtual node", b.rome, storing, virtualClass, waitingClass, where(true)},
		{"class immediate on milan", b.milan, vanilla, immediateClass, "", nil},
		{"class liqo on the virtual node, immediate", b.rome, storing, virtualClass, immediateClass, where(true)},
		{"class local on rome", b.rome, vanilla, waitingClass, "", where(false)},
		{"class liqo on rome's own node", b.rome, storing, virtualClass, "", where(false)},
	}
	measured := make([]provisioned, len(kinds))
	// The first claim of each kind fills caches, and is not counted.
	for sample := range b.options.runs*provisioningsPerRun + 1 {
		for i, kind := range kinds {
			bound, ready, err := b.provision(ctx, kind, fmt.Sprintf("provisioned-%d-%d", i, sample))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", kind.name, err)
			}
			fmt.Fprintf(os.Stderr, "%s, claim %d: Bound after %s, pod Ready after %s\n",
				kind.name, sample, bound.Round(time.Millisecond), ready.Round(time.Millisecond))
			if sample > 0 {
				measured[i].bound = append(measured[i].bound, bound.Seconds())
				measured[i].ready = append(measured[i].ready, ready.Seconds())
			}
		}
	}
	var rows []storageRow
	for i, what := range []string{
		"virtual node, provider's class binds when a pod is scheduled",
		"virtual node, provider's class binds at once", "local node",
	} {
		rows = append(rows, provisioningRows(what, measured[2*i], measured[2*i+1])...)
	}
	return rows, nil
}

func provisioningRows(what string, plain, federation provisioned) []storageRow {
	bound := federation.bound.Median() / plain.bound.Median()
	ready := federation.ready.Median() / plain.ready.Median()
	return []storageRow{
		{
			what + ": claim created → Bound", plain.bound.Format(" s"), federation.bound.Format(" s"),
			fmt.Sprintf("%.2f×", bound), figures.AtMost(bound, provisioningBudget, "×"),
		},
		{
			what + ": claim created → pod Ready", plain.ready.Format(" s"), federation.ready.Format(" s"),
			fmt.Sprintf("%.2f×", ready), "–",
		},
	}
}

// provision creates a claim and a pod that mounts it, and deletes both at the end. It returns the
// time from the creation until the claim was bound and until the pod was Ready.
func (b *bench) provision(ctx context.Context, kind provisioningKind, name string) (bound,
	ready time.Duration, err error) {
	core := kind.cluster.Kube.CoreV1()
	claims, pods := core.PersistentVolumeClaims(kind.namespace), core.Pods(kind.namespace)
	if err := b.quiet(ctx); err != nil {
		return 0, 0, err
	}
	claim := claimOf(name, kind.class, kind.remoteClass, "64Mi")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: mounting(name, kind.selector)}
	started := time.Now()
	if _, err := claims.Create(ctx, &claim, metav1.CreateOptions{}); err != nil {
		return 0, 0, err
	}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return 0, 0, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		bound, err = since(groupCtx, started, name, claims.Watch, func(object runtime.Object) bool {
			claim, ok := object.(*corev1.PersistentVolumeClaim)
			return ok && claim.Status.Phase == corev1.ClaimBound
		})
		return err
	})
	group.Go(func() (err error) {
		ready, err = since(groupCtx, started, name, pods.Watch, func(object runtime.Object) bool {
			pod, ok := object.(*corev1.Pod)
			return ok && isReady(pod)
		})
		return err
	})
	if err := group.Wait(); err != nil {
		return 0, 0, err
	}
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return 0, 0, err
	}
	if err := claims.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return 0, 0, err
	}
	return bound, ready, harness.Eventually(ctx, patience, "claim "+name+" to be gone",
		func(ctx context.Context) (bool, string, error) {
			_, err := claims.Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), "it is there", unless(apierrors.IsNotFound, err)
		})
}

// named returns list options that select the object with this name.
func named(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
}

// since watches the object with this name, and returns the time from moment until the object first
// met the condition.
func since(ctx context.Context, moment time.Time, name string,
	follow func(context.Context, metav1.ListOptions) (watch.Interface, error),
	wanted func(runtime.Object) bool,
) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	watcher, err := follow(ctx, named(name))
	if err != nil {
		return 0, err
	}
	var took time.Duration
	_, err = watchtools.UntilWithoutRetry(ctx, watcher, func(event watch.Event) (bool, error) {
		took = time.Since(moment)
		return wanted(event.Object), nil
	})
	if err != nil {
		return 0, fmt.Errorf("waiting for %s: %w", name, err)
	}
	return took, nil
}
