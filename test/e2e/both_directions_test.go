// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/harness"
)

// peersBothWays creates and ends each direction of the peering while the other direction is in use,
// and checks that pods are not disturbed. Rome issues token identities.
func peersBothWays(t *testing.T) {
	fromRome := deploysOnProvider(t, rome)
	before := fromRome.traces(t)
	setsValues(t, rome, "identity.mode=Token")
	// The next step expects that milan is not a consumer of rome, also if this step fails.
	t.Cleanup(func() {
		collect(t)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*soon)
		defer cancel()
		milan.Kubectl(ctx, "delete", "--raw", group+"foreignclusters/rome/peer")
		rome.Kubectl(ctx, "delete", "peeringtoken", "for-milan", "--ignore-not-found")
	})

	peers(t, milan, rome)
	peeringsAre(t, rome, "Established", "Established", "Established")
	peeringsAre(t, milan, "Established", "Established", "Established")
	authenticatesByServiceAccount(t)
	fromMilan := deploysOnProvider(t, milan)
	servesLogsAndExec(t, fromMilan)
	fromRome.isUndisturbed(t, before, "peering milan with rome")
	for _, provider := range []*harness.Cluster{rome, milan} {
		seesOnlyItsTenantNamespace(t, provider)
	}

	standing := fromMilan.traces(t)
	unpeers(t, rome)
	peeringsAre(t, rome, "None", "Established", "Established")
	peeringsAre(t, milan, "Established", "None", "Established")
	fromMilan.isUndisturbed(t, standing, "unpeering rome from milan")
	peers(t, rome, milan)
	peeringsAre(t, rome, "Established", "Established", "Established")
	fromMilan.isUndisturbed(t, standing, "peering rome with milan again")

	// The Deployment has new pods since rome was peered with milan again.
	before = fromRome.traces(t)
	unpeers(t, milan)
	peeringsAre(t, milan, "None", "Established", "Established")
	peeringsAre(t, rome, "Established", "None", "Established")
	fromRome.isUndisturbed(t, before, "unpeering milan from rome")
	setsValues(t, rome, "identity.mode=Auto")
}

// unpeers requests the end of the outgoing peering of a cluster.
func unpeers(t *testing.T, consumer *harness.Cluster) {
	t.Helper()
	kubectl(t, consumer, "delete", "--raw", group+"foreignclusters/"+otherThan(consumer).Name+"/peer")
}

// authenticatesByServiceAccount checks that milan's identity on rome is a ServiceAccount of its
// tenant namespace, and not a certificate.
func authenticatesByServiceAccount(t *testing.T) {
	t.Helper()
	secret := must(milan.Kube.CoreV1().Secrets("liqo-peer-rome").Get(t.Context(), "identity", metav1.GetOptions{}))(t)
	if len(secret.Data["tls.crt"]) > 0 || len(secret.Data["token"]) == 0 {
		t.Error("milan has a certificate of rome, or no token")
	}
	// The token of the identity is secret, so tokenNeverLogged searches for it as well.
	tokens.Lock()
	tokens.all = append(tokens.all, string(secret.Data["token"]))
	tokens.Unlock()
	must(rome.Kube.CoreV1().ServiceAccounts("liqo-tenant-milan").Get(t.Context(), string(secret.Data["account"]),
		metav1.GetOptions{}))(t)
	for _, request := range must(rome.Federation.FederationV1alpha1().IdentityRequests().List(t.Context(),
		metav1.ListOptions{}))(t).Items {
		if len(request.Status.Certificate) > 0 {
			t.Errorf("rome signed the certificate of %s", request.Name)
		}
	}
}

// seesOnlyItsTenantNamespace uses the identity of a consumer at its provider, which is itself a
// consumer of that cluster. The provider has to refuse access to the objects of its own outgoing
// peering.
func seesOnlyItsTenantNamespace(t *testing.T, provider *harness.Cluster) {
	t.Helper()
	consumer := otherThan(provider)
	identity := identityAt(t, provider)
	requests := must(versioned.NewForConfig(identity))(t).FederationV1alpha1().ResourceRequests("liqo-tenant-" +
		consumer.Name)
	if list := must(requests.List(t.Context(), metav1.ListOptions{}))(t); len(list.Items) != 1 {
		t.Errorf("%s has %d resource requests on %s, want 1", consumer.Name, len(list.Items), provider.Name)
	}
	all := everyAttempt(t, provider, "liqo-peer-"+consumer.Name)
	if len(all) < 100 {
		t.Fatalf("only %d requests were found to try", len(all))
	}
	areForbidden(t, identity, all)
}

