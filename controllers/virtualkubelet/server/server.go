// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server is the kubelet's API for the pods of a virtual node: logs,
// exec, attach and port-forward go on to the provider's API server with the
// peer's rights. Every request but those for health is authenticated and
// authorized by this cluster, as a kubelet does.
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

// Pods are those of the virtual node.
type Pods interface {
	// List is every pod that is bound to the node.
	List() []*corev1.Pod
	// Find is one of them, and the provider's namespace that its copy runs in;
	// empty if there is none.
	Find(namespace, name string) (pod *corev1.Pod, remoteNamespace string)
	// RemoteStatus is how the provider's copy of a pod does; nil if there is none.
	RemoteStatus(namespace, name string) *corev1.PodStatus
}

// Config is what a server is made of.
type Config struct {
	NodeName string
	Pods     Pods
	// Provider is where the pods really are.
	Provider *Provider
	Auth     *Auth
	// Metrics serves the metrics of the virtual kubelet, and how full volumes are.
	Metrics http.Handler
	// Volumes reports how full the volumes of the pods are.
	Volumes *Volumes
	// Usage serves what the containers of the pods use.
	Usage http.Handler
	// Ready returns why the virtual kubelet is not ready, or nil.
	Ready func() error
	// Profiling serves profiles below /debug/pprof, to those who may get
	// nodes/proxy.
	Profiling bool
}

// New makes the handler of all that is served.
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
		// The index has the profiles by name.
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

// cleanPaths refuses paths that have another spelling, instead of redirecting
// to it.
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
		klog.FromContext(r.Context()).V(4).Info("Client went away", "err", err)
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
		klog.FromContext(r.Context()).V(4).Info("Client went away", "err", err)
	}
}
