// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

func TestStatsOneMissingPod(t *testing.T) {
	n := startNode(t, func(http.ResponseWriter, *http.Request) {})
	started := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	n.pods.pods = append(n.pods.pods, pod("missing"))
	n.pods.remotes = map[string]*corev1.PodStatus{"demo/web": {
		StartTime: &started,
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}},
			{Name: "waits", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}},
		},
	}}
	response := n.do(t, n.config(n.authority), http.MethodGet, "/stats/summary")
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET /stats/summary: %s", response.Status)
	}
	var summary stats.Summary
	if err := json.NewDecoder(response.Body).Decode(&summary); err != nil {
		t.Fatal(err)
	}
	if summary.Node.NodeName != nodeName || summary.Node.CPU != nil || summary.Node.Memory != nil {
		t.Errorf("node %+v, want its name and no usage", summary.Node)
	}
	if len(summary.Pods) != 1 || summary.Pods[0].PodRef.Name != "web" || !summary.Pods[0].StartTime.Equal(&started) {
		t.Fatalf("pods %+v, want the one that the provider has", summary.Pods)
	}
	if containers := summary.Pods[0].Containers; len(containers) != 1 || containers[0].Name != "app" {
		t.Errorf("containers %+v, want the one that runs", containers)
	}
}

// converse sends a line to an address and returns all that it receives until the connection is closed.
func converse(address, line string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, line); err != nil {
		return "", err
	}
	response, err := io.ReadAll(conn)
	return string(response), err
}
