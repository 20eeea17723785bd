// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// flushInterval is negative, which makes the proxy flush each line of a followed log immediately.
const flushInterval = -1 * time.Millisecond

// Provider has the address of a provider's API server and the transports that connect to it.
type Provider struct {
	location  url.URL
	transport http.RoundTripper
	// upgrades has connections of its own: client-go closes the connections of transport when the identity is renewed,
	// which would end open streams.
	upgrades proxy.UpgradeRequestRoundTripper
}

// NewProvider returns the Provider for a client configuration. It fails if the configuration is invalid.
func NewProvider(config *rest.Config) (*Provider, error) {
	location, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	upgrades, err := forUpgrades(config)
	if err != nil {
		return nil, err
	}
	return &Provider{location: *location, transport: transport, upgrades: upgrades}, nil
}

// forUpgrades returns a transport for upgrade requests with the dialer, the TLS settings and the credentials of the
// configuration. The upgrade request does not pass through rest.TransportFor, so the wrappers that add the token are
// applied to it here. It fails if the configuration is invalid.
func forUpgrades(config *rest.Config) (proxy.UpgradeRequestRoundTripper, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	if tlsConfig == nil {
		// A nil configuration would disable the verification of the server's certificate; an empty one uses the system's CAs.
		tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config = rest.CopyConfig(config)
	// Wrappers in WrapTransport would receive no responses, because wrappers are applied to a copy of the request only.
	config.WrapTransport = nil
	wrappers, err := rest.HTTPWrappersForConfig(config, proxy.MirrorRequest)
	if err != nil {
		return nil, err
	}
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	connections := &http.Transport{DialContext: limitedDial(dial), TLSClientConfig: tlsConfig}
	return proxy.NewUpgradeRequestRoundTripper(connections, wrappers), nil
}

// streams proxies logs, exec, attach and port-forward. It builds the path for the provider from the names of a pod of
// this node and the query from known options; it copies nothing else of the requested URL. Upgraded connections are
// copied unchanged, so that resizing, exit codes and half-closed streams work as the two API servers negotiate them.
type streams struct {
	pods     Pods
	provider *Provider
}

func (s *streams) logs(w http.ResponseWriter, r *http.Request) {
	s.container(w, r, "log", false, logQuery)
}

func (s *streams) exec(w http.ResponseWriter, r *http.Request) {
	s.container(w, r, "exec", true, func(query url.Values) (url.Values, error) {
		result, err := streamQuery(query)
		if err == nil && len(query["command"]) == 0 {
			err = fmt.Errorf("command is missing")
		}
		if err == nil {
			result["command"] = query["command"]
		}
		return result, err
	})
}

func (s *streams) attach(w http.ResponseWriter, r *http.Request) {
	s.container(w, r, "attach", true, streamQuery)
}

func (s *streams) portForward(w http.ResponseWriter, r *http.Request) {
	pod, remoteNamespace := s.find(w, r)
	if pod == nil {
		return
	}
	query := url.Values{}
	for _, port := range r.URL.Query()["port"] {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			http.Error(w, fmt.Sprintf("invalid port %q", port), http.StatusBadRequest)
			return
		}
		query.Add("ports", port)
	}
	s.forward(w, r, remoteNamespace, pod.Name, "portforward", query, true)
}

func (s *streams) container(
	w http.ResponseWriter,
	r *http.Request,
	subresource string,
	upgrade bool,
	translate func(url.Values) (url.Values, error),
) {
	pod, remoteNamespace := s.find(w, r)
	if pod == nil {
		return
	}
	container := r.PathValue("container")
	if !hasContainer(pod, container) {
		http.Error(w, fmt.Sprintf("container %q not found in pod %s", container, klog.KObj(pod)), http.StatusNotFound)
		return
	}
	query, err := translate(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	query.Set("container", container)
	s.forward(w, r, remoteNamespace, pod.Name, subresource, query, upgrade)
}

// find returns the local pod that a request names, and its remote namespace. If either does not exist, it responds with
// 404 and returns nil.
func (s *streams) find(w http.ResponseWriter, r *http.Request) (*corev1.Pod, string) {
	namespace, name := r.PathValue("namespace"), r.PathValue("pod")
	pod, remoteNamespace := s.pods.Find(namespace, name)
	switch {
	case pod == nil:
		http.Error(w, fmt.Sprintf("pod %q not found in namespace %q", name, namespace), http.StatusNotFound)
		return nil, ""
	case remoteNamespace == "":
		http.Error(w, fmt.Sprintf("pod %s has no remote pod", klog.KObj(pod)), http.StatusNotFound)
		return nil, ""
	}
	return pod, remoteNamespace
}

// forward proxies a request to a subresource of a remote pod. It sends only the headers of the streaming protocols,
// because the client's identity has no meaning on the provider.
func (s *streams) forward(
	w http.ResponseWriter,
	r *http.Request,
	namespace, pod, subresource string,
	query url.Values,
	upgrade bool,
) {
	location := *s.provider.location.JoinPath("api", "v1", "namespaces", namespace, "pods", pod, subresource)
	location.RawQuery = query.Encode()

	request := r.Clone(r.Context())
	request.Header = http.Header{}
	for _, name := range []string{
		"Connection", "Upgrade", "X-Stream-Protocol-Version", "Accept", "Content-Type",
		"Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Protocol", "Sec-Websocket-Extensions",
	} {
		if values := r.Header.Values(name); len(values) > 0 {
			request.Header[name] = values
		}
	}
	// Without a remote address, the proxy does not set X-Forwarded-For, which would disclose the address of the consumer's
	// API server.
	request.RemoteAddr = ""
	// For requests without an upgrade, the proxy uses the query of the request, not the location's.
	request.URL = &location

	handler := proxy.NewUpgradeAwareHandler(&location, s.provider.transport, false, upgrade, responder{})
	handler.UpgradeTransport = s.provider.upgrades
	handler.UseLocationHost = true
	handler.FlushInterval = flushInterval
	handler.RejectForwardingRedirects = true
	if upgrade {
		begin := &beginning{ResponseWriter: w}
		handler.ServeHTTP(begin, request.WithContext(context.WithValue(request.Context(), beginningKey{}, begin)))
		return
	}
	handler.ServeHTTP(w, request)
}

// responder responds to requests that cannot be proxied.
type responder struct{}

// Error implements proxy.ErrorResponder.
func (responder) Error(w http.ResponseWriter, r *http.Request, err error) {
	klog.FromContext(r.Context()).V(2).Info("Request to the provider failed", "err", err)
	http.Error(w, fmt.Sprintf("sending the request to the provider: %v", err), http.StatusBadGateway)
}

func hasContainer(pod *corev1.Pod, name string) bool {
	is := func(c corev1.Container) bool { return c.Name == name }
	isEphemeral := func(c corev1.EphemeralContainer) bool { return c.Name == name }
	return slices.ContainsFunc(pod.Spec.Containers, is) || slices.ContainsFunc(pod.Spec.InitContainers, is) ||
		slices.ContainsFunc(pod.Spec.EphemeralContainers, isEphemeral)
}
