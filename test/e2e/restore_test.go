// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

const (
	apiServer = "federation-apiserver-0"
	store     = "data-federation-apiserver-0"
)

// restoresTheStore follows the procedures in docs/operations.md for a lost volume of the store, on
// both clusters, and for a damaged database, on rome. The peering and running pods must not be
// disturbed.
func restoresTheStore(t *testing.T) {
	o := serving(t)
	run := containerRun(podReady(t, milan, o.remote, "web"))
	for _, cluster := range []*harness.Cluster{rome, milan} {
		// An object that is deleted between the snapshot and the restore would exist again.
		eventually(t, soon, "no namespace to be terminating on "+cluster.Name,
			func(ctx context.Context) (bool, string, error) {
				namespaces, err := cluster.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
				if err != nil {
					return false, "", err
				}
				going := slices.DeleteFunc(namespaces.Items, func(n corev1.Namespace) bool { return n.DeletionTimestamp == nil })
				return len(going) == 0, fmt.Sprintf("%d are", len(going)), nil
			})
		restoresALostVolume(t, cluster)
	}
	restoresADamagedDatabase(t, rome)
	kubectl(t, rome, "wait", "foreigncluster/milan", "--for=condition=Ready", "--timeout=110s")
	runReadyPod(t, o.namespace, "after", podSpec("serve"))
	if now := containerRun(podReady(t, milan, o.remote, "web")); now != run {
		t.Errorf("the pod was disturbed: %s before, %s after", run, now)
	}
}

func restoresALostVolume(t *testing.T, c *harness.Cluster) {
	t.Helper()
	all := must(c.Snapshot(t.Context()))(t)
	before := stored(t, c)
	losesStore(t, c, takesSnapshot(t, c))
	isRestored(t, c, before)
	keepsTheNewVolume(t, c, all)
}

// takesSnapshot writes a snapshot of a cluster's federation store to a file, and returns its path.
func takesSnapshot(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "federation.db")
	runsThePage(t, c, "operations.md#backup", "federation.db", file)
	return file
}

// losesStore deletes the volume of the store, and restores a snapshot on a new volume. snapshot is the path of a file.
func losesStore(t *testing.T, c *harness.Cluster, snapshot string) {
	t.Helper()
	claims := c.Kube.CoreV1().PersistentVolumeClaims(harness.Namespace)
	lost := must(claims.Get(t.Context(), store, metav1.GetOptions{}))(t)
	runsThePage(t, c, "operations.md#restore", "federation.db", snapshot)
	if must(claims.Get(t.Context(), store, metav1.GetOptions{}))(t).UID == lost.UID {
		t.Fatal("the volume was not lost")
	}
	kubectl(t, c, "wait", "--for=condition=Available", "apiservice/v1alpha1.federation.liqo.io", "--timeout=110s")
}

// restoresADamagedDatabase overwrites the beginning of the etcd database, and restores the newest
// snapshot from the same volume.
func restoresADamagedDatabase(t *testing.T, c *harness.Cluster) {
	t.Helper()
	setsValues(t, c, "apiserver.snapshots.interval=5s")
	kubectl(t, c, "wait", "--for=condition=Available", "apiservice/v1alpha1.federation.liqo.io", "--timeout=110s")
	before, since := stored(t, c), time.Now()
	node, directory := volumeOf(t, c)
	eventually(t, soon, "a snapshot on the volume", func(ctx context.Context) (bool, string, error) {
		names, err := playground.Exec(ctx, node, "ls", filepath.Join(directory, "snapshots"))
		taken := strings.Fields(names)
		return len(taken) > 0 && slices.Max(taken) > since.UTC().Format("20060102T150405.000Z") &&
			strings.HasSuffix(slices.Max(taken), ".db"), names, err
	})
	scaleAPIServer(t, c, "0")
	podGone(t, c, harness.Namespace, apiServer)
	database := filepath.Join(directory, "etcd", "member", "snap", "db")
	if _, err := playground.Exec(t.Context(), node, "dd", "if=/dev/zero", "of="+database, "bs=64k", "count=1",
		"conv=notrunc"); err != nil {
		t.Fatal(err)
	}
	scaleAPIServer(t, c, "1")
	eventually(t, soon, "the API server of "+c.Name+" to log that etcd gives up",
		func(ctx context.Context) (bool, string, error) {
			log := c.Kubectl(ctx, "logs", apiServer, "--namespace", harness.Namespace, "--previous")
			return strings.Contains(log.Stdout, "etcd gives up"), log.Stdout, log.Err
		})

	helmUpgrade(t, c, "--reuse-values", "--set", "apiserver.restore=true")
	waitsForSnapshot(t, c)
	output := kubectl(t, c, "exec", apiServer, "--namespace", harness.Namespace, "--container", "restore", "--",
		"federation-apiserver", "restore", "--snapshot=newest", "--set-aside")
	if !strings.Contains(output, "etcd.aside-") {
		t.Errorf("the restore does not print where the damaged data is: %s", output)
	}
	setsValues(t, c, "apiserver.restore=false", "apiserver.snapshots.interval=6h")
	isRestored(t, c, before)
	if names := must(playground.Exec(t.Context(), node, "ls", directory))(t); !strings.Contains(names, "etcd.aside-") {
		t.Errorf("the damaged data was not kept: %s", names)
	}
}

