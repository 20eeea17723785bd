// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// previous is the image tag of the version from which clusters are upgraded.
const previous = "e2e-previous"

// upgradesAndRollsBack follows the upgrade procedure of docs/operations.md, from the version in
// hack/released. Two clusters with that version are peered. They are upgraded one after the other,
// rolled back, and upgraded again. Running pods must not be disturbed. The peer may do what it could
// before, until an administrator selects the trust in it.
func upgradesAndRollsBack(t *testing.T) {
	chart := loadsReleased(t)
	this := must(playground.ImageVersion())(t)
	onBoth(t, "ToThePrevious", func(t *testing.T, c *harness.Cluster) {
		upgrades(t, c, chart, previous, "--reset-values", "--values", valuesOfPrevious(t, c))
	})
	peersByInvitation(t)
	w := deploysOnProvider(t, rome)
	before := w.traces(t)
	maps.Copy(before, identityOfRome(t))
	works := func(after string) {
		t.Helper()
		now := w.traces(t)
		maps.Copy(now, identityOfRome(t))
		if diff := cmp.Diff(before, now); diff != "" {
			t.Errorf("%s disturbed objects (-before +after):\n%s", after, diff)
		}
		// Pods of a tenant must not have the toleration.
		runReadyPod(t, w.namespace, "new", tolerating())
		servesLogsAndExec(t, w)
		kubectl(t, rome, "delete", "pod", "new", "-n", w.namespace)
	}

	own := filepath.Join(playground.Root, "artifacts", "chart")
	upgrades(t, rome, own, this)
	works("the upgrade of rome")
	upgrades(t, milan, own, this)
	works("the upgrade of milan")
	reportTrust(t, "", "False")
	// The values of the release have no policy.trust, so that the default of the new chart applies to new peers.
	newPeersHave(t, v1alpha1.TrustTenant)
	onBoth(t, "RollsBack", func(t *testing.T, c *harness.Cluster) {
		runsThePage(t, c, "operations.md#upgrade")
		runs(t, c, previous)
	})
	works("the rollback")
	onBoth(t, "Upgrades", func(t *testing.T, c *harness.Cluster) {
		upgrades(t, c, own, this, "--reset-then-reuse-values", "--set", "policy.trust=SameOwner")
	})
	works("the upgrade of both")
	reportTrust(t, "", "False")
	newPeersHave(t, v1alpha1.TrustSameOwner)
	selectsTrust(t, w)
	works("the selection of the trust")
	peeringsAre(t, rome, "Established", "None", "Established")
}

// tolerating returns the spec of a pod that tolerates a taint of an administrator.
func tolerating() corev1.PodSpec {
	spec := podSpec("serve")
	spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	return spec
}

// reportTrust waits until the ForeignClusters of both clusters have this trust, and the condition
// TrustSelected with this status; empty if there is none.
func reportTrust(t *testing.T, trust, status string) {
	t.Helper()
	for _, c := range []*harness.Cluster{rome, milan} {
		isPrinted(t, c, "get foreigncluster "+otherThan(c).Name+
			" -o jsonpath={.spec.trust},{.status.conditions[?(@.type=='TrustSelected')].status}", trust+","+status)
	}
}

// newPeersHave checks the trust in new ForeignClusters of both clusters.
func newPeersHave(t *testing.T, trust v1alpha1.PeeringTrust) {
	t.Helper()
	for _, c := range []*harness.Cluster{rome, milan} {
		created, err := c.Federation.FederationV1alpha1().ForeignClusters().Create(t.Context(), &v1alpha1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "lecce"},
			Spec:       v1alpha1.ForeignClusterSpec{ClusterID: "0c5c2ff4-6a4b-4d0e-8f0e-5f6f2c0d9e11"},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Fatal(err)
		}
		if created.Spec.Trust != trust {
			t.Errorf("a new peer of %s has the trust %q, want %q", c.Name, created.Spec.Trust, trust)
		}
	}
}

// selectsTrust selects the trust Tenant on both clusters, which applies to new pods only, and then
// SameOwner.
func selectsTrust(t *testing.T, w work) {
	t.Helper()
	for _, trust := range []v1alpha1.PeeringTrust{v1alpha1.TrustTenant, v1alpha1.TrustSameOwner} {
		for _, c := range []*harness.Cluster{rome, milan} {
			kubectl(t, c, "patch", "foreigncluster", otherThan(c).Name, "--type=merge", "-p",
				fmt.Sprintf(`{"spec":{"trust":%q}}`, trust))
		}
		reportTrust(t, string(trust), "")
		if trust != v1alpha1.TrustTenant {
			continue
		}
		isPrinted(t, rome, "get resourceoffer milan -n "+peerNamespace+" -o jsonpath={.spec.pods}",
			`{"maxGracePeriodSeconds":3600}`)
		runPod(t, w.namespace, "refused", tolerating())
		reportsOnPod(t, w.namespace, "refused", "spec.incomingPolicy.pods.tolerations of ForeignCluster rome")
		kubectl(t, rome, "delete", "pod", "refused", "-n", w.namespace)
	}
	isPrinted(t, rome, "get resourceoffer milan -n "+peerNamespace+" -o jsonpath={.spec.pods}", "")
}

