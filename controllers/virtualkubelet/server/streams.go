// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/tls"
	"fmt"
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

// flushInterval is negative: each line of a followed log goes on at once.
const flushInterval = -1 * time.Millisecond

// Provider is a provider's API server.
type Provider struct {
	location  url.URL
	transport http.RoundTripper
	// upgrades are made on connections of their own, none of those that are
	// closed when the identity is renewed: whoever is let in stays.
	upgrades proxy.UpgradeRequestRoundTripper
}

// NewProvider makes a provider of the configuration of its clients.
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

// forUpgrades dials as clients do, and gives a request what they would: an
// upgrade is written to the connection itself, so that a token would be
// missing.
func forUpgrades(config *rest.Config) (proxy.UpgradeRequestRoundTripper, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	if tlsConfig == nil {
		// Nothing of our own to verify with means the system's authorities;
		// without a configuration upgrades would verify nothing.
		tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config = rest.CopyConfig(config)
	// What watches the answers sees none here.
	config.WrapTransport = nil
	wrappers, err := rest.HTTPWrappersForConfig(config, proxy.MirrorRequest)
	if err != nil {
		return nil, err
	}
	connections := &http.Transport{DialContext: config.Dial, TLSClientConfig: tlsConfig}
	return proxy.NewUpgradeRequestRoundTripper(connections, wrappers), nil
}

// streams serves what is asked of a container. Nothing of a request's path
// reaches the provider: the path there is made of the names of a pod that is
// known to be on this node, and the query of the options that are known.
// Upgraded connections are passed through as they are, so that whatever the
// two API servers agree on works: resizing, exit codes, half-closed streams.
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
	pod, twin := s.find(w, r)
	if pod == nil {
		return
	}
	query := url.Values{}
	for _, port := range r.URL.Query()["port"] {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			http.Error(w, fmt.Sprintf("port %q is not a port", port), http.StatusBadRequest)
			return
		}
		query.Add("ports", port)
	}
	s.forward(w, r, twin, pod.Name, "portforward", query, true)
}

func (s *streams) container(
	w http.ResponseWriter,
	r *http.Request,
	subresource string,
	upgrade bool,
	translate func(url.Values) (url.Values, error),
) {
	pod, twin := s.find(w, r)
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
	s.forward(w, r, twin, pod.Name, subresource, query, upgrade)
}

// find answers by itself when there is no such pod.
func (s *streams) find(w http.ResponseWriter, r *http.Request) (*corev1.Pod, string) {
	namespace, name := r.PathValue("namespace"), r.PathValue("pod")
	pod, twin := s.pods.Find(namespace, name)
	switch {
	case pod == nil:
		http.Error(w, fmt.Sprintf("pod %q not found in namespace %q", name, namespace), http.StatusNotFound)
		return nil, ""
	case twin == "":
		http.Error(w, fmt.Sprintf("pod %s has no copy on the provider", klog.KObj(pod)), http.StatusNotFound)
		return nil, ""
	}
	return pod, twin
}

// forward asks the provider for a subresource of a pod. Of the headers only
// those of the protocol go with it: whoever asks here is nobody there.
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
	// No X-Forwarded-For: where the consumer's API server is, is its own affair.
	request.RemoteAddr = ""
	// The query of the request replaces that of the location when it is not an
	// upgrade.
	request.URL = &location

	handler := proxy.NewUpgradeAwareHandler(&location, s.provider.transport, false, upgrade, responder{})
	handler.UpgradeTransport = s.provider.upgrades
	handler.UseLocationHost = true
	handler.FlushInterval = flushInterval
	handler.RejectForwardingRedirects = true
	handler.ServeHTTP(w, request)
}

// responder says why the provider could not be asked.
type responder struct{}

// Error answers a request that did not get through.
func (responder) Error(w http.ResponseWriter, r *http.Request, err error) {
	klog.FromContext(r.Context()).V(2).Info("Provider could not be asked", "err", err)
	http.Error(w, fmt.Sprintf("the provider could not be asked: %v", err), http.StatusBadGateway)
}

func hasContainer(pod *corev1.Pod, name string) bool {
	is := func(c corev1.Container) bool { return c.Name == name }
	isEphemeral := func(c corev1.EphemeralContainer) bool { return c.Name == name }
	return slices.ContainsFunc(pod.Spec.Containers, is) || slices.ContainsFunc(pod.Spec.InitContainers, is) ||
		slices.ContainsFunc(pod.Spec.EphemeralContainers, isEphemeral)
}
