// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

const (
	group         = "/apis/federation.liqo.io/v1alpha1/"
	regionLabel   = "topology.liqo.io/region"
	peerNamespace = "liqo-peer-milan"
	tenantOfRome  = "liqo-tenant-rome"
)

var (
	// unpeered has a snapshot of each cluster before the clusters were peered.
	unpeered = map[*harness.Cluster]harness.Snapshot{}
	// tokens has the tokens of all invitations and identities of this run.
	tokens struct {
		sync.Mutex
		all []string
	}
)

func installsOnBothClusters(t *testing.T) {
	installs(t, rome, "centre")
	installs(t, milan, "north")
	for _, cluster := range []*harness.Cluster{rome, milan} {
		isInstalled(t, cluster)
		for _, state := range []string{"create", "condition=RangesKnown"} {
			kubectl(t, cluster, "wait", "--for="+state, "clusterinfo/local", "--timeout=110s")
		}
		got := strings.Fields(kubectl(t, cluster, "get", "liqo", "--all-namespaces", "--output=name"))
		if diff := cmp.Diff([]string{"clusterinfo.federation.liqo.io/local"}, got); diff != "" &&
			uninstalled[cluster] != nil {
			t.Errorf("objects of a fresh installation on %s (-want +got):\n%s", cluster.Name, diff)
		}
	}
	for _, cluster := range []*harness.Cluster{rome, milan} {
		placesPods(t, cluster)
	}
}

// placesPods waits until the admission policy that places pods is in force. kube-apiserver needs up
// to 30 seconds to discover the kind of the policy's parameters, and refuses pods of offloaded
// namespaces until then.
func placesPods(t *testing.T, c *harness.Cluster) {
	t.Helper()
	namespace := namespaceOn(t, c)
	kubectl(t, c, "label", "namespace", namespace, v1alpha1.LabelSchedulingEnabled+"=true")
	eventually(t, soon, "placement to be enforced on "+c.Name, func(ctx context.Context) (bool, string, error) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "nowhere"}, Spec: podSpec()}
		_, err := c.Kube.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return false, "a pod is admitted", nil
		}
		return strings.Contains(err.Error(), "no params found"), err.Error(), nil
	})
	// The step that needs this state may compare the clusters with a snapshot that it takes later.
	kubectl(t, c, "delete", "namespace", namespace, "--timeout="+soon.String())
}

// installs installs the product on a cluster, with a region label and with values in the format
// "key=value". It waits until the API is served.
func installs(t *testing.T, c *harness.Cluster, region string, values ...string) {
	t.Helper()
	// Helm splits keys at dots that are not escaped.
	label := "clusterLabels." + strings.ReplaceAll(regionLabel, ".", `\.`) + "=" + region
	if err := c.Install(t.Context(), append(values, label)...); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "the API of the federation on "+c.Name, func(context.Context) (bool, string, error) {
		list, err := c.Kube.Discovery().ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
		if err != nil {
			return false, "", err
		}
		served := slices.ContainsFunc(list.APIResources,
			func(r metav1.APIResource) bool { return r.Name == "foreignclusters/peer" })
		return served, show(list.APIResources), nil
	})
}

// isInstalled runs "helm test".
func isInstalled(t *testing.T, c *harness.Cluster) {
	t.Helper()
	result := c.Helm(t.Context(), "test", harness.Release, "--namespace", harness.Namespace, "--timeout=90s")
	if result.Err != nil {
		t.Fatalf("on %s: %v\n%s", c.Name, result.Err, result.Stdout)
	}
	if !strings.Contains(result.Stdout, "Phase:          Succeeded") {
		t.Errorf("helm test on %s reports no success:\n%s", c.Name, result.Stdout)
	}
}

// peersByInvitation peers rome as the consumer with milan as the provider, and waits until the
// virtual node is Ready.
func peersByInvitation(t *testing.T) {
	for _, cluster := range []*harness.Cluster{rome, milan} {
		unpeered[cluster] = must(cluster.Snapshot(t.Context()))(t)
	}
	peers(t, rome, milan)
	peeringsAre(t, rome, "Established", "None", "Established")
	peeringsAre(t, milan, "None", "Established", "Established")
	isPrinted(t, milan, "get peeringtoken for-rome -o custom-columns=USED:.status.used", "USED\ntrue\n")
	nodeIsReady(t, rome, virtualNode)
}

// peers peers a consumer with a provider and waits until the peering is established.
func peers(t *testing.T, consumer, provider *harness.Cluster) {
	t.Helper()
	accepts(t, consumer, provider)
	result := consumer.Kubectl(t.Context(), "wait", "foreigncluster/"+provider.Name, "--for=condition=Ready",
		"--timeout=110s")
	if result.Err != nil {
		t.Fatalf("%v\n%s", result.Err, kubectl(t, consumer, "get", "foreigncluster", provider.Name, "-o", "yaml"))
	}
}

