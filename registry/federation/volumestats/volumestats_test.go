// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package volumestats

import (
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

// kubelet is a fake kubelet of node milan-1, with a Reader that requests its statistics.
type kubelet struct {
	*Reader
	clock    *clocktesting.FakePassiveClock
	requests atomic.Int32
	answer   http.HandlerFunc
}

func start(t *testing.T, configure func(*rest.Config)) *kubelet {
	t.Helper()
	k := &kubelet{clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.requests.Add(1)
		if r.URL.Path != "/stats/summary" || r.Header.Get("Authorization") != "Bearer token" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		k.answer(w, r)
	}))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config := &rest.Config{
		Host: "https://192.0.2.1", BearerToken: "token",
		TLSClientConfig: rest.TLSClientConfig{ServerName: "kubernetes", CAData: authority},
	}
	configure(config)
	client, err := Client(config)
	if err != nil {
		t.Fatal(err)
	}
	host, text, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan-1"}, Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
	}}
	k.Reader = New(fake.NewClientset(node), client, k.clock)
	return k
}

func podOn(node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod"}, Spec: corev1.PodSpec{NodeName: node}}
}

func volume(name string, claim bool) stats.VolumeStats {
	result := stats.VolumeStats{Name: name, FsStats: stats.FsStats{UsedBytes: ptr.To[uint64](7)}}
	if claim {
		result.PVCRef = &stats.PVCReference{Namespace: "demo-rome", Name: name + "-01234567"}
	}
	return result
}

func answers(t *testing.T, volumes ...stats.VolumeStats) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		err := json.NewEncoder(w).Encode(stats.Summary{Pods: []stats.PodStats{
			{PodRef: stats.PodReference{UID: "another"}, VolumeStats: []stats.VolumeStats{volume("secret", true)}},
			{PodRef: stats.PodReference{UID: "pod"}, VolumeStats: volumes},
		}})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestKubeletIsReadOnceInMaxAge(t *testing.T) {
	k := start(t, func(*rest.Config) {})
	k.answer = answers(t, volume("data", true), volume("tmp", false))
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			got, err := k.Volumes(t.Context(), podOn("milan-1"))
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff([]stats.VolumeStats{volume("data", true)}, got); diff != "" {
				t.Errorf("volumes (-want +got):\n%s", diff)
			}
		})
	}
	readers.Wait()
	if requests := k.requests.Load(); requests != 1 {
		t.Errorf("got %d requests to the kubelet, want 1", requests)
	}
	k.clock.SetTime(k.clock.Now().Add(maxAge))
	k.answer = answers(t)
	if got, err := k.Volumes(t.Context(), podOn("milan-1")); err != nil || len(got) > 0 || k.requests.Load() != 2 {
		t.Errorf("after maxAge: got %v, %v, %d requests", got, err, k.requests.Load())
	}
	if got, err := k.Volumes(t.Context(), podOn("")); err != nil || len(got) > 0 {
		t.Errorf("without a node: %v, %v", got, err)
	}
}

func TestUnreadableKubeletIsAnError(t *testing.T) {
	for _, test := range []struct {
		name, node, err string
		configure       func(*rest.Config)
		answer          http.HandlerFunc
	}{
		{name: "unknown node", node: "milan-2", err: "not found"},
		{name: "no rights", node: "milan-1", err: "403", configure: func(c *rest.Config) { c.BearerToken = "other" }},
		{name: "certificate of another authority", node: "milan-1", err: "certificate",
			configure: func(c *rest.Config) { c.CAData = nil }},
		{name: "certificate, with an insecure client of the API server", node: "milan-1", err: "certificate",
			configure: func(c *rest.Config) { c.CAData, c.Insecure = nil, true }},
		{name: "redirect", node: "milan-1", err: "307", answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://192.0.2.1/", http.StatusTemporaryRedirect)
		}},
		{name: "no JSON", node: "milan-1", err: "decoding volume statistics",
			answer: func(w http.ResponseWriter, _ *http.Request) {
				w.Write([]byte("<html>"))
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			configure := test.configure
			if configure == nil {
				configure = func(*rest.Config) {}
			}
			k := start(t, configure)
			k.answer = test.answer
			for range 2 {
				_, err := k.Volumes(t.Context(), podOn(test.node))
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got %v", err)
				}
			}
			if requests := k.requests.Load(); requests > 1 {
				t.Errorf("got %d requests to a failing kubelet, want 1 at most", requests)
			}
		})
	}
}
