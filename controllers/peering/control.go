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

// ControlProxy is the proxy of this cluster's gateway, which knows the way to
// the providers that are reached by their tunnels.
type ControlProxy struct {
	// URL is where it is; empty: there is none.
	URL string
	// CAFile holds the certificate authorities that it is verified with, and
	// TokenFile the token that it is shown.
	CAFile, TokenFile string
}

// AddFlags binds the proxy to flags.
func (p *ControlProxy) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&p.URL, "control-proxy", p.URL, "The https URL of the gateway's proxy to providers whose spec.mode is InBand. Empty reaches none of them.")
	fs.StringVar(&p.CAFile, "control-proxy-ca-file", p.CAFile, "The PEM file with the certificate authorities of --control-proxy.")
	fs.StringVar(&p.TokenFile, "control-proxy-token-file", p.TokenFile, "The file with the token of this process for --control-proxy.")
}

// Validate tells what is wrong.
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

var errNoControlProxy = errors.New("this installation has no gateway that leads to providers by the tunnel: set network.enabled in the values of the chart")

// reach is how a provider is reached, by an identity without any credentials.
func (p ControlProxy) reach(fc *v1alpha1.ForeignCluster) (*remote.Identity, error) {
	way := &remote.Identity{Server: fc.Spec.Server, CA: fc.Spec.CABundle, ProxyURL: fc.Spec.ProxyURL}
	if fc.Spec.Mode != v1alpha1.PeeringInBand {
		return way, nil
	}
	if p.URL == "" {
		return nil, errNoControlProxy
	}
	authorities, err := os.ReadFile(p.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authorities of the gateway's proxy: %w", err)
	}
	way.ProxyURL, way.ProxyCA, way.Control = p.URL, authorities, fc.Spec.ClusterID
	return way, nil
}

// alike tells whether two identities reach a provider in the same way.
func alike(a, b *remote.Identity) bool {
	return a.Server == b.Server && string(a.CA) == string(b.CA) && a.ProxyURL == b.ProxyURL &&
		string(a.ProxyCA) == string(b.ProxyCA) && a.Control == b.Control
}

// along has an identity reach a provider as another one does.
func along(identity, way *remote.Identity) {
	identity.Server, identity.CA, identity.ProxyURL = way.Server, way.CA, way.ProxyURL
	identity.ProxyCA, identity.Control = way.ProxyCA, way.Control
}
