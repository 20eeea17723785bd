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

// ControlProxy is the HTTPS proxy of this cluster's gateway. Requests to the API servers of in-band
// providers go through this proxy and the tunnel to the provider.
type ControlProxy struct {
	// URL is the https URL of the proxy. If it is empty, in-band providers cannot be reached.
	URL string
	// CAFile is the PEM file with the certificate authorities of the proxy, and TokenFile the file
	// with the token with which this process authenticates to the proxy.
	CAFile, TokenFile string
}

// AddFlags adds the flags that set p.
func (p *ControlProxy) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&p.URL, "control-proxy", p.URL,
		"https URL of the gateway's proxy to providers whose ForeignCluster has spec.mode InBand. "+
			"If empty, these providers cannot be reached.")
	fs.StringVar(&p.CAFile, "control-proxy-ca-file", p.CAFile,
		"PEM file with the certificate authorities of --control-proxy. Required if --control-proxy is set.")
	fs.StringVar(&p.TokenFile, "control-proxy-token-file", p.TokenFile,
		"File with the token with which this process authenticates to --control-proxy. "+
			"Required if --control-proxy is set.")
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
		errs = append(errs, errors.New("--control-proxy: requires --control-proxy-ca-file and --control-proxy-token-file"))
	}
	return errs
}

var errNoControlProxy = errors.New("this installation has no gateway: set network.enabled in the values of the chart")

// route returns the address, CA and proxy with which a provider is reached, as an identity without
// credentials. For an in-band provider it fails with errNoControlProxy if p.URL is empty, and with
// another error if p.CAFile cannot be read.
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
		return nil, fmt.Errorf("reading --control-proxy-ca-file: %w", err)
	}
	route.ProxyURL, route.ProxyCA, route.Control = p.URL, authorities, fc.Spec.ClusterID
	return route, nil
}

// invitedIdentity returns an identity that authenticates with the token of an invitation. It fails
// in the same cases as route.
func (p ControlProxy) invitedIdentity(fc *v1alpha1.ForeignCluster, token string) (*remote.Identity, error) {
	identity, err := p.route(fc)
	if err != nil {
		return nil, err
	}
	identity.Token = token
	return identity, nil
}

// sameRoute reports whether two identities have the same address, CA and proxy.
func sameRoute(a, b *remote.Identity) bool {
	return a.Server == b.Server && string(a.CA) == string(b.CA) && a.ProxyURL == b.ProxyURL &&
		string(a.ProxyCA) == string(b.ProxyCA) && a.Control == b.Control
}

// setRoute copies address, CA and proxy from route to identity.
func setRoute(identity, route *remote.Identity) {
	identity.Server, identity.CA, identity.ProxyURL = route.Server, route.CA, route.ProxyURL
	identity.ProxyCA, identity.Control = route.ProxyCA, route.Control
}
