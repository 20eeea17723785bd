// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"liqo.io/federation/generated/clientset/versioned"
)

const (
	qps   = 200
	burst = 400

	userAgent = "federation-peer"
)

// Config makes the configuration of clients that use an identity.
func Config(identity *Identity) (*rest.Config, error) {
	if err := validateServer(identity.Server); err != nil {
		return nil, err
	}
	return guarded(&rest.Config{
		Host: identity.Server,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   identity.CA,
			CertData: identity.Certificate,
			KeyData:  identity.PrivateKey,
		},
	}), nil
}

// InvitationConfig makes the configuration of clients that pay with the token
// of an invitation. The bundle of authorities is PEM encoded; empty means the
// system's.
func InvitationConfig(server string, ca []byte, token string) (*rest.Config, error) {
	if err := validateServer(server); err != nil {
		return nil, err
	}
	return guarded(&rest.Config{
		Host:            server,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
	}), nil
}

func guarded(config *rest.Config) *rest.Config {
	config.QPS, config.Burst = qps, burst
	config.UserAgent = userAgent
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &guard{next: next} })
	return config
}

// Clients talk to one other cluster.
type Clients struct {
	// Kube is its core API.
	Kube kubernetes.Interface
	// Federation is its federation API.
	Federation versioned.Interface
}

// NewClients makes the clients of a configuration; both share its connections.
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
	return &Clients{Kube: kube, Federation: federation}, nil
}
