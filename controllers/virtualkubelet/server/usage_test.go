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

// metered is a node whose provider tells what its pod demo/web uses.
type metered struct {
	*Usage
	pods  *fakePods
	clock *clocktesting.FakePassiveClock
	serve http.Handler
	// answer is the provider's, and asked counts the questions.
	answer http.HandlerFunc
	asked  []string
}

func newMetered(t *testing.T) *metered {
	t.Helper()
	m := &metered{
		pods:  &fakePods{pods: []*corev1.Pod{pod("web")}, twins: map[string]string{"demo": "demo-rome"}},
		clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)),
	}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.asked = append(m.asked, r.URL.Path+" "+r.URL.Query().Get("labelSelector"))
		m.answer(w, r)
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

// uses has the provider say from now on what a container of a pod uses.
func (m *metered) uses(pod, container, cpu, memory string) {
	said := metricsv1beta1.PodMetricsList{
		TypeMeta: metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "PodMetricsList"},
		Items: []metricsv1beta1.PodMetrics{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: pod}, Timestamp: metav1.NewTime(m.clock.Now()),
			Containers: []metricsv1beta1.ContainerMetrics{{Name: container, Usage: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
			}}},
		}},
	}
	m.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(said)
	}
}

func (m *metered) fails(status int) {
	m.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

func (m *metered) pass(time time.Duration) { m.clock.SetTime(m.clock.Now().Add(time)) }

// scrape is what the node tells now, by name and labels. All of it is of now.
func (m *metered) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	answer := httptest.NewRecorder()
	m.serve.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics/resource", nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("status %d: %s", answer.Code, answer.Body)
	}
	told := map[string]float64{}
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		value, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		told[fields[0]] = value
		if len(fields) > 2 && fields[2] != fmt.Sprint(m.clock.Now().UnixMilli()) {
			t.Errorf("line %q is of another time than %d", line, m.clock.Now().UnixMilli())
		}
	}
	return told
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

const ofWeb = `{container="app",namespace="demo",pod="web"}`

func TestUsageGrowsByWhatTheProviderTells(t *testing.T) {
	m := newMetered(t)
	m.uses("web", "app", "500m", "100Mi")
	before := m.scrape(t)
	m.pass(15 * time.Second)
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
		t.Error("a counter begins with 0, which is taken for a figure that is missing")
	}
	want := []string{
		"/apis/metrics.k8s.io/v1beta1/namespaces/demo-rome/pods node=milan",
		"/apis/metrics.k8s.io/v1beta1/namespaces/demo-rome/pods node=milan",
	}
	if diff := cmp.Diff(want, m.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	m.pass(time.Second)
	if again := m.scrape(t)["container_cpu_usage_seconds_total"+ofWeb]; !near(
		again-after["container_cpu_usage_seconds_total"+ofWeb],
		2,
	) ||
		len(m.asked) != 2 {
		t.Errorf("a second later it is %v, after %d questions", again, len(m.asked))
	}
}

