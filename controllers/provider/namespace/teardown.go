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
	// timeout bounds how long the removal of a remote namespace waits for pods to end.
	timeout = time.Duration(v1alpha1.DefaultDisconnectTimeoutSeconds) * time.Second
	// podsInterval is the time between two passes over what ends in a remote namespace, which
	// no cache has.
	podsInterval = time.Second
	// lastGrace is the grace period, in seconds, of pods that have not ended within the
	// timeout.
	lastGrace = 30
	// longestGrace is the longest grace period that is begun with. The end of a longer one may
	// be no valid date, and is not waited for.
	longestGrace = 365 * 24 * time.Hour
	// volumesInterval is the time between two passes over the volumes of a remote namespace
	// that is no longer requested.
	volumesInterval = 15 * time.Second
	// maxVolumes bounds the ShadowVolumeClaims that are named.
	maxVolumes = 8
)

// tearDown removes a remote namespace from the inside out: the deletion of a namespace
// removes its roles, quotas and network policies in any order, so its pods are deleted
// before. It returns when to reconcile again. Pods whose grace period, which the consumer
// may have chosen, is longer than the timeout get a short one, and the deletion of the
// namespace.
//
// A namespace with ShadowVolumeClaims stays, without pods: no deadline and no orphanTTL
// deletes data. The names of the first of them are returned.
func (r *Reconciler) tearDown(ctx context.Context, foreignCluster string, namespace *corev1.Namespace,
) (time.Duration, []string, error) {
	if !namespace.DeletionTimestamp.IsZero() {
		return 0, nil, nil
	}
	for _, kind := range []contents{r.shadowPods(namespace.Name), r.pods(namespace.Name)} {
		left, err := r.empty(ctx, foreignCluster, namespace.Name, kind)
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

// volumes returns the names of the first ShadowVolumeClaims of a remote namespace, read
// from the API server: a cache may lack the last one.
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

// volumesMessage returns the message of a remote namespace that is kept because of its volumes;
// empty without volumes.
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
	// shorten shortens the grace period of all of them; nil if there is none.
	shorten func(context.Context) error
}

func (r *Reconciler) shadowPods(namespace string) contents {
	inside := client.InNamespace(namespace)
	return contents{
		kind: "shadow pods",
		list: &v1alpha1.ShadowPodList{},
		remove: func(ctx context.Context) error {
			// The consumer does not read the results of pods that have ended any more.
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

// empty deletes the objects of one kind in a namespace, and reports whether some of them have
// not ended. It lists them from the API server, since no cache has them all.
func (r *Reconciler) empty(ctx context.Context, foreignCluster, namespace string, c contents) (bool, error) {
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
		// A controller in the namespace may create new pods, and a consumer that has not
		// received the end yet new shadow pods.
		left = true
		if _, err = r.ensureQuota(ctx, foreignCluster, namespace, quotaOf(nil), nil); err == nil {
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

// ending reports whether an object that is being deleted is still waited for, and whether
// its grace period is longer than the last one.
func (r *Reconciler) ending(object metav1.Object) (waiting, long bool) {
	seconds := ptr.Deref(object.GetDeletionGracePeriodSeconds(), 0)
	if seconds <= int64(longestGrace/time.Second) {
		// The time of deletion is when the grace period is over.
		begun := object.GetDeletionTimestamp().Add(-time.Duration(seconds) * time.Second)
		waiting = r.Clock.Since(begun) < timeout
	}
	return waiting, seconds > lastGrace
}
