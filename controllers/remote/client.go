// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"

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

// Config makes the configuration of clients that use an identity, or, with a
// token and no namespace, an invitation.
func Config(identity *Identity) (*rest.Config, error) {
	return ConfigDialing(identity, newDialer().DialContext)
}

// ConfigDialing is Config with another way to dial the peer or the proxy before
// it. Tests need it: their peers are where no other cluster is.
func ConfigDialing(identity *Identity, dial DialFunc) (*rest.Config, error) {
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
	// Whatever proxy the environment names is not for peers.
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	config.QPS, config.Burst = qps, burst
	config.UserAgent = userAgent
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &guard{next: next} })
	return config, nil
}

// Clients talk to one other cluster.
type Clients struct {
	// Kube is its core API.
	Kube kubernetes.Interface
	// Federation is its federation API.
	Federation versioned.Interface
	// Dynamic reads and writes kinds that are known by name only.
	Dynamic dynamic.Interface
	// Metadata reads nothing but the metadata of objects.
	Metadata metadata.Interface
	// Metrics is its metrics API, which not every cluster serves.
	Metrics metricsclient.PodMetricsesGetter
}

// NewClients makes the clients of a configuration; all share its connections.
func NewClients(config *rest.Config) (*Clients, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", config.Host, err)
	}
	kube, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", config.Host, err)
	}
	federation, err := versioned.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", config.Host, err)
	}
	untyped, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", config.Host, err)
	}
	partial, err := metadata.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", config.Host, err)
	}
	usage, err := metricsclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", config.Host, err)
	}
	return &Clients{Kube: kube, Federation: federation, Dynamic: untyped, Metadata: partial, Metrics: usage}, nil
}