func TestOfWhatTheProviderDoesNotTellNothingIsMadeUp(t *testing.T) {
	const used = "container_cpu_usage_seconds_total"
	for name, test := range map[string]struct {
		change func(*metered)
		failed float64
	}{
		"there is no metrics API":         {change: func(m *metered) { m.fails(http.StatusNotFound) }},
		"the metrics API does not answer": {change: func(m *metered) { m.fails(http.StatusServiceUnavailable) }, failed: 1},
		"another pod":                     {change: func(m *metered) { m.uses("other", "app", "1", "1Mi") }},
		"a container that the pod lacks":  {change: func(m *metered) { m.uses("web", "theirs", "1", "1Mi") }},
		"a pod that is not offloaded":     {change: func(m *metered) { m.pods.twins = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMetered(t)
			m.uses("web", "app", "1", "1Mi")
			test.change(m)
			if diff := cmp.Diff(map[string]float64{"resource_scrape_error": test.failed}, m.scrape(t)); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("since a while", func(t *testing.T) {
		m := newMetered(t)
		m.uses("web", "app", "1", "1Mi")
		m.scrape(t)
		m.fails(http.StatusServiceUnavailable)
		m.pass(usageStale - time.Second)
		if told := m.scrape(t); told[used+ofWeb] == 0 || told["resource_scrape_error"] != 1 {
			t.Errorf("for a moment it does not tell, and %v is told", told)
		}
		m.pass(usageAge)
		if told := m.scrape(t); told[used+ofWeb] != 0 {
			t.Errorf("it is silent for long, and %v is told", told)
		}
	})
	t.Run("it says the same for long", func(t *testing.T) {
		m := newMetered(t)
		m.uses("web", "app", "1", "1Mi")
		m.scrape(t)
		m.pass(usageStale)
		for range 2 {
			if told := m.scrape(t); told[used+ofWeb] != 0 {
				t.Errorf("%v is told", told)
			}
			m.pass(usageAge)
		}
	})
}

func TestUsageIsBounded(t *testing.T) {
	m := newMetered(t)
	m.uses("web", "app", "-1", "-1Mi")
	before := m.scrape(t)
	if before["container_memory_working_set_bytes"+ofWeb] != 0 {
		t.Errorf("less than nothing is told: %v", before)
	}
	m.pass(10 * time.Second)
	m.uses("web", "app", "1e18", "9e18")
	after := m.scrape(t)
	if after["container_memory_working_set_bytes"+ofWeb] != maxBytes ||
		after["node_cpu_usage_seconds_total"]-before["node_cpu_usage_seconds_total"] > 10*maxCores {
		t.Errorf("told: %v", after)
	}
}

// Readers take the counter of a container that was started a moment ago to have
// begun then.
func TestACounterBeginsWithItsContainer(t *testing.T) {
	const cpu, start = "container_cpu_usage_seconds_total" + ofWeb, "container_start_time_seconds" + ofWeb
	m := newMetered(t)
	began := func(ago time.Duration) {
		m.pods.pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(m.clock.Now().Add(-ago))},
		}}}
	}
	began(time.Hour)
	m.uses("web", "app", "1", "1Mi")
	if told := m.scrape(t); !near(told[cpu], 3600) || told[start] != float64(m.clock.Now().Add(-time.Hour).Unix()) {
		t.Errorf("after an hour: %v", told)
	}
	m.pass(time.Minute)
	began(12 * time.Second)
	m.uses("web", "app", "2", "1Mi")
	if told := m.scrape(t); !near(told[cpu], 24) || told[start] != float64(m.clock.Now().Add(-12*time.Second).Unix()) {
		t.Errorf("12 seconds after it was started again: %v", told)
	}
	m.pass(10 * time.Second)
	m.uses("web", "app", "2", "1Mi")
	if told := m.scrape(t); !near(told[cpu], 44) {
		t.Errorf("10 seconds later: %v", told)
	}
}

// A pod that takes the name of another one has used nothing yet; what the node
// has used it has used.
func TestCountersOfANodeDoNotGoBack(t *testing.T) {
	m := newMetered(t)
	m.pods.pods[0].UID = "first"
	m.uses("web", "app", "4", "1Mi")
	m.scrape(t)
	m.pass(time.Minute)
	before := m.scrape(t)
	m.pods.pods = []*corev1.Pod{pod("web")}
	m.pods.pods[0].UID = "second"
	m.pass(10 * time.Second)
	m.uses("web", "app", "1", "1Mi")
	after := m.scrape(t)
	if is := after["container_cpu_usage_seconds_total"+ofWeb]; is != usedToStart {
		t.Errorf("the new pod has used %v s", is)
	}
	if after["node_cpu_usage_seconds_total"] < before["node_cpu_usage_seconds_total"] {
		t.Errorf(
			"the node had used %v s, and now %v s",
			before["node_cpu_usage_seconds_total"],
			after["node_cpu_usage_seconds_total"],
		)
	}
}
