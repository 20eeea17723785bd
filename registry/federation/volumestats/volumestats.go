// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volumestats reads the usage of volumes from the kubelets of this cluster, on demand.
package volumestats

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/clock"
)

const (
	// maxAge is how long the answer of a kubelet is reused. Kubelets measure volumes once
	// a minute.
	maxAge = 30 * time.Second
	// timeout bounds a request to a kubelet.
	timeout = 5 * time.Second
	// maxSummary bounds the answer of a kubelet, in bytes.
	maxSummary = 32 << 20
)

// Reader reads the usage of volumes, at most once in 30 seconds from each node.
type Reader struct {
	client   kubernetes.Interface
	kubelets *http.Client
	clock    clock.PassiveClock

	mu    sync.Mutex
	nodes map[string]*node
}

// node is the last answer of one kubelet. Its mutex is held while the kubelet is read,
// so that requests at the same time share one answer.
type node struct {
	mu      sync.Mutex
	read    time.Time
	err     error
	volumes map[string][]stats.VolumeStats // by the UID of the pod
}

// New returns a reader that reads nodes by client, and their kubelets by kubelets.
func New(client kubernetes.Interface, kubelets *http.Client, clock clock.PassiveClock) *Reader {
	return &Reader{client: client, kubelets: kubelets, clock: clock, nodes: map[string]*node{}}
}

// Client returns a client for kubelets, with the credentials and the certificate
// authority for this cluster's API server. It always verifies the certificates of
// kubelets, and follows no redirect. An error means that config is malformed.
func Client(config *rest.Config) (*http.Client, error) {
	config = rest.CopyConfig(config)
	config.Insecure, config.ServerName, config.Timeout = false, "", timeout
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for kubelets: %w", err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client, nil
}

// Volumes returns the usage of the volumes of a pod that have claims. It is empty while
// the kubelet has not measured them. An error means that the kubelet cannot be read.
func (r *Reader) Volumes(ctx context.Context, pod *corev1.Pod) ([]stats.VolumeStats, error) {
	if pod.Spec.NodeName == "" {
		return nil, nil
	}
	n := r.node(pod.Spec.NodeName)
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := r.clock.Now(); now.Sub(n.read) >= maxAge {
		n.volumes, n.err = r.summary(ctx, pod.Spec.NodeName)
		n.read = now
	}
	return n.volumes[string(pod.UID)], n.err
}

// node returns the entry of a node, and deletes the entries of nodes that are no longer read.
func (r *Reader) node(name string) *node {
	r.mu.Lock()
	defer r.mu.Unlock()
	if entry := r.nodes[name]; entry != nil {
		return entry
	}
	maps.DeleteFunc(r.nodes, func(_ string, n *node) bool {
		if !n.mu.TryLock() {
			return false
		}
		defer n.mu.Unlock()
		return r.clock.Now().Sub(n.read) >= maxAge
	})
	r.nodes[name] = &node{}
	return r.nodes[name]
}

func (r *Reader) summary(ctx context.Context, name string) (map[string][]stats.VolumeStats, error) {
	// The answer is shared: the end of the first request must not cancel it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	found, err := r.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	address, err := kubeletOf(found)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/stats/summary", nil)
	if err != nil {
		return nil, fmt.Errorf("reading volume statistics from the kubelet of node %s: %w", name, err)
	}
	response, err := r.kubelets.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading volume statistics from the kubelet of node %s: %w", name, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading volume statistics from the kubelet of node %s: got status %s",
			name, response.Status)
	}
	var summary stats.Summary
	if err := json.NewDecoder(io.LimitReader(response.Body, maxSummary)).Decode(&summary); err != nil {
		return nil, fmt.Errorf("decoding volume statistics of the kubelet of node %s: %w", name, err)
	}
	return claimsOf(&summary), nil
}

// kubeletOf returns the host:port of the kubelet of a node.
func kubeletOf(node *corev1.Node) (string, error) {
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP && port > 0 {
			return net.JoinHostPort(address.Address, strconv.Itoa(int(port))), nil
		}
	}
	return "", fmt.Errorf("node %s has no internal address or no port of a kubelet", node.Name)
}

// claimsOf returns the usage of the volumes that have claims, by the UID of their pod.
func claimsOf(summary *stats.Summary) map[string][]stats.VolumeStats {
	volumes := map[string][]stats.VolumeStats{}
	for _, pod := range summary.Pods {
		for _, volume := range pod.VolumeStats {
			if volume.PVCRef != nil {
				volumes[pod.PodRef.UID] = append(volumes[pod.PodRef.UID], volume)
			}
		}
	}
	return volumes
}
