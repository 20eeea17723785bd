// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"

	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/test/hostile"
)

// maxVirtualKubeletMemory is the memory in bytes that a virtual kubelet may use in addition while its provider attacks.
// The value virtualKubelet.memoryLimit of the chart is 512 MiB, of which it uses less than 64 MiB without an attack.
const maxVirtualKubeletMemory = 448 << 20

// A provider attacks the informers of its virtual kubelet with the responses of its API server, first to watches and
// then to lists. The memory of the process is bounded, refused responses are counted, and the informers receive changes
// of the provider's objects once it responds correctly again.
func TestAHostileProviderDoesNotExhaustItsVirtualKubelet(t *testing.T) {
	// informers is the number of informers in a remote namespace, at least: each has one request at a time.
	const informers = 8
	o := newOffload(t)
	o.options.ConsumerAPIServer = "https://192.0.2.7:6443"
	provider := serveProvider(t, o.Admin)
	for name, content := range map[string][]byte{"server": []byte(provider.URL), "ca.crt": provider.identity("").CA} {
		if err := os.WriteFile(filepath.Join(o.options.IdentityDir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	registry := metrics.NewKubeRegistry()
	if err := remote.RegisterMetrics(registry.Register); err != nil {
		t.Fatal(err)
	}

	// A virtual kubelet limits the memory of the Go runtime to 1.3 times that of live objects. The limit here is constant,
	// and exceeded if the live objects do not fit.
	limit := debug.SetMemoryLimit(int64(memoryInUse() + maxVirtualKubeletMemory*3/4))
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
	var memory memoryPeak
	stop := memory.watch(maxVirtualKubeletMemory, provider.end)
	for _, test := range []struct {
		attack hostile.Attack
		// requests is the number of attacked requests after which the attack ends.
		requests int
		// refused is the reason with which responses are counted; empty if none is counted before the attack ends.
		refused string
	}{
		{hostile.EndlessText, 2 * informers, "TooLarge"},
		{hostile.UnknownType, 2 * informers, "TooLarge"},
		{hostile.EndlessJSON, 2 * informers, "TooLarge"},
		{hostile.ManyItems, 2 * informers, "TooManyElements"},
		{hostile.ManyItemsInYAML, 2 * informers, "Encoding"},
		{hostile.ManyItemsInProtobuf, 2 * informers, "Encoding"},
		// Protobuf that is decoded as JSON is invalid.
		{hostile.ManyItemsUntyped, 2 * informers, ""},
		// Objects without a kind are invalid in a watch.
		{hostile.LongNames, 2 * informers, ""},
		{hostile.ValidEvents, 2 * informers, "TooManyEvents"},
		{hostile.ValidList, 2 * informers, "TooManyElements"},
		{hostile.SwitchProtocols, 2 * informers, "Upgrade"},
		{hostile.Redirect, 2 * informers, "Redirect"},
		{hostile.RetryAfter, 2 * informers, ""},
		// The attack ends before the timeout for responses.
		{hostile.Silence, informers, ""},
		{hostile.Dribble, informers, ""},
	} {
		t.Run(string(test.attack), func(t *testing.T) {
			// A new virtual kubelet has informers that do not back off yet.
			o.start(t)
			name := strings.ToLower(string(test.attack))
			o.bind(t, o.local, name, nil)
			pod := o.make(t, name)
			o.runs(t, pod, 0)
			o.awaitPod(t, o.local, name, "the pod is ready", isReady)
			before := refusedResponses(t, registry, provider.URL)[test.refused]

			provider.use(test.attack)
			until(t, "attacked requests", func(context.Context) (bool, error) {
				refused := refusedResponses(t, registry, provider.URL)[test.refused] - before
				// The memory is used once the caches of all informers are full.
				full := test.attack != hostile.ValidEvents || refused >= informers
				return provider.Sent()[test.attack] >= test.requests && (test.refused == "" || refused > 0) && full ||
					provider.ended(), nil
			})
			provider.use("")

			o.runs(t, pod, 1)
			o.awaitPod(t, o.local, name, "the pod is restarted", func(pod *corev1.Pod) bool {
				return pod.Status.ContainerStatuses[0].RestartCount == 1
			})
			pods := o.Kube.CoreV1().Pods(o.local)
			if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			o.release(t, name)
			if err := killed(t.Context(), o.Kube, pod); err != nil {
				t.Fatal(err)
			}
			o.awaitGone(t, "the local pod is gone", func(ctx context.Context) error {
				_, err := pods.Get(ctx, name, metav1.GetOptions{})
				return err
			})
		})
	}
	stop()
	t.Logf("%d MB more memory; attacks: %v; refused: %v", memory.growth()>>20, provider.Sent(),
		refusedResponses(t, registry, provider.URL))
	if growth := memory.growth(); growth > maxVirtualKubeletMemory {
		t.Errorf("the attacks took %d MB of memory, want at most %d", growth>>20, maxVirtualKubeletMemory>>20)
	}
}

// refusedResponses returns how many responses of a server were refused, by reason.
func refusedResponses(t *testing.T, registry metrics.Gatherer, server string) map[string]int {
	t.Helper()
	parsed, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["server"] == parsed.Host {
				counts[labels["reason"]] += int(metric.GetCounter().GetValue())
			}
		}
	}
	return counts
}
