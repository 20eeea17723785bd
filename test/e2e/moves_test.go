// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/test/harness"
)

const (
	// movedClaim is the claim whose volume is moved, and movedPod is the pod that mounts it.
	movedClaim = "data-db-0"
	movedPod   = "db-0"
)

// moving is a StatefulSet with one pod that writes to a volume, and the expected content of that
// volume.
type moving struct {
	offload
	// tree is a listing of the files that do not change.
	tree string
	// writer appends lines to another file during moves.
	writer *appender
}

// appender appends numbers to a file on a volume, by commands in the pod that mounts it, and
// records the acknowledged ones.
type appender struct {
	stop         func()
	mu           sync.Mutex
	acknowledged []int
}

// written returns the numbers whose append was acknowledged.
func (a *appender) written() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.acknowledged)
}

// appends starts an appender, which runs until the test ends.
func appends(t *testing.T, namespace string) *appender {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	a := &appender{stop: func() {
		cancel()
		running.Wait()
	}}
	t.Cleanup(a.stop)
	running.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			_, err := rome.Kube.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(movedPod+":8080").
				SubResource("proxy").Suffix("append", strconv.Itoa(n)).Timeout(5 * time.Second).DoRaw(ctx)
			if err == nil {
				a.mu.Lock()
				a.acknowledged = append(a.acknowledged, n)
				a.mu.Unlock()
			}
		}
	})
	return a
}

// startsMoving runs a StatefulSet with a volume. Its files have every attribute that a copy must
// preserve. A writer appends to one of them until the test ends.
func startsMoving(t *testing.T, change func(*appsv1.StatefulSet)) *moving {
	t.Helper()
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
	set := storing("db", 1)
	spec := podSpec("serve")
	spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)}
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	set.Spec.Template.Spec = spec
	if change != nil {
		change(set)
	}
	must(rome.Kube.AppsV1().StatefulSets(o.namespace).Create(t.Context(), set, metav1.CreateOptions{}))(t)
	podReady(t, rome, o.namespace, movedPod)
	kubectl(t, rome, "exec", "-n", o.namespace, movedPod, "--", "/federation-tester", "plant", "/data/tree")
	m := &moving{offload: o}
	m.tree = m.files(t)
	m.writer = appends(t, o.namespace)
	return m
}

// files returns a listing of the files that do not change, with their attributes and checksums.
func (m *moving) files(t *testing.T) string {
	t.Helper()
	return kubectl(t, rome, "exec", "-n", m.namespace, movedPod, "--", "/federation-tester", "tree", "/data/tree")
}

// target returns the cluster that does not store the data.
func (m *moving) target(t *testing.T) v1alpha1.MoveTarget {
	t.Helper()
	stored := volumeThat(t, m.namespace, movedClaim, "be bound", func(v *v1alpha1.VirtualVolume) bool {
		return v.Status.Phase == v1alpha1.VirtualVolumeBound && v.Status.Location != nil
	})
	if stored.Status.Location.ClusterName == "" {
		return v1alpha1.MoveTarget{ClusterName: "milan"}
	}
	return v1alpha1.MoveTarget{Local: true}
}

// starts requests a move to the other cluster, and returns its ID.
func (m *moving) starts(t *testing.T, spec v1alpha1.MoveSpec) string {
	t.Helper()
	spec.Target = m.target(t)
	client := rome.Federation.FederationV1alpha1().VirtualVolumes(m.namespace)
	must(client.CreateMove(t.Context(), movedClaim, &v1alpha1.Move{Spec: spec}, metav1.CreateOptions{}))(t)
	return must(client.Get(t.Context(), movedClaim, metav1.GetOptions{}))(t).Spec.Move.ID
}

// reachesPhase waits until a move has reached a phase, and returns the current phase, which may be
// a later one. It uses a watch, because a phase may last only milliseconds.
func (m *moving) reachesPhase(t *testing.T, id string, phase v1alpha1.MovePhase) v1alpha1.MovePhase {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	watched := must(rome.Federation.FederationV1alpha1().VirtualVolumes(m.namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + movedClaim,
	}))(t)
	defer watched.Stop()
	for event := range watched.ResultChan() {
		v, ok := event.Object.(*v1alpha1.VirtualVolume)
		if !ok || v.Status.Move == nil || v.Status.Move.ID != id {
			continue
		}
		if at := slices.Index(everyPhase, v.Status.Move.Phase); at < 0 || at >= slices.Index(everyPhase, phase) {
			return v.Status.Move.Phase
		}
	}
	t.Fatalf("the move did not reach %s", phase)
	return ""
}

// progress returns the progress of the last move.
func (m *moving) progress(t *testing.T) *v1alpha1.MoveProgress {
	t.Helper()
	return must(rome.Federation.FederationV1alpha1().VirtualVolumes(m.namespace).Get(t.Context(), movedClaim,
		metav1.GetOptions{}))(t).Status.Move
}