// accepts creates an invitation on the provider and accepts it on the consumer, by kubectl commands
// only.
func accepts(t *testing.T, consumer, provider *harness.Cluster) {
	t.Helper()
	token := "for-" + consumer.Name
	// A PeeringToken of an earlier peering is used up.
	kubectl(t, provider, "delete", "peeringtoken", token, "--ignore-not-found")
	// A provider that is a consumer of the other cluster accepts only invitations for this cluster.
	system := must(consumer.Kube.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{}))(t)
	result := provider.KubectlInput(t.Context(),
		fmt.Sprintf(`{"apiVersion":"federation.liqo.io/v1alpha1","kind":"PeeringToken","metadata":{"name":%q},`+
			`"spec":{"consumerClusterID":%q}}`, token, system.UID),
		"create", "-f", "-")
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	invitation := invitationFor(t, provider, token)
	peering, err := json.Marshal(invitation.Status.Peering)
	if err != nil {
		t.Fatal(err)
	}
	result = consumer.KubectlInput(t.Context(), string(peering), "create", "--raw",
		group+"foreignclusters/"+provider.Name+"/peer", "-f", "-")
	if result.Err != nil {
		// Error messages may contain the token.
		t.Fatalf("the verb peer ended with %d: %s", result.Code,
			strings.ReplaceAll(result.Stderr, invitation.Status.Peering.Spec.Token, "TOKEN"))
	}
	if strings.Contains(result.Stdout, invitation.Status.Peering.Spec.Token) {
		t.Error("the answer of the verb peer shows the token")
	}
}

// peeringsAre waits until kubectl prints these phases of the ForeignCluster of the other cluster.
func peeringsAre(t *testing.T, c *harness.Cluster, outgoing, incoming, authentication string) {
	t.Helper()
	other := otherThan(c)
	isPrinted(t, c, "get fc "+other.Name,
		fmt.Sprintf("%[1]s   OUTGOING PEERING   INCOMING PEERING   NETWORKING   AUTHENTICATION   AGE\n"+
			"%[2]s   %-16[3]s   %-16[4]s   None         %-14[5]s   …\n",
			fmt.Sprintf("%-*s", len(other.Name), "NAME"), other.Name,
			outgoing, incoming, authentication))
}

func otherThan(c *harness.Cluster) *harness.Cluster {
	if c == rome {
		return milan
	}
	return rome
}

// invitationFor returns the invitation of a PeeringToken.
func invitationFor(t *testing.T, provider *harness.Cluster, token string) *v1alpha1.Invitation {
	t.Helper()
	result := provider.KubectlInput(t.Context(), `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"Invitation"}`,
		"create", "--raw", group+"peeringtokens/"+token+"/invitation", "-f", "-")
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	invitation := &v1alpha1.Invitation{}
	if err := json.Unmarshal([]byte(result.Stdout), invitation); err != nil {
		t.Fatal(err)
	}
	if invitation.Status.Peering == nil || invitation.Status.Peering.Spec.Token == "" {
		t.Fatalf("the invitation of %s carries no peering with a token", token)
	}
	tokens.Lock()
	defer tokens.Unlock()
	tokens.all = append(tokens.all, invitation.Status.Peering.Spec.Token)
	return invitation
}

// isPrinted waits until the output of a kubectl command equals want. A last field "…" of a line
// matches any age.
func isPrinted(t *testing.T, c *harness.Cluster, command, want string) {
	t.Helper()
	eventually(t, soon, "\"kubectl "+command+"\" on "+c.Name+" to print\n"+want,
		func(ctx context.Context) (bool, string, error) {
			result := c.Kubectl(ctx, strings.Fields(command)...)
			return samePrint(result.Stdout, want), "\n" + result.Stdout, result.Err
		})
}

func samePrint(got, want string) bool {
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	return slices.EqualFunc(gotLines, wantLines, func(got, want string) bool {
		start, anyAge := strings.CutSuffix(want, "…")
		if !anyAge {
			return got == want
		}
		age, ok := strings.CutPrefix(got, start)
		return ok && age != "" && !strings.Contains(age, " ")
	})
}

