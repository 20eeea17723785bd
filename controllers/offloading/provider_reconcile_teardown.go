// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"
)

const (
	// lastGrace is what pods are left with, in seconds, that have not ended within
	// the timeout.
	lastGrace = 30
	// longestGrace is the longest grace period that is begun with. One that is
	// longer than any date is nobody's to wait for.
	longestGrace = 365 * 24 * time.Hour
	// volumesInterval is the time between two looks at the volumes of a remote namespace
	// that is no longer wanted.
	volumesInterval = 15 * time.Second
	// maxVolumes bounds the ShadowVolumeClaims that are named.
	maxVolumes = 8
)

// tearDown removes a twin from the inside out. A namespace that is deleted
// loses its roles, quotas and network policies in any order, so what runs in
// it goes first, and only then everything that held it in check. The duration
// says when to look again. Who takes longer to end than the timeout, as a
// stranger may have asked for, is told to hurry, and left to the namespace's
// deletion.
//
// A namespace with ShadowVolumeClaims stays, without pods: no deadline and no
// orphanTTL deletes data. The names of the first of them are returned.
func (p *Provider) tearDown(ctx context.Context, foreignCluster string, twin *corev1.Namespace) (time.Duration, []string, error) {
	if !twin.DeletionTimestamp.IsZero() {
		return 0, nil, nil
	}
	for _, kind := range []contents{p.shadowPods(twin.Name), p.pods(twin.Name)} {
		left, err := p.empty(ctx, foreignCluster, twin.Name, kind)
		if err != nil {
			return 0, nil, err
		}
		if left {
			return pollInterval, nil, nil
		}
	}
	volumes, err := p.volumes(ctx, twin.Name)
	if err != nil || len(volumes) > 0 {
		return volumesInterval, volumes, err
	}
	err = p.kube.CoreV1().Namespaces().Delete(ctx, twin.Name, *metav1.NewPreconditionDeleteOptions(string(twin.UID)))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return 0, nil, fmt.Errorf("delete twin namespace %s: %w", twin.Name, err)
	}
	return 0, nil, nil
}

// volumes returns the names of the first ShadowVolumeClaims of a remote namespace, read
// from the API server: a cache may lack the last one.
func (p *Provider) volumes(ctx context.Context, namespace string) ([]string, error) {
	list, err := p.federation.FederationV1alpha1().ShadowVolumeClaims(namespace).List(ctx, metav1.ListOptions{Limit: maxVolumes})
	if err != nil {
		return nil, fmt.Errorf("listing the shadow volume claims of remote namespace %s: %w", namespace, err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}

// volumesMessage returns what a consumer does about the volumes that keep a remote
// namespace; empty without volumes.
func volumesMessage(volumes []string) string {
	if len(volumes) == 0 {
		return ""
	}
	more := ""
	if len(volumes) == maxVolumes {
		more = " and maybe more"
	}
	return fmt.Sprintf("the remote namespace is kept without pods while it has volumes: move or delete the ShadowVolumeClaims %s%s",
		strings.Join(volumes, ", "), more)
}

// contents is one kind of what is in a namespace.
type contents struct {
	kind string
	list func(context.Context) ([]metav1.Object, error)
	// remove deletes all of the kind, each with its grace period.
	remove func(context.Context) error
	// hurry, where it is not nil, shortens the grace period of all of them.
	hurry func(context.Context) error
}

func (p *Provider) shadowPods(namespace string) contents {
	client := p.federation.FederationV1alpha1().ShadowPods(namespace)
	return contents{
		kind: "shadow pods",
		list: func(ctx context.Context) ([]metav1.Object, error) {
			list, err := client.List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			return objects(list.Items, func(i int) metav1.Object { return &list.Items[i] }), nil
		},
		remove: func(ctx context.Context) error {
			// Nobody is left to read how those have ended that have.
			ended := metav1.ListOptions{FieldSelector: fields.OneTermNotEqualSelector("status.phase", "").String()}
			if err := client.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, ended); err != nil {
				return err
			}
			return client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		},
	}
}

func (p *Provider) pods(namespace string) contents {
	client := p.kube.CoreV1().Pods(namespace)
	return contents{
		kind: "pods",
		list: func(ctx context.Context) ([]metav1.Object, error) {
			list, err := client.List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			return objects(list.Items, func(i int) metav1.Object { return &list.Items[i] }), nil
		},
		remove: func(ctx context.Context) error {
			return client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		},
		hurry: func(ctx context.Context) error {
			return client.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](lastGrace)}, metav1.ListOptions{})
		},
	}
}

func objects[T any](items []T, at func(int) metav1.Object) []metav1.Object {
	all := make([]metav1.Object, len(items))
	for i := range items {
		all[i] = at(i)
	}
	return all
}

// empty deletes what is in a namespace, and tells whether something is left
// to wait for.
func (p *Provider) empty(ctx context.Context, foreignCluster, namespace string, c contents) (bool, error) {
	all, err := c.list(ctx)
	if err != nil {
		return false, fmt.Errorf("list the %s of twin namespace %s: %w", c.kind, namespace, err)
	}
	left, untouched, late := false, false, false
	for _, object := range all {
		deletion := object.GetDeletionTimestamp()
		if deletion.IsZero() {
			left, untouched = true, true
			continue
		}
		seconds := ptr.Deref(object.GetDeletionGracePeriodSeconds(), 0)
		late = late || seconds > lastGrace
		if seconds <= int64(longestGrace/time.Second) {
			// The time of deletion is when the grace period is over.
			begun := deletion.Add(-time.Duration(seconds) * time.Second)
			left = left || p.clock.Since(begun) < timeout
		}
	}
	var removeErr error
	switch {
	case untouched:
		// Something in the namespace may make new pods in their place, and a
		// consumer that has not heard of the end yet new shadow pods.
		if _, removeErr = p.ensureQuota(ctx, foreignCluster, namespace, quotaOf(nil), nil); removeErr == nil {
			removeErr = c.remove(ctx)
		}
	case !left && late && c.hurry != nil:
		removeErr = c.hurry(ctx)
	}
	if removeErr != nil {
		return false, fmt.Errorf("delete the %s of twin namespace %s: %w", c.kind, namespace, removeErr)
	}
	return left, nil
}