// isRestored fails the test unless the cluster stores the same objects as when the snapshot was taken.
func isRestored(t *testing.T, c *harness.Cluster, before map[string]string) {
	t.Helper()
	kubectl(t, c, "wait", "--for=condition=Available", "apiservice/v1alpha1.federation.liqo.io", "--timeout=110s")
	if diff := cmp.Diff(before, stored(t, c)); diff != "" {
		t.Errorf("objects stored on %s (-before +after):\n%s", c.Name, diff)
	}
}

// volumeOf returns the directory of the store's volume, and its node.
func volumeOf(t *testing.T, c *harness.Cluster) (node, directory string) {
	t.Helper()
	pod := must(c.Kube.CoreV1().Pods(harness.Namespace).Get(t.Context(), apiServer, metav1.GetOptions{}))(t)
	claim := must(c.Kube.CoreV1().PersistentVolumeClaims(harness.Namespace).Get(t.Context(), store,
		metav1.GetOptions{}))(t)
	volume := must(c.Kube.CoreV1().PersistentVolumes().Get(t.Context(), claim.Spec.VolumeName, metav1.GetOptions{}))(t)
	if volume.Spec.Local == nil {
		t.Fatalf("volume %s is no directory of a node", volume.Name)
	}
	return pod.Spec.NodeName, volume.Spec.Local.Path
}

// keepsTheNewVolume adds the PersistentVolumes that were created since before to the snapshot
// unpeered. They belong to the administrator, so unpeering does not delete them.
func keepsTheNewVolume(t *testing.T, c *harness.Cluster, before harness.Snapshot) {
	t.Helper()
	if unpeered[c] == nil {
		return
	}
	for key, object := range must(c.Snapshot(t.Context()))(t) {
		if _, old := before[key]; !old && key.Resource == "persistentvolumes" {
			unpeered[c][key] = object
		}
	}
}

// waitsForSnapshot waits until the API server's pod requests a snapshot.
func waitsForSnapshot(t *testing.T, c *harness.Cluster) {
	t.Helper()
	eventually(t, soon, "the API server of "+c.Name+" to request a snapshot",
		func(ctx context.Context) (bool, string, error) {
			pod, err := c.Kube.CoreV1().Pods(harness.Namespace).Get(ctx, apiServer, metav1.GetOptions{})
			if err != nil {
				return false, err.Error(), nil
			}
			running := pod.DeletionTimestamp == nil && len(pod.Status.InitContainerStatuses) == 1 &&
				pod.Status.InitContainerStatuses[0].State.Running != nil
			return running, show(pod.Status), nil
		})
}

// stored returns the UIDs of all objects in the federation store by name.
func stored(t *testing.T, c *harness.Cluster) map[string]string {
	t.Helper()
	client := must(dynamic.NewForConfig(c.Config))(t)
	all := map[string]string{}
	for _, resource := range must(c.Listable())(t) {
		if resource.Group != v1alpha1.GroupName {
			continue
		}
		for _, item := range must(client.Resource(resource).List(t.Context(), metav1.ListOptions{}))(t).Items {
			all[resource.Resource+" "+item.GetNamespace()+"/"+item.GetName()] = string(item.GetUID())
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s stores nothing", c.Name)
	}
	return all
}
