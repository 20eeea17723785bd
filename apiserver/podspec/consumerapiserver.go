// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ConsumerAPIServer returns the host and the port of the URL at which pods on providers reach their
// consumer's API server. It fails for a URL with a path, since clients in pods use only host and port,
// and for an IP address that is not global unicast.
func ConsumerAPIServer(server string) (host, port string, err error) {
	parsed, err := url.Parse(server)
	if err != nil {
		return "", "", fmt.Errorf("%q must be a URL: %w", server, err)
	}
	if parsed.Scheme != "https" || parsed.User != nil || parsed.Path != "" && parsed.Path != "/" ||
		parsed.RawQuery != "" || parsed.Fragment != "" {
		return "", "", fmt.Errorf("%q must be https://host:port, without user, path, query and fragment",
			parsed.Redacted())
	}
	host, port = parsed.Hostname(), parsed.Port()
	if address, err := netip.ParseAddr(host); err == nil {
		if !address.IsGlobalUnicast() || address.Zone() != "" {
			return "", "", fmt.Errorf("%s must be an address that pods of other clusters reach, not a loopback or "+
				"link-local one", host)
		}
	} else if len(validation.IsDNS1123Subdomain(host)) > 0 {
		return "", "", fmt.Errorf("%q must be an IP address or a DNS name", host)
	}
	if port == "" {
		port = "443"
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return "", "", fmt.Errorf("%q must be a port from 1 to 65535", port)
	}
	return host, port, nil
}
