// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// databases enables the tests with etcd and PostgreSQL, which take too long for every run.
var databases = flag.Bool("databases", false, "run etcd and PostgreSQL over both clusters")

// applies applies a sample that offloads a namespace. When the test ends, it deletes the sample and
// the namespace.
func applies(t *testing.T, sample, namespace string) offload {
	t.Helper()
	kubectl(t, rome, "apply", "-f", filepath.Join(playground.Root, "artifacts", "samples", sample))
	t.Cleanup(func() {
		collect(t)
		ctx, cancel := context.WithTimeout(context.Background(), 2*soon)
		defer cancel()
		for _, args := range [][]string{
			{"delete", "statefulset,job,pod", "--all", "-n", namespace, "--timeout=110s"},
			{"delete", "pvc", "--all", "-n", namespace, "--timeout=110s"},
			{"delete", "namespace", namespace, "--timeout=110s"},
		} {
			if err := rome.Kubectl(ctx, args...).Err; err != nil {
				t.Error(err)
			}
		}
	})
	var remoteNamespace string
	eventually(t, soon, "namespace "+namespace+" to be offloaded", func(ctx context.Context) (bool, string, error) {
		nsof, err := rome.Federation.FederationV1alpha1().NamespaceOffloadings(namespace).Get(ctx,
			v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		remoteNamespace = nsof.Status.RemoteNamespaceName
		return nsof.Status.Phase == v1alpha1.OffloadingReady, show(nsof.Status), nil
	})
	return offload{namespace, remoteNamespace}
}

// etcdRequest sends a request to the JSON gateway of an etcd member, through the pod proxy of
// rome's API server.
func etcdRequest(ctx context.Context, namespace, member, path string, body, answer any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	result, err := rome.Kube.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(member+":2379").
		SubResource("proxy").Suffix(path).SetHeader("Content-Type", "application/json").Body(bytes.NewReader(encoded)).
		Timeout(5 * time.Second).DoRaw(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(result, answer)
}

// etcdWriter writes numbered keys to the etcd members in turn. continues waits for the next
// acknowledged write. stop ends the writer, and returns the numbers of the acknowledged writes.
func etcdWriter(t *testing.T, namespace string) (continues func(), stop func() []int) {
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan []int, 1)
	var count atomic.Int64
	go func() {
		var acknowledged []int
		for n := 0; ctx.Err() == nil; n++ {
			key := base64.StdEncoding.EncodeToString([]byte("n/" + strconv.Itoa(n)))
			var answer map[string]any
			if err := etcdRequest(ctx, namespace, fmt.Sprintf("etcd-%d", n%3), "v3/kv/put",
				map[string]string{"key": key, "value": key}, &answer); err == nil {
				acknowledged = append(acknowledged, n)
				count.Add(1)
			}
		}
		written <- acknowledged
	}()
	continues = func() {
		t.Helper()
		before := count.Load()
		eventually(t, soon, "another acknowledged write", func(context.Context) (bool, string, error) {
			now := count.Load()
			return now > before, fmt.Sprintf("%d acknowledged writes", now), nil
		})
	}
	return continues, func() []int {
		cancel()
		return <-written
	}
}

// etcdHas fails the test if a member does not have one of the numbered keys.
func etcdHas(t *testing.T, namespace, member string, numbers []int) {
	t.Helper()
	var answer struct {
		Kvs []struct{ Key string }
	}
	from, to := base64.StdEncoding.EncodeToString([]byte("n/")), base64.StdEncoding.EncodeToString([]byte("n0"))
	body := map[string]any{"key": from, "range_end": to, "keys_only": true}
	eventually(t, soon, member+" to answer", func(ctx context.Context) (bool, string, error) {
		if err := etcdRequest(ctx, namespace, member, "v3/kv/range", body, &answer); err != nil {
			return false, err.Error(), nil
		}
		return true, "", nil
	})
	known := map[string]bool{}
	for _, kv := range answer.Kvs {
		key, err := base64.StdEncoding.DecodeString(kv.Key)
		if err != nil {
			t.Fatal(err)
		}
		known[string(key)] = true
	}
	missing := slices.DeleteFunc(slices.Clone(numbers), func(n int) bool { return known["n/"+strconv.Itoa(n)] })
	if len(missing) > 0 {
		t.Errorf("%s misses %d of %d acknowledged writes, the first is %d", member, len(missing), len(numbers), missing[0])
	}
}

// etcdOverBothClusters runs an etcd whose members are on both clusters. Each member fails once,
// each in a different way. No acknowledged write may be lost.
func (f fabric) etcdOverBothClusters(t *testing.T) {
	grantsStorage(t, "4Gi")
	o := applies(t, "etcd.yaml", "keeper")
	members := podsReady(t, rome, o.namespace, "app=etcd", 3)
	var local []corev1.Pod
	remoteMember := ""
	for _, pod := range members {
		if pod.Spec.NodeName == virtualNode {
			remoteMember = pod.Name
		} else {
			local = append(local, pod)
		}
	}
	if remoteMember == "" || len(local) != 2 {
		t.Fatalf("the members run on %v", members)
	}
	losses := []struct {
		name string
		lose func(t *testing.T)
	}{
		{"a pod is deleted", func(t *testing.T) {
			kubectl(t, rome, "delete", "pod", local[0].Name, "-n", o.namespace, "--timeout=110s")
		}},
		{"a node is killed", func(t *testing.T) {
			before := restarts(podReady(t, rome, o.namespace, local[1].Name))
			if err := playground.Restart(t.Context(), "rome", local[1].Spec.NodeName); err != nil {
				t.Fatal(err)
			}
			podWithin(t, soon, rome, o.namespace, local[1].Name, "be started again", func(p *corev1.Pod) bool {
				return restarts(p) > before
			})
		}},
		{"the provider is cut off for a minute", func(t *testing.T) {
			cut(t)
			err := harness.Consistently(t.Context(), outage, "the members of rome answer",
				func(ctx context.Context) (bool, string, error) {
					var answer map[string]any
					err := etcdRequest(ctx, o.namespace, local[0].Name, "v3/maintenance/status", struct{}{}, &answer)
					return err == nil, show(answer), nil
				})
			if err != nil {
				t.Error(err)
			}
			if err := playground.Heal(t.Context(), "rome", "milan"); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, loss := range losses {
		t.Run(loss.name, func(t *testing.T) {
			continues, stop := etcdWriter(t, o.namespace)
			continues()
			loss.lose(t)
			podsReady(t, rome, o.namespace, "app=etcd", 3)
			continues()
			acknowledged := stop()
			for _, member := range members {
				etcdHas(t, o.namespace, member.Name, acknowledged)
			}
			t.Logf("%d acknowledged writes are kept", len(acknowledged))
		})
	}
}

// runsTheTutorial runs the commands of docs/tutorial-database.md.
func (f fabric) runsTheTutorial(t *testing.T) {
	if printed := runsThePage(t, rome, "tutorial-database.md"); !strings.Contains(printed, "1000 | 100000") {
		t.Errorf("rows are missing:\n%s", printed)
	}
}

// readsExternalStorage runs the commands of docs/external-storage.md: two offloaded pods mount a
// claim that exists only on milan, and the second one reads the file that the first one wrote.
func (f fabric) readsExternalStorage(t *testing.T) {
	if printed := runsThePage(t, rome, "external-storage.md"); strings.Count(printed, " UTC ") != 2 {
		t.Errorf("the two pods do not read the same line:\n%s", printed)
	}
	isPrinted(t, milan, "get namespace archive --ignore-not-found -o name", "")
}

// sql returns the output of a SQL statement in the database of a namespace.
func sql(t *testing.T, namespace, statement string) string {
	t.Helper()
	return strings.TrimSpace(kubectl(t, rome, "exec", "-n", namespace, "database-0", "--",
		"psql", "--username=postgres", "--no-align", "--tuples-only", "-c", statement))
}

// aDatabaseMovesUnderLoad moves the data of PostgreSQL to milan and back.
func (f fabric) aDatabaseMovesUnderLoad(t *testing.T) {
	grantsStorage(t, "4Gi")
	movesUnderLoad(t, v1alpha1.MoveTarget{ClusterName: "milan"}, v1alpha1.MoveTarget{Local: true})
}

// aDatabaseMovesBetweenProviders moves the data of PostgreSQL to milan, from there to naples, and
// back to rome.
func aDatabaseMovesBetweenProviders(t *testing.T) {
	for _, leaf := range leaves() {
		offersStorage(t, leaf, "4Gi", realClass)
	}
	movesUnderLoad(t, v1alpha1.MoveTarget{ClusterName: "milan"}, v1alpha1.MoveTarget{ClusterName: "naples"},
		v1alpha1.MoveTarget{Local: true})
}

// movesUnderLoad moves the data of PostgreSQL to each target, online and under the load of pgbench.
// Afterwards all balances must agree, and every acknowledged row must exist.
func movesUnderLoad(t *testing.T, targets ...v1alpha1.MoveTarget) {
	t.Helper()
	o := applies(t, "database.yaml", "bank")
	podReady(t, rome, o.namespace, "database-0")
	sql(t, o.namespace, "CREATE TABLE ack (n bigint PRIMARY KEY)")
	kubectl(t, rome, "exec", "-n", o.namespace, "database-0", "--", "pgbench", "--username=postgres", "--initialize",
		"--scale=5", "postgres")
	password := corev1.EnvVar{Name: "PGPASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "database"}, Key: "password",
	}}}
	client := func(name, script string) {
		pod := corev1.PodSpec{
			NodeSelector:                  map[string]string{corev1.LabelHostname: "rome-worker-1"},
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			Containers: []corev1.Container{{
				Name: "client", Image: "liqo.io/postgres:dev", ImagePullPolicy: corev1.PullIfNotPresent,
				Env: []corev1.EnvVar{password}, Command: []string{"sh", "-c", script},
			}},
		}
		runReadyPod(t, o.namespace, name, pod)
	}
	const connect = "--host=database --username=postgres"
	// By default, pgbench empties the history, with which the balances are compared.
	client("load", "while :; do pgbench "+connect+" --no-vacuum --client=4 --time=5 postgres || :; done")
	client("writer",
		"n=0; while :; do n=$((n + 1)); psql "+connect+" -qc \"INSERT INTO ack VALUES ($n)\" 2>/dev/null && echo $n; done")
	volumes := rome.Federation.FederationV1alpha1().VirtualVolumes(o.namespace)
	for _, target := range targets {
		must(volumes.CreateMove(t.Context(), "data-database-0", &v1alpha1.Move{Spec: v1alpha1.MoveSpec{Target: target}},
			metav1.CreateOptions{}))(t)
		moved := volumeThat(t, o.namespace, "data-database-0", "be moved", func(v *v1alpha1.VirtualVolume) bool {
			return v.Status.Move != nil && v.Status.Move.CompletionTime != nil && v.Spec.Move != nil &&
				v.Status.Move.ID == v.Spec.Move.ID
		})
		if moved.Status.Move.Phase != v1alpha1.MoveSucceeded {
			t.Fatalf("the move ended as %s", show(moved.Status.Move))
		}
		podReady(t, rome, o.namespace, "database-0")
		t.Logf("moved to %s: %d bytes, downtime %d ms", show(target), moved.Status.Move.BytesTotal,
			ptr.Deref(moved.Status.Move.DowntimeMilliseconds, -1))
	}
	acknowledged := strings.Fields(kubectl(t, rome, "logs", "-n", o.namespace, "writer"))
	kubectl(t, rome, "delete", "pod", "load", "writer", "-n", o.namespace, "--timeout=110s")
	if len(acknowledged) == 0 {
		t.Fatal("no row was acknowledged")
	}
	if got := sql(t, o.namespace, "SELECT count(*) FROM unnest('{"+strings.Join(acknowledged,
		",")+"}'::bigint[]) n WHERE n NOT IN (SELECT n FROM ack)"); got != "0" {
		t.Errorf("%s of %d acknowledged rows are lost", got, len(acknowledged))
	}
	balances := sql(t, o.namespace,
		"SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history)"+
			" AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history)")
	if balances != "t" {
		t.Error("the balances of pgbench do not agree")
	}
}
