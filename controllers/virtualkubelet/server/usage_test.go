// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	clocktesting "k8s.io/utils/clock/testing"
)

// metered is a Usage whose provider reports the usage of the pod web in namespace demo.
type metered struct {
	*Usage
	pods  *fakePods
	clock *clocktesting.FakePassiveClock
	serve http.Handler
	// respond handles the requests to the provider.
	respond  http.HandlerFunc
	requests []string
}

func newMetered(t *testing.T) *metered {
	t.Helper()
	m := &metered{
		pods:  &fakePods{pods: []*corev1.Pod{pod("web")}, remoteNamespaces: map[string]string{"demo": "demo-rome"}},
		clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)),
	}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.requests = append(m.requests, r.URL.Path+" "+r.URL.Query().Get("labelSelector"))
		m.respond(w, r)
	}))
	t.Cleanup(provider.Close)
	client, err := metricsclient.NewForConfig(&rest.Config{Host: provider.URL})
	if err != nil {
		t.Fatal(err)
	}
	m.Usage = NewUsage(m.pods, client, "node=milan", m.clock, klog.Background())
	m.serve = m.Handler()
	return m
}

// uses sets the usage of a container that the provider reports.
func (m *metered) uses(pod, container, cpu, memory string) {
	reported := metricsv1beta1.PodMetricsList{
		TypeMeta: metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "PodMetricsList"},
		Items: []metricsv1beta1.PodMetrics{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: pod}, Timestamp: metav1.NewTime(m.clock.Now()),
			Containers: []metricsv1beta1.ContainerMetrics{{Name: container, Usage: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
			}}},
		}},
	}
	m.respond = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(reported)
	}
}

