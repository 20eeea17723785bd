// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

// memory returns the values in the chart of the API server's soft and hard memory limit.
func memory(t *testing.T) (soft string, limit resource.Quantity) {
	t.Helper()
	content, err := os.ReadFile("../../artifacts/chart/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Server struct {
			GoMemoryLimit string                      `json:"goMemoryLimit"`
			Resources     corev1.ResourceRequirements `json:"resources"`
		} `json:"apiserver"`
	}
	if err := yaml.Unmarshal(content, &values); err != nil {
		t.Fatal(err)
	}
	limit = values.Server.Resources.Limits[corev1.ResourceMemory]
	if limit.IsZero() || values.Server.GoMemoryLimit == "" {
		t.Fatal("the chart does not bound the API server")
	}
	return values.Server.GoMemoryLimit, limit
}

// peak returns the maximal resident set size of a process.
func peak(t *testing.T, pid int) resource.Quantity {
	t.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			return resource.MustParse(strings.TrimSuffix(strings.TrimSpace(rest), " kB") + "Ki")
		}
	}
	t.Fatalf("no memory statistics of process %d: %v", pid, lines.Err())
	return resource.Quantity{}
}

// fill creates many ShadowPods in a namespace.
func fill(t *testing.T, config *rest.Config, namespace string, many int) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	pod := shadowPodSpec()
	for i := range 20 {
		pod.Containers[0].Env = append(pod.Containers[0].Env,
			corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", i), Value: strings.Repeat("x", 100)})
	}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i := range many {
		group.Go(func() error {
			_, err := client.FederationV1alpha1().ShadowPods(namespace).Create(ctx, &v1alpha1.ShadowPod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i)}, Spec: v1alpha1.ShadowPodSpec{Pod: pod},
			}, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// A peer lists all objects in a loop, without a limit and in every media type. The API server must
// stay below its memory limit, and must serve another peer meanwhile.
func TestListsWithoutLimitAreBoundedAndDoNotStarveOthers(t *testing.T) {
	env := framework.Get(t)
	levels := installFairness(t, env)
	installRoles(t, env)
	noisy, quiet := makeTenancy(t, env, "savona"), makeTenancy(t, env, "imperia")
	soft, limit := memory(t)
	t.Setenv("GOMEMLIMIT", soft)
	server := env.StartServer(t, env.MakeDataDir(t))
	provider, err := versioned.NewForConfig(server.Client(env.Admin))
	if err != nil {
		t.Fatal(err)
	}
	for _, consumer := range []string{"savona", "imperia"} {
		offerTo(t, provider, consumer, amounts("pods", "5k"))
	}
	fill(t, server.Client(env.Admin), noisy.remote, 5_000)
	fill(t, server.Client(env.Admin), quiet.remote, 1)
	full := peak(t, server.PID())

	users := map[string]*rest.Config{}
	for _, c := range []tenancy{noisy, quiet} {
		users[c.user] = server.Client(env.User(t, c.user, v1alpha1.PeerGroup))
	}
	pods := func(c tenancy) string { return groupPath + "/namespaces/" + c.remote + "/shadowpods" }
	for _, c := range []tenancy{noisy, quiet} {
		awaitLevel(t, c.user, users[c.user], pods(c), levels.lists)
		awaitLevel(t, c.user, users[c.user], pods(c)+"/pod-0", levels.others)
	}

	ctx, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	var mu sync.Mutex
	answers := map[int]int{}
	const table, metadata = "application/json;as=Table;v=v1;g=meta.k8s.io",
		"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	ways := []struct{ query, accept string }{
		{"", "application/json"},
		{"?resourceVersion=0", "application/json"},
		{"?resourceVersion=1&resourceVersionMatch=NotOlderThan", "application/json"},
		{"?limit=1000000", "application/json"},
		{"?labelSelector=unknown", "application/json"},
		{"?fieldSelector=metadata.name%3Dnobody", "application/json"},
		{"?pretty=true", "application/json"},
		{"", "application/yaml"},
		{"", table},
		{"?includeObject=Object&pretty=true", table},
		{"", metadata},
		{"?watch=true&timeoutSeconds=1", table},
	}
	for i := range 4 * len(ways) {
		flood.Go(func() {
			way := ways[i%len(ways)]
			for ctx.Err() == nil {
				response, err := get(ctx, users[noisy.user], pods(noisy)+way.query, way.accept)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					t.Errorf("the noisy peer is answered with %v", err)
					return
				}
				mu.Lock()
				answers[response.StatusCode]++
				mu.Unlock()
			}
		})
	}
	defer flood.Wait()
	defer stop()
	enough := func(n int) {
		t.Helper()
		retryFor(t, 2*time.Minute, func() (any, error) {
			mu.Lock()
			defer mu.Unlock()
			if answers[http.StatusOK] < n {
				return nil, fmt.Errorf("the noisy peer was answered with %v", answers)
			}
			return nil, nil
		})
	}
	enough(10)
	// A request that occupies one seat does not wait behind requests that occupy many seats.
	var calm []time.Duration
	for range 40 {
		started := time.Now()
		if response, err := get(t.Context(), users[quiet.user], pods(quiet)+"/pod-0"); err != nil ||
			response.StatusCode != http.StatusOK {
			t.Fatalf("the quiet peer is answered with %v, %v", response, err)
		}
		calm = append(calm, time.Since(started))
	}
	// A list occupies as many seats as the largest possible list, but it must be served in its
	// turn.
	started := time.Now()
	retryFor(t, time.Minute, func() (any, error) {
		response, err := get(t.Context(), users[quiet.user], pods(quiet))
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("the quiet peer's list is answered with %s", response.Status)
		}
		return nil, err
	})
	listed := time.Since(started)
	enough(40)
	stop()
	flood.Wait()

	slices.Sort(calm)
	flooded := peak(t, server.PID())
	t.Logf("the API server had %s before and %s at most; the quiet peer waited %s at most, and %s for its list; the "+
		"noisy one got %v",
		full.String(), flooded.String(), calm[len(calm)-1], listed, answers)
	if flooded.Cmp(limit) > 0 {
		t.Errorf("the API server used %s of memory, and its limit is %s", flooded.String(), limit.String())
	}
	if slowest := calm[len(calm)-1]; slowest > answerSoon {
		t.Errorf("the quiet peer waited %s", slowest)
	}
	for code := range answers {
		if code != http.StatusOK && code != http.StatusTooManyRequests {
			t.Errorf("the noisy peer is answered with %v", answers)
		}
	}
}