// valuesOfPrevious returns a file with the values of the release, apart from those that the version in
// hack/released does not have.
func valuesOfPrevious(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	result := c.Helm(t.Context(), "get", "values", harness.Release, "--namespace", harness.Namespace, "--output", "json")
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	var values map[string]any
	if err := json.Unmarshal([]byte(result.Stdout), &values); err != nil {
		t.Fatal(err)
	}
	if policy, ok := values["policy"].(map[string]any); ok {
		delete(policy, "trust")
	}
	file := filepath.Join(t.TempDir(), "values.json")
	if err := os.WriteFile(file, must(json.Marshal(values))(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// upgrades upgrades the product on a cluster to a chart and an image tag, and runs the chart's
// test. Without arguments that state the values, those of the release are kept.
func upgrades(t *testing.T, c *harness.Cluster, chart, tag string, values ...string) {
	t.Helper()
	if len(values) == 0 {
		values = []string{"--reset-then-reuse-values"}
	}
	revises(t, c, append([]string{"upgrade", harness.Release, chart, "--set-string", "images.tag=" + tag,
		"--wait", "--timeout=3m"}, values...)...)
	isInstalled(t, c)
	runs(t, c, tag)
}

// runs waits until all components of a cluster, including virtual kubelets, are available with this
// image tag.
func runs(t *testing.T, c *harness.Cluster, tag string) {
	t.Helper()
	kubectl(t, c, "wait", "--for=condition=Available", "apiservice/v1alpha1.federation.liqo.io", "--timeout=110s")
	eventually(t, soon, c.Name+" to run "+tag, func(ctx context.Context) (bool, string, error) {
		pods, err := c.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		found := 0
		for i, pod := range pods.Items {
			if pod.Namespace != harness.Namespace && !strings.HasPrefix(pod.Namespace, "liqo-peer-") {
				continue
			}
			found++
			if image := pod.Spec.Containers[0].Image; !strings.HasSuffix(image, ":"+tag) || !isReady(&pods.Items[i]) ||
				pod.DeletionTimestamp != nil {
				return false, image + ": " + podState(&pods.Items[i]), nil
			}
		}
		return found >= 3, "", nil
	})
}

// identityOfRome returns the data of rome's identity at milan, which changes when an identity is
// issued.
func identityOfRome(t *testing.T) map[string]string {
	t.Helper()
	secret := must(rome.Kube.CoreV1().Secrets(peerNamespace).Get(t.Context(), "identity", metav1.GetOptions{}))(t)
	return map[string]string{"identity": string(secret.UID) + string(secret.Data["tls.crt"]) +
		string(secret.Data["token"])}
}

// onBoth runs do for both clusters in parallel. It stops the test if one of them fails.
func onBoth(t *testing.T, name string, do func(*testing.T, *harness.Cluster)) {
	t.Helper()
	passed := t.Run(name, func(t *testing.T) {
		for _, cluster := range []*harness.Cluster{rome, milan} {
			t.Run(cluster.Name, func(t *testing.T) {
				t.Parallel()
				t.Cleanup(func() { collect(t) })
				do(t, cluster)
			})
		}
	})
	if !passed {
		t.FailNow()
	}
}

// released returns the version and the commit in hack/released. An empty commit means this
// checkout.
func released(t *testing.T) (version, commit string) {
	t.Helper()
	text := string(must(os.ReadFile(filepath.Join(playground.Root, "hack", "released")))(t))
	for line := range strings.Lines(text) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key {
		case "version":
			version = value
		case "commit":
			commit = value
		}
	}
	if version == "" {
		t.Fatal("hack/released names no version")
	}
	return version, commit
}

// loadsReleased builds the version in hack/released with the scripts of that version, loads its
// images on every node, and returns the path of its chart.
func loadsReleased(t *testing.T) (chart string) {
	t.Helper()
	version, commit := released(t)
	dir := t.TempDir()
	in := func(dir, program string, args ...string) harness.Result {
		cmd := harness.Command(t.Context(), program, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "VERSION="+previous)
		return harness.Run(cmd)
	}
	do := func(program string, args ...string) {
		t.Helper()
		if err := in(dir, program, args...).Err; err != nil {
			t.Fatal(err)
		}
	}
	if commit != "" && in(playground.Root, "git", "cat-file", "-e", commit+"^{commit}").Err != nil {
		t.Logf("this checkout has no history, so this state is upgraded to itself; with commit %s of %s the test "+
			"upgrades from that: "+
			"git fetch --unshallow", commit, version)
		commit = ""
	}
	sources := filepath.Join(dir, "sources.tar")
	archive := []string{"git", "archive", "--output=" + sources, commit}
	if commit == "" {
		archive = []string{"tar", "--create", "--file=" + sources,
			"--exclude=./.git", "--exclude=./.playground", "--exclude=./_output", "."}
	}
	t.Logf("upgrading from %s, commit %q", version, commit)
	if err := in(playground.Root, archive[0], archive[1:]...).Err; err != nil {
		t.Fatalf("reading the sources of %s, which hack/released names: %v", version, err)
	}
	do("tar", "--extract", "--file="+sources)
	if err := os.Symlink(filepath.Join(playground.Root, ".playground"), filepath.Join(dir, ".playground")); err != nil {
		t.Fatal(err)
	}
	do("make", "build")
	do("hack/images.sh")
	if err := playground.Load(t.Context(),
		must(filepath.Glob(filepath.Join(dir, "_output", "images", "*.tar")))(t)...); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "artifacts", "chart")
}
