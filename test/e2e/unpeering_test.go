// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// unoffloadingMovesPodsToTheConsumer unoffloads a namespace. Its pods must be replaced by pods on
// rome, within their PodDisruptionBudget.
func unoffloadingMovesPodsToTheConsumer(t *testing.T) {
	const replicas = 3
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
	runBudgeted(t, o.namespace, "web", replicas)
	kubectl(t, rome, "rollout", "status", "deployment/web", "-n", o.namespace, "--timeout=110s")
	least := leastAvailable(t, rome.Kube, o.namespace, "web")
	kubectl(t, rome, "delete", "--raw",
		fmt.Sprintf("%snamespaces/%s/namespaceoffloadings/offloading/offload", group, o.namespace))
	eventually(t, soon, "the offloading to be gone", func(ctx context.Context) (bool, string, error) {
		_, err := rome.Federation.FederationV1alpha1().NamespaceOffloadings(o.namespace).Get(ctx,
			v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
		return gone(err)
	})
	eventually(t, soon, "the remote namespace to be deleted", func(ctx context.Context) (bool, string, error) {
		_, err := milan.Kube.CoreV1().Namespaces().Get(ctx, o.remote, metav1.GetOptions{})
		return gone(err)
	})
	for _, pod := range podsReady(t, rome, o.namespace, "app=web", replicas) {
		if pod.Spec.NodeName == virtualNode {
			t.Errorf("pod %s is on %s, although its namespace is unoffloaded", pod.Name, virtualNode)
		}
	}
	if got := least(); got < replicas-1 {
		t.Errorf("only %d of %d replicas were available at a time, although the budget allows one disruption", got, replicas)
	}
	namespace := must(rome.Kube.CoreV1().Namespaces().Get(t.Context(), o.namespace, metav1.GetOptions{}))(t)
	if _, ok := namespace.Labels[v1alpha1.LabelSchedulingEnabled]; ok {
		t.Errorf("the namespace still has the label %s", v1alpha1.LabelSchedulingEnabled)
	}
}

// deletedNamespacesLeaveNothing deletes an offloaded namespace that has offloaded pods.
func deletedNamespacesLeaveNothing(t *testing.T) {
	o := offloaded(t, remoteOnly)
	runDeployment(t, o.namespace, "web", 2, podSpec("serve"))
	kubectl(t, rome, "delete", "namespace", o.namespace, "--timeout=110s")
	eventually(t, soon, "the remote namespace to be deleted", func(ctx context.Context) (bool, string, error) {
		_, err := milan.Kube.CoreV1().Namespaces().Get(ctx, o.remote, metav1.GetOptions{})
		return gone(err)
	})
}

// preferringTheVirtualNode returns the spec of a pod that prefers the virtual node.
func preferringTheVirtualNode() corev1.PodSpec {
	spec := podSpec("serve")
	spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: v1alpha1.LabelType, Operator: corev1.NodeSelectorOpIn, Values: []string{v1alpha1.TypeVirtualNode},
			}}},
		}}}}
	return spec
}

// tokenNeverLogged searches logs, objects, events and files of the nodes for the tokens of all
// invitations and identities of this run.
func tokenNeverLogged(t *testing.T) {
	tokens.Lock()
	defer tokens.Unlock()
	if len(tokens.all) == 0 {
		t.Fatal("no invitation was issued in this run")
	}
	for _, cluster := range []*harness.Cluster{rome, milan} {
		found := 0
		err := cluster.EachLog(t.Context(), func(name string, log io.Reader) error {
			text, err := io.ReadAll(log)
			found++
			holdsNoToken(t, "the log of "+name+" on "+cluster.Name, text)
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if found < 4 {
			t.Errorf("only %d logs were found on %s", found, cluster.Name)
		}
		client := must(dynamic.NewForConfig(cluster.Config))(t)
		for _, resource := range must(cluster.Listable())(t) {
			list, err := client.Resource(resource).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range list.Items {
				text := must(item.MarshalJSON())(t)
				holdsNoToken(t, fmt.Sprintf("%s %s/%s on %s", resource.Resource, item.GetNamespace(), item.GetName(), cluster.Name),
					text)
			}
		}
	}
	// The directory of the playground instance has the logs of the nodes' programs and the audit
	// logs.
	err := filepath.WalkDir(playground.Dir(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || filepath.Ext(path) != ".log" {
			return err
		}
		text, err := os.ReadFile(path)
		holdsNoToken(t, path, text)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// holdsNoToken fails the test if a text contains one of the tokens. tokens must be locked.
func holdsNoToken(t *testing.T, where string, text []byte) {
	t.Helper()
	for _, token := range tokens.all {
		// The signature of a token is its secret part.
		signature := []byte(token[strings.LastIndexByte(token, '.')+1:])
		if bytes.Contains(text, signature) || bytes.Contains(text, []byte(base64.StdEncoding.EncodeToString([]byte(token)))) {
			t.Errorf("%s holds the token of an invitation or an identity", where)
		}
	}
}

// unpeeringLeavesNothing unpeers with the verb peer. Afterwards both clusters must have the same
// objects as before they were peered.
func unpeeringLeavesNothing(t *testing.T) {
	o := offloaded(t, remoteOnly)
	runDeployment(t, o.namespace, "web", 2, podSpec("serve"))
	kubectl(t, rome, "delete", "--raw", group+"foreignclusters/milan/peer")
	eventually(t, soon, "ForeignCluster milan to be deleted", func(ctx context.Context) (bool, string, error) {
		fc, err := rome.Federation.FederationV1alpha1().ForeignClusters().Get(ctx, "milan", metav1.GetOptions{})
		if err == nil {
			return false, show(fc.Status), nil
		}
		return gone(err)
	})
	if _, err := rome.Kube.CoreV1().Nodes().Get(t.Context(), virtualNode,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the virtual node is left: %v", err)
	}
	// Unpeering does not delete the offloaded namespace, which belongs to a user.
	if err := rome.Kube.CoreV1().Namespaces().Delete(t.Context(), o.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	deletesTokens(t)
	for _, cluster := range []*harness.Cluster{rome, milan} {
		isUnpeered(t, cluster)
	}
}

// deletesTokens deletes the used PeeringTokens, which only administrators delete.
func deletesTokens(t *testing.T) {
	t.Helper()
	client := milan.Federation.FederationV1alpha1().PeeringTokens()
	if err := client.Delete(t.Context(), "for-rome", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// isUnpeered waits until a cluster has the same objects as before it was peered. Secrets of newer
// revisions of the Helm release are ignored.
func isUnpeered(t *testing.T, c *harness.Cluster) {
	t.Helper()
	isAsBefore(t, c, unpeered[c], func(object metav1.ObjectMeta) bool {
		return object.Labels["app.kubernetes.io/managed-by"] == "Helm" || object.Labels["owner"] == "helm"
	})
}

// isAsBefore waits until all objects of a cluster are in before, are expected, or are owned by such
// objects.
func isAsBefore(t *testing.T, c *harness.Cluster, before harness.Snapshot, expected func(metav1.ObjectMeta) bool) {
	t.Helper()
	if before == nil {
		t.Fatalf("the previous state of %s is not recorded", c.Name)
	}
	eventually(t, soon, c.Name+" to have its former objects", func(ctx context.Context) (bool, string, error) {
		now, err := c.Snapshot(ctx)
		if err != nil {
			return false, "", err
		}
		known := maps.Clone(before)
		for key, object := range now {
			if expected(object) {
				known[key] = object
			}
		}
		left := harness.Added(known, now)
		return len(left) == 0, "left behind: " + strings.Join(left, ", "), nil
	})
}
