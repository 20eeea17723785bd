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

// ConsumerAPIServer takes the URL apart under which pods that run on providers reach
// the API server of their own cluster. Clients in pods build it from a host and
// a port alone, so there is no path; and it must lead to the same place
// wherever the pod runs.
func ConsumerAPIServer(server string) (host, port string, err error) {
	parsed, err := url.Parse(server)
	if err != nil {
		return "", "", fmt.Errorf("%q is not a URL: %w", server, err)
	}
	if parsed.Scheme != "https" || parsed.User != nil || parsed.Path != "" && parsed.Path != "/" || parsed.RawQuery != "" || parsed.Fragment != "" {
		return "", "", fmt.Errorf("%q is not of the form https://host:port: pods know a host and a port alone", parsed.Redacted())
	}
	host, port = parsed.Hostname(), parsed.Port()
	if address, err := netip.ParseAddr(host); err == nil {
		if !address.IsGlobalUnicast() || address.Zone() != "" {
			return "", "", fmt.Errorf("%s leads to somewhere else on every node: give an address that pods of other clusters reach", host)
		}
	} else if len(validation.IsDNS1123Subdomain(host)) > 0 {
		return "", "", fmt.Errorf("%q is neither an address nor a name", host)
	}
	if port == "" {
		port = "443"
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return "", "", fmt.Errorf("%q is not a port", port)
	}
	return host, port, nil
}
