// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volumestats reads the usage of volumes from the kubelets of the local cluster, on demand.
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
	// maxAge is the time for which the response of a kubelet is cached. Kubelets measure volumes once a minute.
	maxAge = 30 * time.Second
	// timeout is the maximum duration of a request to a kubelet.
	timeout = 5 * time.Second
	// maxSummary is the maximum size of a kubelet's response in bytes.
	maxSummary = 32 << 20
)

// Reader reads the usage of volumes and caches the response of each kubelet for maxAge. It is safe for concurrent use.
type Reader struct {
	client   kubernetes.Interface
	kubelets *http.Client
	clock    clock.PassiveClock

	mu    sync.Mutex
	nodes map[string]*node
}

// node is the last response of a kubelet. Its mutex is held while the kubelet is read, so that concurrent requests
// share one response.
type node struct {
	mu      sync.Mutex
	read    time.Time
	err     error
	volumes map[string][]stats.VolumeStats // by the UID of the pod
}

// New returns a Reader. client reads Nodes, and kubelets is the HTTP client for their kubelets.
func New(client kubernetes.Interface, kubelets *http.Client, clock clock.PassiveClock) *Reader {
	return &Reader{client: client, kubelets: kubelets, clock: clock, nodes: map[string]*node{}}
}

// Client returns an HTTP client for kubelets. It uses the credentials and the CA bundle of config, always verifies the
// certificates of kubelets, and follows no redirects. It fails if config is malformed.
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

// Volumes returns the usage of those volumes of a pod that have a claim; none until the kubelet has measured them. It
// fails if the kubelet cannot be read.
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

// node returns the entry of a node. If it is missing, node adds an empty entry, and deletes the entries of other nodes
// whose response is older than maxAge.
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
	// Other requests may wait for the kubelet's response, so reading it must not stop when the first request ends.
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

// kubeletOf returns host:port of a node's kubelet. It fails if the node has no internal address or no kubelet port.
func kubeletOf(node *corev1.Node) (string, error) {
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP && port > 0 {
			return net.JoinHostPort(address.Address, strconv.Itoa(int(port))), nil
		}
	}
	return "", fmt.Errorf("finding the kubelet of node %s: no internal address or no kubelet port", node.Name)
}

// claimsOf returns the usage of volumes that have a claim, by the UID of their pod.
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