// work is a Deployment of two pods in an offloaded namespace. The pods run on the provider.
type work struct {
	consumer, provider *harness.Cluster
	offload
}

// deploysOnProvider offloads a namespace and creates a Deployment of a web server in it, by kubectl
// commands only.
func deploysOnProvider(t *testing.T, consumer *harness.Cluster) work {
	t.Helper()
	w := work{consumer: consumer, provider: otherThan(consumer), offload: offload{namespace: namespaceOn(t, consumer)}}
	result := consumer.KubectlInput(t.Context(),
		`{"apiVersion":"federation.liqo.io/v1alpha1","kind":"Offload","spec":{"podOffloadingStrategy":"Remote"}}`,
		"create", "--raw", fmt.Sprintf("%snamespaces/%s/namespaceoffloadings/offloading/offload", group, w.namespace), "-f",
		"-")
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	eventually(t, soon, "the namespace to be offloaded", func(ctx context.Context) (bool, string, error) {
		result := consumer.Kubectl(ctx, "get", "nsof", "-n", w.namespace, "--no-headers")
		fields := strings.Fields(result.Stdout)
		if len(fields) != 7 || fields[3] != "Ready" {
			return false, result.Stdout, result.Err
		}
		w.remote = fields[5]
		return true, "", nil
	})
	isApplied(t, consumer, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: %s}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: web
        image: %s
        imagePullPolicy: Never
        args: [serve]
        ports: [{containerPort: 8080}]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
`, w.namespace, testerImage))
	kubectl(t, consumer, "rollout", "status", "deployment/web", "-n", w.namespace, "--timeout=110s")

	nodes := must(w.provider.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t)
	own := func(name string) bool {
		return slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool {
			return n.Name == name && n.Labels[v1alpha1.LabelType] != v1alpha1.TypeVirtualNode
		})
	}
	for _, pod := range podsReady(t, consumer, w.namespace, "app=web", 2) {
		if pod.Spec.NodeName != w.node() {
			t.Errorf("pod %s is on %s, want %s", pod.Name, pod.Spec.NodeName, w.node())
		}
		remote := podReady(t, w.provider, w.remote, pod.Name)
		if !own(remote.Spec.NodeName) {
			t.Errorf("on %s, pod %s is on %q, which is no node of its own", w.provider.Name, pod.Name, remote.Spec.NodeName)
		}
	}
	pods := kubectl(t, consumer, "get", "pods", "-n", w.namespace, "-o", "wide")
	if strings.Count(pods, w.node()) != 2 || strings.Count(pods, "Running") != 2 {
		t.Errorf("kubectl get pods -o wide:\n%s", pods)
	}
	return w
}

// node returns the name of the provider's virtual node on the consumer.
func (w work) node() string { return "liqo-" + w.provider.Name }

// traces returns UIDs and restart counts of the virtual node and the pods.
func (w work) traces(t *testing.T) map[string]string {
	t.Helper()
	node := must(w.consumer.Kube.CoreV1().Nodes().Get(t.Context(), w.node(), metav1.GetOptions{}))(t)
	traces := map[string]string{"node": string(node.UID)}
	for _, pod := range podsReady(t, w.consumer, w.namespace, "app=web", 2) {
		remote := podReady(t, w.provider, w.remote, pod.Name)
		traces["pod "+pod.Name] = fmt.Sprintf("%s, remote %s: %s", pod.UID, remote.UID, containerRun(remote))
	}
	return traces
}

// isUndisturbed fails the test if the virtual node or a pod was replaced or restarted since before
// was recorded. after names the event in between.
func (w work) isUndisturbed(t *testing.T, before map[string]string, after string) {
	t.Helper()
	if diff := cmp.Diff(before, w.traces(t)); diff != "" {
		t.Errorf("%s disturbed pods of %s on %s (-before +after):\n%s", after, w.consumer.Name, w.provider.Name, diff)
	}
}

// servesLogsAndExec reads the log of an offloaded pod, and executes a command in it.
func servesLogsAndExec(t *testing.T, w work) {
	t.Helper()
	if log := kubectl(t, w.consumer, "logs", "-n", w.namespace, "deployment/web"); !strings.HasPrefix(log,
		"serving on :8080") {
		t.Errorf("the log is %q", log)
	}
	if got := kubectl(t, w.consumer, "exec", "-n", w.namespace, "deployment/web", "--", tester, "print",
		"hello"); got != "hello\n" {
		t.Errorf("the command printed %q", got)
	}
}
