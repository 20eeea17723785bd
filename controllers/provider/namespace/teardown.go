// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

const (
	// timeout is the maximum time for which the deletion of a remote namespace waits for pods to end.
	timeout = time.Duration(v1alpha1.DefaultDisconnectTimeoutSeconds) * time.Second
	// podsInterval is the time between two reads of the objects in a remote namespace during its deletion. A
	// poll is needed, because these objects are not cached.
	podsInterval = time.Second
	// lastGrace is the grace period in seconds for pods that have not ended within timeout.
	lastGrace = 30
	// longestGrace is the longest grace period for which the deletion waits. A longer one is shortened at once: the
	// start of a deletion is computed from the deletionTimestamp, which is the end of the grace period and may not be
	// a valid date then.
	longestGrace = 365 * 24 * time.Hour
	// volumesInterval is the time between two reads of the volumes of a remote namespace that is no longer
	// requested.
	volumesInterval = 15 * time.Second
	// maxVolumes is the maximum number of ShadowVolumeClaims in a message.
	maxVolumes = 8
)

// tearDown deletes the ShadowPods and pods in a remote namespace, and then the namespace. The pods are deleted first,
// because the deletion of a namespace deletes its RoleBindings, quotas and network policies in any order. After
// timeout, remaining pods get the grace period lastGrace. It returns the time after which to reconcile again.
//
// A namespace with ShadowVolumeClaims is kept without pods, because neither a timeout nor the orphanTTL deletes data.
// tearDown returns the names of at most maxVolumes ShadowVolumeClaims.
func (r *Reconciler) tearDown(ctx context.Context, t tenant, namespace *corev1.Namespace,
) (time.Duration, []string, error) {
	if !namespace.DeletionTimestamp.IsZero() {
		return 0, nil, nil
	}
	for _, kind := range []contents{r.shadowPods(namespace.Name), r.pods(namespace.Name)} {
		left, err := r.empty(ctx, t, namespace.Name, kind)
		if err != nil {
			return 0, nil, err
		}
		if left {
			return podsInterval, nil, nil
		}
	}
	volumes, err := r.volumes(ctx, namespace.Name)
	if err != nil || len(volumes) > 0 {
		return volumesInterval, volumes, err
	}
	return 0, nil, kit.Delete(ctx, r.Client, namespace)
}

// volumes returns the names of at most maxVolumes ShadowVolumeClaims in a remote namespace. It reads the API server,
// because a cache may lack a new claim.
func (r *Reconciler) volumes(ctx context.Context, namespace string) ([]string, error) {
	var list v1alpha1.ShadowVolumeClaimList
	if err := r.Live.List(ctx, &list, client.InNamespace(namespace), client.Limit(maxVolumes)); err != nil {
		return nil, fmt.Errorf("listing the shadow volume claims of remote namespace %s: %w", namespace, err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}

// volumesMessage returns the message for a remote namespace that is kept because of its volumes; empty if
// there are no volumes.
func volumesMessage(volumes []string) string {
	if len(volumes) == 0 {
		return ""
	}
	more := ""
	if len(volumes) == maxVolumes {
		more = " and maybe more"
	}
	return fmt.Sprintf("the remote namespace is kept without pods while it has volumes: "+
		"move or delete the ShadowVolumeClaims %s%s", strings.Join(volumes, ", "), more)
}

// contents is one kind of objects in a namespace.
type contents struct {
	kind string
	list client.ObjectList
	// remove deletes all objects of the kind, each with its grace period.
	remove func(context.Context) error
	// shorten sets a shorter grace period for all objects of the kind; nil if the kind has no grace period.
	shorten func(context.Context) error
}

func (r *Reconciler) shadowPods(namespace string) contents {
	inside := client.InNamespace(namespace)
	return contents{
		kind: "shadow pods",
		list: &v1alpha1.ShadowPodList{},
		remove: func(ctx context.Context) error {
			// Finished ShadowPods are deleted at once, because the consumer no longer reads their status.
			ended := client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("status.phase", "")}
			if err := r.Client.DeleteAllOf(ctx, &v1alpha1.ShadowPod{}, inside, ended, client.GracePeriodSeconds(0)); err != nil {
				return err
			}
			return r.Client.DeleteAllOf(ctx, &v1alpha1.ShadowPod{}, inside)
		},
	}
}

func (r *Reconciler) pods(namespace string) contents {
	inside := client.InNamespace(namespace)
	return contents{
		kind:   "pods",
		list:   &corev1.PodList{},
		remove: func(ctx context.Context) error { return r.Client.DeleteAllOf(ctx, &corev1.Pod{}, inside) },
		shorten: func(ctx context.Context) error {
			return r.Client.DeleteAllOf(ctx, &corev1.Pod{}, inside, client.GracePeriodSeconds(lastGrace))
		},
	}
}

// empty deletes the objects of one kind in a namespace, and reports whether some of them remain. It reads the
// API server, because not all of them are cached.
func (r *Reconciler) empty(ctx context.Context, t tenant, namespace string, c contents) (bool, error) {
	if err := r.Live.List(ctx, c.list, client.InNamespace(namespace)); err != nil {
		return false, fmt.Errorf("listing the %s of remote namespace %s: %w", c.kind, namespace, err)
	}
	left, untouched, late := false, false, false
	err := meta.EachListItem(c.list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err != nil {
			return err
		}
		if object.GetDeletionTimestamp().IsZero() {
			untouched = true
		} else {
			waiting, long := r.ending(object)
			left, late = left || waiting, late || long
		}
		return nil
	})
	switch {
	case err != nil:
	case untouched:
		// The quota prevents further pods, because controllers may still create pods in the namespace, and a
		// consumer that has not observed the deletion may create ShadowPods.
		left = true
		bound := func(current corev1.ResourceList) corev1.ResourceList { return emptyingBound(current, t.objects) }
		if _, err = r.ensureQuota(ctx, t.foreignCluster, namespace, bound); err == nil {
			err = c.remove(ctx)
		}
	case !left && late && c.shorten != nil:
		err = c.shorten(ctx)
	}
	if err != nil {
		return false, fmt.Errorf("deleting the %s of remote namespace %s: %w", c.kind, namespace, err)
	}
	return left, nil
}

// ending reports whether to wait for an object that is being deleted, and whether its grace period is longer
// than lastGrace.
func (r *Reconciler) ending(object metav1.Object) (waiting, long bool) {
	seconds := ptr.Deref(object.GetDeletionGracePeriodSeconds(), 0)
	if seconds <= int64(longestGrace/time.Second) {
		// deletionTimestamp is the time at which the grace period ends.
		begun := object.GetDeletionTimestamp().Add(-time.Duration(seconds) * time.Second)
		waiting = r.Clock.Since(begun) < timeout
	}
	return waiting, seconds > lastGrace
}