// ends waits until a move has ended, and returns its final progress.
func (m *moving) ends(t *testing.T, id string) *v1alpha1.MoveProgress {
	t.Helper()
	var last *v1alpha1.MoveProgress
	eventually(t, calm, "the move to end", func(ctx context.Context) (bool, string, error) {
		v, err := rome.Federation.FederationV1alpha1().VirtualVolumes(m.namespace).Get(ctx, movedClaim, metav1.GetOptions{})
		if err != nil {
			return false, err.Error(), nil
		}
		last = v.Status.Move
		return last != nil && last.ID == id && last.CompletionTime != nil, show(v.Status), nil
	})
	return last
}

// isWhole fails the test unless the pod is Ready and can write, the volume has all files and
// acknowledged lines, and all other objects of the move are deleted.
func (m *moving) isWhole(t *testing.T) {
	t.Helper()
	podReady(t, rome, m.namespace, movedPod)
	written := m.writer.written()
	eventually(t, soon, "the pod to be written to again", func(context.Context) (bool, string, error) {
		return len(m.writer.written()) > len(written), fmt.Sprintf("%d lines", len(written)), nil
	})
	if diff := cmp.Diff(m.tree, m.files(t)); diff != "" {
		t.Errorf("the files differ (-before +after):\n%s", diff)
	}
	lines := strings.Fields(kubectl(t, rome, "exec", "-n", m.namespace, movedPod, "--", "/federation-tester",
		"read", "/data/log"))
	known := map[string]bool{}
	for _, line := range lines {
		known[line] = true
	}
	lost := slices.DeleteFunc(slices.Clone(written), func(n int) bool { return known[strconv.Itoa(n)] })
	if len(lost) > 0 {
		t.Errorf("%d of %d acknowledged lines are lost, the first is %d", len(lost), len(written), lost[0])
	}
	m.leavesNothing(t)
}

// leavesNothing waits until both clusters have only the claim and its volume, and no other object
// of a move.
func (m *moving) leavesNothing(t *testing.T) {
	t.Helper()
	for c, namespace := range map[*harness.Cluster]string{rome: m.namespace, milan: m.remote} {
		isPrinted(t, c, "get pods,secrets,services,configmaps -n "+namespace+" -l "+volume.LabelMove+" -o name", "")
	}
	isPrinted(t, rome, "get pvc -n "+m.namespace+" -o jsonpath={.items[*].metadata.name}", movedClaim)
	isPrinted(t, rome, "get rolebinding -n "+m.namespace+" federation-mover --ignore-not-found -o name", "")
	isPrinted(t, rome, "get pods -n "+m.namespace+" -o jsonpath={.items[*].spec.schedulingGates}", "")
	eventually(t, soon, "one volume to be left", func(ctx context.Context) (bool, string, error) {
		var left []string
		for c, namespace := range map[*harness.Cluster]string{rome: m.namespace, milan: m.remote} {
			list, err := c.Kube.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, "", err
			}
			for _, pv := range list.Items {
				if pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.Namespace != namespace {
					continue
				}
				left = append(left, c.Name+" "+pv.Name+" of "+pv.Spec.ClaimRef.Name)
				if pv.Annotations[volume.LabelMove] != "" || pv.Spec.ClaimRef.UID == "" {
					return false, pv.Name + " is of the move", nil
				}
			}
		}
		// A volume that milan stores has a PersistentVolume on each cluster.
		return len(left) == 1 || len(left) == 2 && left[0][0] != left[1][0], strings.Join(left, ", "), nil
	})
}

// deletesMover waits for the sender or the receiver of the move, and deletes it. It deletes nothing if the move ends or
// is rolled back before that.
func (m *moving) deletesMover(t *testing.T, role string) {
	t.Helper()
	pods := rome.Kube.CoreV1().Pods(m.namespace)
	eventually(t, soon, "a "+role, func(ctx context.Context) (bool, string, error) {
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: volume.LabelMove})
		if err != nil {
			return false, "", err
		}
		for _, pod := range list.Items {
			if strings.HasSuffix(pod.Name, "-"+role) {
				err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{})
				return err == nil || apierrors.IsNotFound(err), pod.Name, err
			}
		}
		now := m.progress(t)
		return now.CompletionTime != nil || now.Phase == v1alpha1.MoveRollingBack, "there is none", nil
	})
}

// cancels requests the cancellation of the move. It ignores the error if the move can no longer be
// cancelled.
func (m *moving) cancels(t *testing.T) {
	t.Helper()
	_, err := rome.Federation.FederationV1alpha1().VirtualVolumes(m.namespace).DeleteMove(t.Context(), movedClaim,
		metav1.DeleteOptions{})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// slow returns a bandwidth with which the copy takes some seconds.
func slow() *resource.Quantity { return ptr.To(resource.MustParse("1Mi")) }