func (m *metered) fails(status int) {
	m.respond = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

func (m *metered) advance(time time.Duration) { m.clock.SetTime(m.clock.Now().Add(time)) }

// scrape returns the values of /metrics/resource by name and labels. It fails the test if a timestamp is not the
// current time.
func (m *metered) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	response := httptest.NewRecorder()
	m.serve.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/metrics/resource", nil))
	if response.Code != http.StatusOK {
		t.Fatalf("status %d: %s", response.Code, response.Body)
	}
	samples := map[string]float64{}
	for line := range strings.Lines(response.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		value, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		samples[fields[0]] = value
		if len(fields) > 2 && fields[2] != fmt.Sprint(m.clock.Now().UnixMilli()) {
			t.Errorf("line %q has another timestamp than %d", line, m.clock.Now().UnixMilli())
		}
	}
	return samples
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

const ofWeb = `{container="app",namespace="demo",pod="web"}`

func TestCPUCountersGrowByTheReportedUsage(t *testing.T) {
	m := newMetered(t)
	m.uses("web", "app", "500m", "100Mi")
	before := m.scrape(t)
	m.advance(15 * time.Second)
	m.uses("web", "app", "2", "50Mi")
	after := m.scrape(t)
	for _, name := range []string{"container_cpu_usage_seconds_total" + ofWeb, "node_cpu_usage_seconds_total"} {
		if before[name] < 0 || !near(after[name]-before[name], 30) {
			t.Errorf("%s grew from %v to %v in 15s of 2 cores", name, before[name], after[name])
		}
	}
	for _, name := range []string{"container_memory_working_set_bytes" + ofWeb, "node_memory_working_set_bytes"} {
		if after[name] != 50<<20 {
			t.Errorf("%s is %v", name, after[name])
		}
	}
	if before["container_cpu_usage_seconds_total"+ofWeb] == 0 {
		t.Error("the counter starts with 0, which readers take for a missing value")
	}
	want := []string{
		"/apis/metrics.k8s.io/v1beta1/namespaces/demo-rome/pods node=milan",
		"/apis/metrics.k8s.io/v1beta1/namespaces/demo-rome/pods node=milan",
	}
	if diff := cmp.Diff(want, m.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	m.advance(time.Second)
	later := m.scrape(t)["container_cpu_usage_seconds_total"+ofWeb]
	if !near(later-after["container_cpu_usage_seconds_total"+ofWeb], 2) || len(m.requests) != 2 {
		t.Errorf("a second later the counter is %v, after %d requests", later, len(m.requests))
	}
}

func TestUsageThatTheProviderDoesNotReportIsOmitted(t *testing.T) {
	const used = "container_cpu_usage_seconds_total"
	for name, test := range map[string]struct {
		change func(*metered)
		failed float64
	}{
		"no metrics API":              {change: func(m *metered) { m.fails(http.StatusNotFound) }},
		"unavailable metrics API":     {change: func(m *metered) { m.fails(http.StatusServiceUnavailable) }, failed: 1},
		"another pod":                 {change: func(m *metered) { m.uses("other", "app", "1", "1Mi") }},
		"unknown container":           {change: func(m *metered) { m.uses("web", "injected", "1", "1Mi") }},
		"a pod that is not offloaded": {change: func(m *metered) { m.pods.remoteNamespaces = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMetered(t)
			m.uses("web", "app", "1", "1Mi")
			test.change(m)
			if diff := cmp.Diff(map[string]float64{"resource_scrape_error": test.failed}, m.scrape(t)); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("the metrics API stays unavailable", func(t *testing.T) {
		m := newMetered(t)
		m.uses("web", "app", "1", "1Mi")
		m.scrape(t)
		m.fails(http.StatusServiceUnavailable)
		m.advance(usageStale - time.Second)
		if samples := m.scrape(t); samples[used+ofWeb] == 0 || samples["resource_scrape_error"] != 1 {
			t.Errorf("before the usage is stale: %v", samples)
		}
		m.advance(usageAge)
		if samples := m.scrape(t); samples[used+ofWeb] != 0 {
			t.Errorf("after the usage is stale: %v", samples)
		}
	})
	t.Run("the timestamp stays unchanged", func(t *testing.T) {
		m := newMetered(t)
		m.uses("web", "app", "1", "1Mi")
		m.scrape(t)
		m.advance(usageStale)
		for range 2 {
			if samples := m.scrape(t); samples[used+ofWeb] != 0 {
				t.Errorf("metrics %v", samples)
			}
			m.advance(usageAge)
		}
	})
}

func TestUsageIsBounded(t *testing.T) {
	m := newMetered(t)
	m.uses("web", "app", "-1", "-1Mi")
	before := m.scrape(t)
	if before["container_memory_working_set_bytes"+ofWeb] != 0 {
		t.Errorf("negative usage: %v", before)
	}
	m.advance(10 * time.Second)
	m.uses("web", "app", "1e18", "9e18")
	after := m.scrape(t)
	if after["container_memory_working_set_bytes"+ofWeb] != maxBytes ||
		after["node_cpu_usage_seconds_total"]-before["node_cpu_usage_seconds_total"] > 10*maxCores {
		t.Errorf("metrics %v", after)
	}
}

// Clients assume that the CPU counter of a container was 0 when the container started.
func TestACPUCounterStartsWithItsContainer(t *testing.T) {
	const cpu, start = "container_cpu_usage_seconds_total" + ofWeb, "container_start_time_seconds" + ofWeb
	m := newMetered(t)
	began := func(ago time.Duration) {
		m.pods.pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(m.clock.Now().Add(-ago))},
		}}}
	}
	began(time.Hour)
	m.uses("web", "app", "1", "1Mi")
	got := m.scrape(t)
	if !near(got[cpu], 3600) || got[start] != float64(m.clock.Now().Add(-time.Hour).Unix()) {
		t.Errorf("after an hour: %v", got)
	}
	m.advance(time.Minute)
	began(12 * time.Second)
	m.uses("web", "app", "2", "1Mi")
	got = m.scrape(t)
	if !near(got[cpu], 24) || got[start] != float64(m.clock.Now().Add(-12*time.Second).Unix()) {
		t.Errorf("12 seconds after the restart: %v", got)
	}
	m.advance(10 * time.Second)
	m.uses("web", "app", "2", "1Mi")
	if got := m.scrape(t); !near(got[cpu], 44) {
		t.Errorf("10 seconds later: %v", got)
	}
}

// A pod that replaces another one of the same name has a new counter, but the counter of the node continues.
func TestNodeCountersNeverDecrease(t *testing.T) {
	m := newMetered(t)
	m.pods.pods[0].UID = "first"
	m.uses("web", "app", "4", "1Mi")
	m.scrape(t)
	m.advance(time.Minute)
	before := m.scrape(t)
	m.pods.pods = []*corev1.Pod{pod("web")}
	m.pods.pods[0].UID = "second"
	m.advance(10 * time.Second)
	m.uses("web", "app", "1", "1Mi")
	after := m.scrape(t)
	if got := after["container_cpu_usage_seconds_total"+ofWeb]; got != initialSeconds {
		t.Errorf("the counter of the new pod is %v s", got)
	}
	if after["node_cpu_usage_seconds_total"] < before["node_cpu_usage_seconds_total"] {
		t.Errorf("the counter of the node changed from %v s to %v s",
			before["node_cpu_usage_seconds_total"], after["node_cpu_usage_seconds_total"])
	}
}
