// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// uninstallIsRefusedWhilePeered uninstalls each cluster of a peering. Helm must fail with an error
// that names the peer, nothing may be deleted, and the peering must stay.
func uninstallIsRefusedWhilePeered(t *testing.T) {
	o := offloaded(t, remoteOnly)
	runReadyPod(t, o.namespace, "before", podSpec("serve"))
	for cluster, fragment := range map[*harness.Cluster]string{
		rome:  "ForeignCluster milan: it is a provider of this cluster (Established)",
		milan: "ForeignCluster rome: it is a consumer of this cluster (Established)",
	} {
		result := cluster.Helm(t.Context(), "uninstall", harness.Release, "--namespace", harness.Namespace, "--timeout", "2m")
		if result.Err == nil {
			t.Fatalf("%s is uninstalled although it is peered", cluster.Name)
		}
		if output := result.Stdout + result.Stderr; !strings.Contains(output, fragment) ||
			!strings.Contains(output, "kubectl delete foreignclusters") {
			t.Errorf("output of helm on %s:\n%s", cluster.Name, output)
		}
		if log := kubectl(t, cluster, "logs", "job/federation-uninstall", "--namespace",
			harness.Namespace); !strings.Contains(log, fragment) {
			t.Errorf("log of the Job on %s:\n%s", cluster.Name, log)
		}
		kubectl(t, cluster, "wait", "--for=condition=Available", "apiservice/v1alpha1.federation.liqo.io", "--timeout=110s")
		keepsRelease(t, cluster)
	}
	kubectl(t, rome, "wait", "--for=condition=Ready", "foreigncluster/milan", "--timeout=110s")
	runReadyPod(t, o.namespace, "after", podSpec("serve"))
}

// keepsRelease follows the steps of docs/operations.md that keep a release after its uninstallation
// was refused.
func keepsRelease(t *testing.T, c *harness.Cluster) {
	t.Helper()
	revises(t, c, "rollback", harness.Release, revision(t, c), "--wait")
}

// revision returns the number of the release's last revision.
func revision(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	result := c.Helm(t.Context(), "status", harness.Release, "--namespace", harness.Namespace, "--output", "json")
	var release struct{ Version int }
	if err := json.Unmarshal([]byte(result.Stdout), &release); err != nil {
		t.Fatalf("%v: %v", err, result.Err)
	}
	return strconv.Itoa(release.Version)
}

// uninstallationLeavesNothing uninstalls both clusters with uninstall.force while they are peered
// and partitioned. Each cluster must delete its objects after its timeout, and no node may keep an
// object of the product.
func uninstallationLeavesNothing(t *testing.T) {
	held := map[*harness.Cluster]map[string]string{}
	for _, c := range []*harness.Cluster{rome, milan} {
		held[c] = must(kernels(t.Context(), c))(t)
	}
	for _, c := range []*harness.Cluster{rome, milan} {
		setsValues(t, c, tunnelValues(t, c)...)
	}
	agreed(t)
	o := offloaded(t, remoteOnly)
	runDeployment(t, o.namespace, "web", 2, podSpec("serve"))
	cut(t)
	for _, cluster := range []*harness.Cluster{rome, milan} {
		setsValues(t, cluster, "uninstall.force=true", "uninstall.deadline=10s")
		before := time.Now()
		if err := cluster.Uninstall(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("uninstalling %s took %s", cluster.Name, time.Since(before).Round(time.Second))
		apiServiceGoesFirst(t, cluster, before)
		kernelsAre(t, cluster, held[cluster])
		if left := kubectl(t, cluster, "get", "secret/"+v1alpha1.WireGuardSecret, "configmap/"+v1alpha1.WireGuardConfigMap,
			"--namespace", harness.Namespace, "--ignore-not-found", "--output=name"); left != "" {
			t.Errorf("%s keeps the keys of the gateway: %s", cluster.Name, left)
		}
		if cluster == rome {
			namespace := must(rome.Kube.CoreV1().Namespaces().Get(t.Context(), o.namespace, metav1.GetOptions{}))(t)
			if _, ok := namespace.Labels[v1alpha1.LabelSchedulingEnabled]; ok {
				t.Errorf("the namespace still has the label %s", v1alpha1.LabelSchedulingEnabled)
			}
			kubectl(t, rome, "delete", "namespace", o.namespace)
		}
		kubectl(t, cluster, "delete", "namespace", harness.Namespace, "--ignore-not-found")
		isAsBefore(t, cluster, uninstalled[cluster], func(metav1.ObjectMeta) bool { return false })
	}
}

// cut partitions rome and milan until the test ends, unless they are healed before.
func cut(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := playground.Heal(ctx, "rome", "milan"); err != nil {
			t.Error(err)
		}
	})
	if err := playground.Partition(t.Context(), "rome", "milan"); err != nil {
		t.Fatal(err)
	}
}

// apiServiceGoesFirst checks that an uninstallation deletes the APIService before the server. An
// APIService without a server would block the deletion of namespaces.
func apiServiceGoesFirst(t *testing.T, c *harness.Cluster, since time.Time) {
	t.Helper()
	var deleted []string
	for _, r := range must(c.Requests(t.Context()))(t) {
		if r.Verb == "delete" && !r.Received.Before(since) && (r.Resource == "apiservices" || r.Resource == "statefulsets") {
			deleted = append(deleted, r.Resource)
		}
	}
	if len(deleted) < 2 || deleted[0] != "apiservices" {
		t.Errorf("the uninstallation on %s deleted in the order %v", c.Name, deleted)
	}
}
