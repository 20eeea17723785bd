// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"liqo.io/federation/generated/clientset/versioned"
)

const (
	qps   = 200
	burst = 400

	userAgent = "federation-peer"
)

// DialFunc connects to host:port.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// Options are the options of clients that send requests to a peer.
type Options struct {
	// Limits bound the responses of the peer. Zero means SharedLimits.
	Limits Limits
	// Calls limits the concurrent calls of all clients of one peer. nil means a limit of Limits.Calls for the clients of
	// this configuration.
	Calls *Calls
	// Dial dials the peer, or the proxy to it. nil means a dialer that refuses addresses of this machine and of its
	// network segment. Tests set another one, because their peers run on this machine.
	Dial DialFunc
}

// Config returns the configuration of clients that authenticate with an identity. An Identity with a token and no
// namespace stands for an invitation. It fails if the server or the proxy of the identity is invalid.
func Config(identity *Identity, options Options) (*rest.Config, error) {
	dial := options.Dial
	if dial == nil {
		dial = newDialer().DialContext
	}
	if err := validateServer(identity.Server); err != nil {
		return nil, err
	}
	config := &rest.Config{
		Host:            identity.Server,
		BearerToken:     identity.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: identity.CA},
	}
	if identity.Token == "" {
		config.CertData, config.KeyData = identity.Certificate, identity.PrivateKey
	}
	switch {
	case identity.Control != "":
		tunnel, err := newControl(identity, dial)
		if err != nil {
			return nil, err
		}
		dial = tunnel.DialContext
	case identity.ProxyURL != "":
		tunnel, err := newTunnel(identity.ProxyURL, identity.CA, dial)
		if err != nil {
			return nil, err
		}
		dial = tunnel.DialContext
	}
	config.Dial = dial
	// The proxy of the environment is not used for peers.
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	config.QPS, config.Burst = qps, burst
	config.UserAgent = userAgent
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	// A peer could fill the log with warnings.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	limits := cmp.Or(options.Limits, SharedLimits)
	calls := options.Calls
	if calls == nil && limits.Calls > 0 {
		calls = NewCalls(limits.Calls)
	}
	refused := countRefused(config.Host)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		limitHeaders(next)
		return newGuard(next, limits, calls, refused)
	})
	return config, nil
}

// limitHeaders limits the headers of responses that a transport of client-go reads, which has not been used yet. guard
// limits the time until they arrive.
func limitHeaders(transport http.RoundTripper) {
	switch transport := transport.(type) {
	case *http.Transport:
		// client-go returns the default transport for configurations without a dialer, which only tests have.
		if transport != http.DefaultTransport {
			transport.MaxResponseHeaderBytes = maxHeader
		}
	case utilnet.RoundTripperWrapper:
		limitHeaders(transport.WrappedRoundTripper())
	}
}

// Clients are the clients of one remote cluster.
type Clients struct {
	// Kube is the client of the Kubernetes API.
	Kube kubernetes.Interface
	// Federation is the client of the federation API.
	Federation versioned.Interface
	// Dynamic is the client of kinds without Go types.
	Dynamic dynamic.Interface
	// Metadata reads only the metadata of objects.
	Metadata metadata.Interface
	// Metrics is the client of the metrics API, which not every cluster serves.
	Metrics metricsclient.PodMetricsesGetter
}

// NewClients returns the clients of a configuration, which share connections. It fails if the configuration is invalid.
func NewClients(config *rest.Config) (*Clients, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client of %s: %w", config.Host, err)
	}
	kube, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("creating a client of %s: %w", config.Host, err)
	}
	federation, err := versioned.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("creating a client of %s: %w", config.Host, err)
	}
	untyped, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("creating a client of %s: %w", config.Host, err)
	}
	partial, err := metadata.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("creating a client of %s: %w", config.Host, err)
	}
	usage, err := metricsclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("creating a client of %s: %w", config.Host, err)
	}
	return &Clients{Kube: kube, Federation: federation, Dynamic: untyped, Metadata: partial, Metrics: usage}, nil
}
