// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"liqo.io/federation/generated/clientset/versioned"
)

// measured is a Volumes whose provider reports the usage of volumes.
type measured struct {
	*Volumes
	pods  *fakePods
	clock *clocktesting.FakePassiveClock

	mu       sync.Mutex
	requests []string
	respond  http.HandlerFunc
}

func newMeasured(t *testing.T) *measured {
	t.Helper()
	m := &measured{
		pods: &fakePods{
			remoteNamespaces: map[string]string{"demo": "demo-rome"}, remotes: map[string]*corev1.PodStatus{},
		},
		clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)),
	}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.requests = append(m.requests, r.URL.Path)
		m.respond(w, r)
	}))
	t.Cleanup(provider.Close)
	client, err := versioned.NewForConfig(&rest.Config{Host: provider.URL})
	if err != nil {
		t.Fatal(err)
	}
	read := NewReadVolumes(client.FederationV1alpha1().RESTClient())
	m.Volumes = NewVolumes(m.pods, read, m.clock, klog.Background())
	return m
}

// has adds a pod with volumes that has a remote pod.
func (m *measured) has(name string, volumes ...corev1.Volume) {
	added := pod(name)
	added.Spec.Volumes = volumes
	m.pods.pods = append(m.pods.pods, added)
	m.pods.remotes["demo/"+name] = &corev1.PodStatus{}
}

func (m *measured) reports(t *testing.T, volumes ...stats.VolumeStats) {
	m.respond = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(stats.PodStats{VolumeStats: volumes}); err != nil {
			t.Error(err)
		}
	}
}

// figures returns the lines of /metrics about volumes.
func (m *measured) figures(t *testing.T) []string {
	t.Helper()
	response := httptest.NewRecorder()
	m.Handler(metrics.NewKubeRegistry()).ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var lines []string
	for _, line := range strings.Split(response.Body.String(), "\n") {
		if line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimPrefix(line, "kubelet_volume_stats_"))
		}
	}
	return lines
}

func claimed(name, claim string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}
}

func used(name string, bytes uint64) stats.VolumeStats {
	return stats.VolumeStats{
		Name:    name,
		PVCRef:  &stats.PVCReference{Namespace: "kube-system", Name: "of-the-provider"},
		FsStats: stats.FsStats{UsedBytes: ptr.To(bytes)},
	}
}

func TestVolumesAreReportedByTheirLocalClaims(t *testing.T) {
	m := newMeasured(t)
	m.has("web", claimed("data", "data-web"), corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{},
	}})
	data := used("data", 7)
	data.CapacityBytes, data.AvailableBytes = ptr.To[uint64](10), ptr.To[uint64](3)
	data.Inodes, data.InodesFree, data.InodesUsed = ptr.To[uint64](5), ptr.To[uint64](4), ptr.To[uint64](1)
	m.reports(t, data, used("scratch", math.MaxUint64), used("scratch", 1), used("of-another", 1))
	want := []string{
		`available_bytes{namespace="demo",persistentvolumeclaim="data-web"} 3`,
		`capacity_bytes{namespace="demo",persistentvolumeclaim="data-web"} 10`,
		`inodes{namespace="demo",persistentvolumeclaim="data-web"} 5`,
		`inodes_free{namespace="demo",persistentvolumeclaim="data-web"} 4`,
		`inodes_used{namespace="demo",persistentvolumeclaim="data-web"} 1`,
		`used_bytes{namespace="demo",persistentvolumeclaim="data-web"} 7`,
		`used_bytes{namespace="demo",persistentvolumeclaim="web-scratch"} 1.152921504606847e+18`,
	}
	if diff := cmp.Diff(want, m.figures(t)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}

	response := httptest.NewRecorder()
	summary(nodeName, m.pods, m.Volumes)(response, httptest.NewRequest(http.MethodGet, "/stats/summary", nil))
	var got stats.Summary
	if err := json.Unmarshal(response.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	volumes, claim := got.Pods[0].VolumeStats, stats.PVCReference{Namespace: "demo", Name: "data-web"}
	if len(volumes) != 2 || *volumes[0].PVCRef != claim || *volumes[0].UsedBytes != 7 {
		t.Errorf("the summary has volumes %+v", volumes)
	}
	path := "/apis/federation.liqo.io/v1alpha1/namespaces/demo-rome/shadowpods/web/stats"
	if diff := cmp.Diff([]string{path}, m.requests); diff != "" {
		t.Errorf("requests for two readers (-want +got):\n%s", diff)
	}
}

func TestAClaimOfSeveralPodsIsReportedOnce(t *testing.T) {
	m := newMeasured(t)
	m.has("web-0", claimed("data", "shared"))
	m.has("web-1", claimed("data", "shared"))
	m.reports(t, used("data", 7))
	want := []string{`used_bytes{namespace="demo",persistentvolumeclaim="shared"} 7`}
	if diff := cmp.Diff(want, m.figures(t)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestVolumesAreReadForPodsWithClaimsAndOncePer30Seconds(t *testing.T) {
	m := newMeasured(t)
	m.reports(t, used("data", 7))
	m.has("without", corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{},
	}})
	m.has("waits", claimed("data", "data"))
	delete(m.pods.remotes, "demo/waits")
	if got := m.figures(t); len(got)+len(m.requests) > 0 {
		t.Errorf("metrics %v, requests %v", got, m.requests)
	}
	m.has("web", claimed("data", "data"))
	m.clock.SetTime(m.clock.Now().Add(volumesAge))
	for range 3 {
		if got := m.all(); len(got) != 1 {
			t.Errorf("got %v", got)
		}
	}
	m.clock.SetTime(m.clock.Now().Add(volumesAge))
	m.all()
	if len(m.requests) != 2 {
		t.Errorf("requests %v", m.requests)
	}
}

func TestVolumesThatTheProviderDoesNotReportAreOmitted(t *testing.T) {
	for name, response := range map[string]http.HandlerFunc{
		"an older version": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"no rights":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"invalid JSON": func(w http.ResponseWriter, _ *http.Request) {
			if _, err := w.Write([]byte("<html>")); err != nil {
				t.Error(err)
			}
		},
		"response that is too long": func(w http.ResponseWriter, _ *http.Request) {
			// Writing fails, because the client stops reading at maxPodStats.
			_, _ = w.Write([]byte(`{"podRef":{"name":"` + strings.Repeat("x", maxPodStats) + `"}}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeasured(t)
			m.has("web", claimed("data", "data"))
			m.respond = response
			if got := m.figures(t); len(got) > 0 {
				t.Errorf("metrics %v", got)
			}
		})
	}
}