func virtualNodeRepresentsTheProvider(t *testing.T) {
	var node *corev1.Node
	eventually(t, soon, "node "+virtualNode+" to be Ready", func(ctx context.Context) (bool, string, error) {
		var err error
		if node, err = rome.Kube.CoreV1().Nodes().Get(ctx, virtualNode, metav1.GetOptions{}); err != nil {
			return false, "", err
		}
		return nodeReady(node), show(node.Status.Conditions), nil
	})
	id := must(milan.ID(t.Context()))(t)
	wantLabels := map[string]string{
		"liqo.io/type":                  "virtual-node",
		"liqo.io/remote-cluster-id":     id,
		regionLabel:                     "north",
		"node-role.kubernetes.io/agent": "",
	}
	gotLabels := map[string]string{}
	for key := range wantLabels {
		if value, ok := node.Labels[key]; ok {
			gotLabels[key] = value
		}
	}
	if diff := cmp.Diff(wantLabels, gotLabels); diff != "" {
		t.Errorf("labels of the node (-want +got):\n%s", diff)
	}
	taint := corev1.Taint{Key: "virtual-node.liqo.io/not-allowed", Value: "true", Effect: corev1.TaintEffectNoExecute}
	if !slices.Contains(node.Spec.Taints, taint) {
		t.Errorf("taints %v lack %v", node.Spec.Taints, taint)
	}
	if row := kubectl(t, rome, "get", "node", virtualNode); !strings.Contains(row, " agent ") {
		t.Errorf("kubectl does not print the role agent:\n%s", row)
	}

	// 90 is the default of the chart value.
	offersPercent(t, 90)
}

// offersPercent waits until the virtual node has this percentage of the resources of milan's
// schedulable nodes.
func offersPercent(t *testing.T, percent int64) {
	t.Helper()
	takeWork := slices.DeleteFunc(realNodes(t, milan), func(n corev1.Node) bool { return len(n.Spec.Taints) > 0 })
	hasPercent(t, virtualNode, percent, takeWork...)
}

// hasPercent waits until a virtual node has this percentage of the resources of the nodes, rounded
// down to the unit of each resource.
func hasPercent(t *testing.T, virtual string, percent int64, nodes ...corev1.Node) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("node %s to have %d %% of milan", virtual, percent),
		func(ctx context.Context) (bool, string, error) {
			node, err := rome.Kube.CoreV1().Nodes().Get(ctx, virtual, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			for name, unit := range map[corev1.ResourceName]int64{corev1.ResourceCPU: 1, corev1.ResourceMemory: 1000 << 20,
				corev1.ResourcePods: 1000} {
				var whole resource.Quantity
				for _, n := range nodes {
					whole.Add(n.Status.Allocatable[name])
				}
				want := whole.MilliValue() * percent / 100
				for list, got := range map[string]corev1.ResourceList{"capacity": node.Status.Capacity,
					"allocatable": node.Status.Allocatable} {
					have := got[name]
					if d := want - have.MilliValue(); d < 0 || d >= unit {
						return false, fmt.Sprintf("%s of %s is %s of %s", list, name, have.String(), whole.String()), nil
					}
				}
			}
			return true, "", nil
		})
}

func nodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func tables(t *testing.T) {
	for _, test := range []struct {
		cluster *harness.Cluster
		command string
		// want has the expected fields of each line. "*" matches any field.
		want [][]string
	}{
		{rome, "get rr -n " + peerNamespace, [][]string{{"NAME", "LOCAL", "STATUS", "CPU", "MEMORY", "PODS", "AGE"}, {"rome", "true", "Accepted", "*", "*", "*", "*"}}},
		{milan, "get rr -n " + tenantOfRome, [][]string{{"NAME", "LOCAL", "STATUS", "CPU", "MEMORY", "PODS", "AGE"}, {"rome", "false", "Accepted", "*", "*", "*", "*"}}},
		{rome, "get ro -n " + peerNamespace, [][]string{{"NAME", "LOCAL", "STATUS", "CPU", "MEMORY", "PODS", "AGE"}, {"milan", "false", "Accepted", "*", "*", "*", "*"}}},
		{milan, "get ro -n " + tenantOfRome, [][]string{{"NAME", "LOCAL", "STATUS", "CPU", "MEMORY", "PODS", "AGE"}, {"milan", "true", "Accepted", "*", "*", "*", "*"}}},
		{rome, "get vn -n " + peerNamespace, [][]string{{"NAME", "CLUSTER", "NODE", "READY", "SINCE", "PODS", "CPU", "MEMORY", "AGE"}, {"milan", "*", virtualNode, "True", "*", "*", "*", "*", "*"}}},
	} {
		t.Run(test.cluster.Name+" "+test.command, func(t *testing.T) {
			eventually(t, soon, show(test.want), func(ctx context.Context) (bool, string, error) {
				result := test.cluster.Kubectl(ctx, strings.Fields(test.command)...)
				lines := strings.Split(strings.TrimSpace(result.Stdout), "\n")
				same := slices.EqualFunc(lines, test.want, func(line string, want []string) bool {
					return slices.EqualFunc(strings.Fields(line), want,
						func(got, want string) bool { return want == "*" || strings.EqualFold(got, want) })
				})
				return same, "\n" + result.Stdout, result.Err
			})
		})
	}
}
