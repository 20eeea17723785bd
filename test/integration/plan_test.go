// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/test/integration/framework"
)

// revisions returns the resourceVersions of all objects of the federation API, of its store, and of
// the objects in kube-apiserver that verbs write.
func revisions(t *testing.T, env *framework.Environment, namespace string) map[string]string {
	t.Helper()
	found := map[string]string{}
	client := admin(t)
	kinds, err := client.Discovery().ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds.APIResources {
		if !slices.Contains(kind.Verbs, "list") {
			continue
		}
		content, err := client.FederationV1alpha1().RESTClient().Get().Resource(kind.Name).Do(t.Context()).Raw()
		if err != nil {
			t.Fatal(err)
		}
		var list metav1.PartialObjectMetadataList
		decode(t, string(content), &list)
		found["the federation's"] = list.ResourceVersion
		for _, item := range list.Items {
			found[fmt.Sprintf("%s %s/%s", kind.Name, item.Namespace, item.Name)] = item.ResourceVersion
		}
	}
	offloaded, err := env.Kube.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found["namespace "+namespace] = offloaded.ResourceVersion
	secrets, err := env.Kube.CoreV1().Secrets(framework.InvitationNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets.Items {
		found["Secret "+secret.Name] = secret.ResourceVersion
	}
	return found
}

// written returns the difference between two results of revisions. It ignores an increase of the
// store's revision by one, because a compaction writes a record every five minutes.
func written(before, after map[string]string) string {
	var was, is int
	if _, err := fmt.Sscan(before["the federation's"]+" "+after["the federation's"], &was,
		&is); err == nil && is == was+1 {
		before = maps.Clone(before)
		before["the federation's"] = after["the federation's"]
	}
	return cmp.Diff(before, after)
}

// addProvider creates a ForeignCluster, a VirtualNode and a Node in a region until the test ends,
// and returns the name of the Node.
func addProvider(t *testing.T, env *framework.Environment, name, id, region string) string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	client := admin(t).FederationV1alpha1()
	if _, err := client.ForeignClusters().Create(ctx, &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ForeignClusterSpec{ClusterID: id, Outgoing: v1alpha1.PeeringEnabled, Server: "https://" + name +
			".example.org"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	peer := naming.PeerNamespace(name)
	if _, err := env.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: peer, Labels: map[string]string{v1alpha1.LabelForeignCluster: name, v1alpha1.LabelRole: v1alpha1.RolePeer},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	node := naming.NodeName(name)
	if _, err := client.VirtualNodes(peer).Create(ctx, &v1alpha1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.VirtualNodeSpec{ClusterID: id, NodeName: node,
			Resources: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := env.Kube.CoreV1().Nodes().Create(ctx,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{
			v1alpha1.LabelType: v1alpha1.TypeVirtualNode, v1alpha1.LabelRemoteClusterID: id, "region": region,
		}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Kube.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if err := client.VirtualNodes(peer).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if err := client.ForeignClusters().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := client.ForeignClusters().Patch(ctx, name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	})
	return node
}

func TestDryRunsAreAnsweredWithAPlanAndWriteNothing(t *testing.T) {
	env := framework.Get(t)
	namespace := env.MakeNamespace(t)
	north := addProvider(t, env, "trento", "6a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d", "north")
	addProvider(t, env, "lecce", "7a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d", "south")
	before := revisions(t, env, namespace)

	plan := func(path, body string) string {
		return env.Kubectl(t, body, "create", "--raw", path+"?dryRun=All", "-f", "-")
	}
	var peering v1alpha1.Peering
	decode(t, plan(peerPath("savona"),
		string(encode(fields{"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "Peering",
			"spec": fields{"clusterID": genoaID, "server": "https://savona.example.org", "token": peerToken}}))), &peering)
	if got := peering.Status.Plan; got == nil || got.Action != v1alpha1.PlanCreate ||
		got.PeerNamespace != "liqo-peer-savona" || got.VirtualNode != "liqo-savona" || len(got.Unknown) == 0 ||
		len(got.Conflicts) > 0 {
		t.Errorf("the plan is %+v", got)
	}
	var offload v1alpha1.Offload
	path := "/apis/federation.liqo.io/v1alpha1/namespaces/" + namespace + "/namespaceoffloadings/offloading/offload"
	decode(t, plan(path, string(encode(fields{"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "Offload",
		"spec": fields{
			"clusterSelector": fields{"nodeSelectorTerms": []any{fields{"matchExpressions": []any{fields{"key": "region",
				"operator": "In", "values": []string{"north"}}}}}}}}))), &offload)
	if offload.Status.Plan == nil {
		t.Fatal("the answer has no plan")
	}
	chosen := map[string]string{}
	for _, cluster := range offload.Status.Plan.Clusters {
		if cluster.Selected != (cluster.Message == "") || cluster.Selected != (cluster.NamespaceName != "") {
			t.Errorf("the plan for %s is %+v", cluster.Name, cluster)
		}
		if cluster.Name == "trento" || cluster.Name == "lecce" {
			chosen[cluster.Name] = string(cluster.Action)
		}
	}
	if diff := cmp.Diff(map[string]string{"trento": "Create", "lecce": "None"}, chosen); diff != "" {
		t.Errorf("planned changes of the clusters (-want +got):\n%s", diff)
	}
	if diff := written(before, revisions(t, env, namespace)); diff != "" {
		t.Errorf("a dry run wrote something (-before +after):\n%s", diff)
	}

	offloadings := admin(t).FederationV1alpha1().NamespaceOffloadings(namespace)
	if _, err := offloadings.CreateOffload(t.Context(), "offloading", &v1alpha1.Offload{},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer deleteNow(t, offloadingPath(namespace))
	env.ServiceAccount(t, namespace, "default")
	if _, err := env.Kube.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "remote"},
		Spec:       corev1.PodSpec{NodeName: north, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before = revisions(t, env, namespace)
	patch := `{"spec":{"enforcement":"Evict",` +
		`"clusterSelector":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"region","operator":"In",` +
		`"values":["south"]}]}]}}}`
	decode(t, env.Kubectl(t, "", "patch", "nsof", "offloading", "--namespace="+namespace, "--subresource=offload",
		"--type=merge", "--dry-run=server", "--output=json", "--patch", patch), &offload)
	leaving := slices.ContainsFunc(offload.Status.Plan.Clusters, func(cluster v1alpha1.PlannedCluster) bool {
		return cluster.Name == "trento" && cluster.Action == v1alpha1.PlanDelete &&
			strings.Contains(cluster.Message, "No virtual node")
	})
	if offload.Status.Plan.Action != v1alpha1.PlanChange || offload.Status.Plan.EvictedPods != 1 || !leaving {
		t.Errorf("the plan is %+v", offload.Status.Plan)
	}
	decode(t, env.Kubectl(t, "", "delete", "--raw", path+"?dryRun=All"), &offload)
	if offload.Status.Plan.Action != v1alpha1.PlanDelete || offload.Status.Plan.EvictedPods != 1 {
		t.Errorf("the plan is %+v", offload.Status.Plan)
	}
	if diff := written(before, revisions(t, env, namespace)); diff != "" {
		t.Errorf("a dry run wrote something (-before +after):\n%s", diff)
	}
	stored, err := offloadings.Get(t.Context(), "offloading", metav1.GetOptions{})
	if err != nil || stored.DeletionTimestamp != nil {
		t.Errorf("the offloading is %+v, %v", stored, err)
	}
}

func decode(t *testing.T, output string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(output), into); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}
