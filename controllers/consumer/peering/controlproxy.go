// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/spf13/pflag"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
)

// ControlProxy is the proxy of this cluster's gateway, through which providers are reached by
// their tunnels.
type ControlProxy struct {
	// URL is the https URL of the proxy. Empty means that there is none.
	URL string
	// CAFile has the PEM certificate authorities of the proxy, TokenFile the token of this
	// process for it.
	CAFile, TokenFile string
}

// AddFlags adds the flags of the proxy.
func (p *ControlProxy) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&p.URL, "control-proxy", p.URL,
		"https URL of the gateway's proxy to providers whose spec.mode is InBand. Empty connects to none of them.")
	fs.StringVar(&p.CAFile, "control-proxy-ca-file", p.CAFile,
		"PEM file with the certificate authorities of --control-proxy. Required with it.")
	fs.StringVar(&p.TokenFile, "control-proxy-token-file", p.TokenFile,
		"File with the token of this process for --control-proxy. Required with it.")
}

// Validate returns an error for each invalid flag.
func (p *ControlProxy) Validate() []error {
	if p.URL == "" {
		return nil
	}
	var errs []error
	if parsed, err := url.Parse(p.URL); err != nil || parsed.Scheme != "https" || parsed.Host == "" || parsed.User != nil {
		errs = append(errs, fmt.Errorf("--control-proxy %q: must be an https URL", p.URL))
	}
	if p.CAFile == "" || p.TokenFile == "" {
		errs = append(errs, errors.New("--control-proxy needs --control-proxy-ca-file and --control-proxy-token-file"))
	}
	return errs
}

var errNoControlProxy = errors.New("this installation has no gateway through which providers are reached: " +
	"set network.enabled in the values of the chart")

// route returns how a provider is reached, as an identity without credentials. It fails for
// a provider that is reached through its tunnel if there is no proxy.
func (p ControlProxy) route(fc *v1alpha1.ForeignCluster) (*remote.Identity, error) {
	route := &remote.Identity{Server: fc.Spec.Server, CA: fc.Spec.CABundle, ProxyURL: fc.Spec.ProxyURL}
	if fc.Spec.Mode != v1alpha1.PeeringInBand {
		return route, nil
	}
	if p.URL == "" {
		return nil, errNoControlProxy
	}
	authorities, err := os.ReadFile(p.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authorities of the gateway's proxy: %w", err)
	}
	route.ProxyURL, route.ProxyCA, route.Control = p.URL, authorities, fc.Spec.ClusterID
	return route, nil
}

// invitedIdentity returns the identity of the holder of an invitation.
func (p ControlProxy) invitedIdentity(fc *v1alpha1.ForeignCluster, token string) (*remote.Identity, error) {
	identity, err := p.route(fc)
	if err != nil {
		return nil, err
	}
	identity.Token = token
	return identity, nil
}

// sameRoute reports whether two identities reach a provider in the same way.
func sameRoute(a, b *remote.Identity) bool {
	return a.Server == b.Server && string(a.CA) == string(b.CA) && a.ProxyURL == b.ProxyURL &&
		string(a.ProxyCA) == string(b.ProxyCA) && a.Control == b.Control
}

// setRoute changes the way in which an identity reaches a provider.
func setRoute(identity, route *remote.Identity) {
	identity.Server, identity.CA, identity.ProxyURL = route.Server, route.CA, route.ProxyURL
	identity.ProxyCA, identity.Control = route.ProxyCA, route.Control
}
