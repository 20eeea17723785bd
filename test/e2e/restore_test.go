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

// restoresTheStore follows the procedure of docs/operations.md on both
// clusters: take a snapshot, lose the volume, restore. The peering and what
// runs do not notice.
func restoresTheStore(t *testing.T) {
	o := serving(t)
	run := containerRun(podReady(t, milan, o.twin, "web"))
	for _, cluster := range []*harness.Cluster{rome, milan} {
		// What goes between snapshot and restore would be back.
		eventually(t, soon, "no namespace to be terminating on "+cluster.Name, func(ctx context.Context) (bool, string, error) {
			namespaces, err := cluster.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, "", err
			}
			going := slices.DeleteFunc(namespaces.Items, func(n corev1.Namespace) bool { return n.DeletionTimestamp == nil })
			return len(going) == 0, fmt.Sprintf("%d are", len(going)), nil
		})
		all := must(cluster.Snapshot(t.Context()))(t)
		before := stored(t, cluster)
		taken := cluster.Kubectl(t.Context(), "exec", apiServer, "--namespace", harness.Namespace, "--", "federation-apiserver", "snapshot")
		if taken.Err != nil {
			t.Fatal(taken.Err)
		}
		helmUpgrade(t, cluster, "apiserver.restore=true")
		waitsForSnapshot(t, cluster, "")
		claim := must(cluster.Kube.CoreV1().PersistentVolumeClaims(harness.Namespace).Get(t.Context(), store, metav1.GetOptions{}))(t)
		kubectl(t, cluster, "delete", "pvc", store, "--namespace", harness.Namespace, "--wait=false")
		kubectl(t, cluster, "delete", "pod", apiServer, "--namespace", harness.Namespace)
		waitsForSnapshot(t, cluster, string(claim.UID))
		if err := cluster.KubectlInput(t.Context(), taken.Stdout, "attach", apiServer, "--namespace", harness.Namespace, "--container", "restore", "--stdin").Err; err != nil {
			t.Fatal(err)
		}
		podReady(t, cluster, harness.Namespace, apiServer)
		helmUpgrade(t, cluster, "apiserver.restore=false", "--wait", "--timeout", "3m")
		kubectl(t, cluster, "wait", "--for=condition=Available", "apiservice/v1alpha1.federation.liqo.io", "--timeout=60s")
		if diff := cmp.Diff(before, stored(t, cluster)); diff != "" {
			t.Errorf("what %s stores (-before +after):\n%s", cluster.Name, diff)
		}
		keepsTheNewVolume(t, cluster, all)
	}
	kubectl(t, rome, "wait", "foreigncluster/milan", "--for=condition=Ready", "--timeout=60s")
	runReadyPod(t, o.namespace, "after", podSpec("serve"))
	if now := containerRun(podReady(t, milan, o.twin, "web")); now != run {
		t.Errorf("the pod was disturbed: %s before, %s after", run, now)
	}
}

// keepsTheNewVolume notes that the volume, and the revisions of the release, are
// the administrator's: they were not there when the clusters met.
func keepsTheNewVolume(t *testing.T, c *harness.Cluster, before harness.Snapshot) {
	t.Helper()
	if unpeered[c] == nil {
		return
	}
	for key, object := range must(c.Snapshot(t.Context()))(t) {
		revision := key.Resource == "secrets" && strings.HasPrefix(key.Name, "sh.helm.release.")
		if _, old := before[key]; !old && (revision || key.Resource == "persistentvolumes") {
			unpeered[c][key] = object
		}
	}
}

// helmUpgrade changes one value of the release.
func helmUpgrade(t *testing.T, c *harness.Cluster, value string, more ...string) {
	t.Helper()
	args := append([]string{"upgrade", harness.Release, filepath.Join(playground.Root, "artifacts", "chart"),
		"--namespace", harness.Namespace, "--reuse-values", "--set", value}, more...)
	if err := c.Helm(t.Context(), args...).Err; err != nil {
		t.Fatal(err)
	}
}

// waitsForSnapshot waits until the API server's pod asks for a snapshot, on
// another volume than that of an old claim.
func waitsForSnapshot(t *testing.T, c *harness.Cluster, oldClaim string) {
	t.Helper()
	eventually(t, soon, "the API server of "+c.Name+" to ask for a snapshot", func(ctx context.Context) (bool, string, error) {
		claim, err := c.Kube.CoreV1().PersistentVolumeClaims(harness.Namespace).Get(ctx, store, metav1.GetOptions{})
		if err != nil {
			return false, err.Error(), nil
		}
		pod, err := c.Kube.CoreV1().Pods(harness.Namespace).Get(ctx, apiServer, metav1.GetOptions{})
		if err != nil {
			return false, err.Error(), nil
		}
		asks := string(claim.UID) != oldClaim && pod.DeletionTimestamp == nil &&
			len(pod.Status.InitContainerStatuses) == 1 && pod.Status.InitContainerStatuses[0].State.Running != nil
		return asks, fmt.Sprintf("claim %s; %s", claim.UID, show(pod.Status)), nil
	})
}

// stored is the UID of every object of the federation.
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
