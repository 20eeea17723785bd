// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server serves the kubelet API of a virtual node. It proxies logs, exec, attach and port-forward to the
// provider's API server with the consumer's identity. The local cluster authenticates and authorizes every request but
// health probes, as for a kubelet.
package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/pprof"
	"path"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// Pods returns the pods of the virtual node.
type Pods interface {
	// List returns the local pods that are bound to the node.
	List() []*corev1.Pod
	// Find returns a local pod, or nil if the pod does not exist, and the remote namespace of its namespace, or empty if
	// there is none.
	Find(namespace, name string) (pod *corev1.Pod, remoteNamespace string)
	// RemoteStatus returns the status of the remote pod of a local pod, or nil if there is no remote pod.
	RemoteStatus(namespace, name string) *corev1.PodStatus
}

// Config has the sources and handlers that New needs. All pointers, interfaces and functions are required; tests may
// omit Volumes and Provider if they do not request the endpoints that use them.
type Config struct {
	NodeName string
	Pods     Pods
	// Provider is the API server that logs and streams are proxied to.
	Provider *Provider
	Auth     *Auth
	// Metrics serves /metrics, with the usage of volumes.
	Metrics http.Handler
	// Volumes reads the usage of volumes for /stats/summary.
	Volumes *Volumes
	// Usage serves /metrics/resource.
	Usage http.Handler
	// Ready returns nil, or the reason why the virtual kubelet is not ready.
	Ready func() error
	// Profiling enables /debug/pprof, for clients that may get nodes/proxy.
	Profiling bool
}

// New returns the handler of the kubelet API and of the health probes.
func New(config Config) http.Handler {
	api := http.NewServeMux()
	s := &streams{pods: config.Pods, provider: config.Provider}
	api.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.logs)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		api.HandleFunc(method+" /exec/{namespace}/{pod}/{container}", s.exec)
		api.HandleFunc(method+" /attach/{namespace}/{pod}/{container}", s.attach)
		api.HandleFunc(method+" /portForward/{namespace}/{pod}", s.portForward)
	}
	api.HandleFunc("GET /pods", pods(config.Pods))
	api.HandleFunc("GET /stats/summary", summary(config.NodeName, config.Pods, config.Volumes))
	api.Handle("GET /metrics", config.Metrics)
	api.Handle("GET /metrics/resource", config.Usage)
	if config.Profiling {
		api.HandleFunc("GET /debug/pprof", pprof.Index)
		// pprof.Index serves the named profiles too, for example heap.
		api.HandleFunc("GET /debug/pprof/{profile}", pprof.Index)
		api.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		api.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}

	all := http.NewServeMux()
	all.HandleFunc("GET /healthz", healthy)
	all.HandleFunc("GET /livez", healthy)
	all.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := errors.Join(config.Ready(), config.Auth.Ready()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		healthy(w, r)
	})
	all.Handle("/", config.Auth.Protect(api))
	return cleanPaths(all)
}

// cleanPaths returns a handler that responds with 404 to paths that are not clean, which http.ServeMux would redirect.
func cleanPaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Clean(r.URL.Path) != r.URL.Path {
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func healthy(w http.ResponseWriter, r *http.Request) {
	if _, err := w.Write([]byte("ok")); err != nil {
		klog.FromContext(r.Context()).V(4).Info("Client disconnected", "err", err)
	}
}

func pods(source Pods) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
		for _, pod := range source.List() {
			list.Items = append(list.Items, *pod)
		}
		writeJSON(w, r, list)
	}
}

func writeJSON(w http.ResponseWriter, r *http.Request, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		klog.FromContext(r.Context()).V(4).Info("Client disconnected", "err", err)
	}
}
