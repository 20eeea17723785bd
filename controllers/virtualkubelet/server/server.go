// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server serves the kubelet API of a virtual node. Logs, exec, attach and port-forward are proxied to the
// provider's API server with the peering identity. As in a kubelet, every request except health probes is authenticated
// and authorized by the local cluster.
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

// Pods reads the pods of the virtual node.
type Pods interface {
	// List returns the local pods that are bound to the node.
	List() []*corev1.Pod
	// Find returns the local pod with the name, or nil, and its remote namespace, which is empty while the local
	// namespace has none.
	Find(namespace, name string) (pod *corev1.Pod, remoteNamespace string)
	// RemoteStatus returns the status of the remote pod, or nil if there is none.
	RemoteStatus(namespace, name string) *corev1.PodStatus
}

// Config is the configuration of New. All pointers, interfaces and functions are required, except Volumes and Provider
// where their endpoints are not requested.
type Config struct {
	NodeName string
	Pods     Pods
	// Provider is the API server that logs and streams are proxied to.
	Provider *Provider
	Auth     *Auth
	// Metrics serves /metrics, including the usage of volumes.
	Metrics http.Handler
	// Volumes is the usage of volumes in /stats/summary.
	Volumes *Volumes
	// Usage serves /metrics/resource.
	Usage http.Handler
	// Ready returns the reason for which the virtual kubelet is not ready, or nil.
	Ready func() error
	// Profiling enables /debug/pprof, which requires the right to get nodes/proxy.
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
		// pprof.Index also serves the profile that is named after the prefix.
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

// cleanPaths returns 404 for a path that is not clean, for which http.ServeMux would send a redirect.
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
