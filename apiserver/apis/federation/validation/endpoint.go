// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxURL          = 2048
	maxBundle       = 256 << 10
	maxCertificates = 256
)

// serverURL validates the https URL of a peer's Kubernetes API. Port and path are optional;
// loopback and link-local addresses are refused, since the local cluster would connect to itself.
func serverURL(raw string, path *field.Path) field.ErrorList {
	return remoteURL(raw, path, "https://milan.example.org:6443", "https")
}

// proxyURL validates the http or https URL of a proxy. It must not contain credentials, because
// every reader of the object could read them.
func proxyURL(raw string, path *field.Path) field.ErrorList {
	errs := remoteURL(raw, path, "http://proxy.example.org:3128", "http", "https")
	if parsed, err := url.Parse(raw); err == nil && parsed.Path != "" && parsed.Path != "/" {
		errs = append(errs, field.Invalid(path, truncate(raw), "must not have a path"))
	}
	return errs
}

func remoteURL(raw string, path *field.Path, example string, schemes ...string) field.ErrorList {
	if len(raw) > maxURL {
		return field.ErrorList{field.TooLong(path, "", maxURL)}
	}
	parsed, err := url.Parse(raw)
	if err != nil {
		// The error does not contain the URL: a malformed URL may contain credentials.
		return field.ErrorList{field.Forbidden(path, "must be a URL, for example "+example)}
	}
	if parsed.User != nil {
		return field.ErrorList{field.Forbidden(path, "must not contain a user or a password")}
	}
	if parsed.RawQuery != "" || parsed.ForceQuery || strings.Contains(raw, "#") {
		return field.ErrorList{field.Forbidden(path, "must not contain a query or a fragment")}
	}
	var errs field.ErrorList
	if !slices.Contains(schemes, parsed.Scheme) || parsed.Opaque != "" {
		errs = append(errs, field.Invalid(path, truncate(raw), "must begin with "+strings.Join(schemes, ":// or ")+"://"))
	}
	for element := range strings.SplitSeq(parsed.Path, "/") {
		if element == ".." || element == "." {
			errs = append(errs, field.Invalid(path, truncate(raw), "must not contain . or .. as an element of its path"))
			break
		}
	}
	if port := parsed.Port(); port != "" || strings.HasSuffix(parsed.Host, ":") {
		if number, err := strconv.Atoi(port); err != nil || number < 1 || number > 65535 {
			errs = append(errs, field.Invalid(path, truncate(raw), "must have a port from 1 to 65535, or none"))
		}
	}
	return append(errs, remoteHost(parsed.Hostname(), path)...)
}

// remoteHost validates a host name or IP address that a peer chose. It refuses loopback, link-local
// and multicast addresses, localhost, and ambiguous forms of addresses.
func remoteHost(host string, path *field.Path) field.ErrorList {
	invalid := func(message string) field.ErrorList {
		return field.ErrorList{field.Invalid(path, truncate(host), message)}
	}
	if host == "" {
		return field.ErrorList{field.Required(path, "must have a host")}
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return remoteAddress(address, invalid)
	}
	name := strings.ToLower(host)
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return invalid("must have an IP address or a DNS name as its host")
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return invalid("must not be localhost")
	}
	// Some resolvers interpret names like 127.1 or 0x7f000001 as IP addresses.
	last := name[strings.LastIndex(name, ".")+1:]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil {
		return invalid("must have an IP address in canonical form, or a DNS name that does not end in a number")
	}
	return nil
}

func remoteAddress(address netip.Addr, invalid func(message string) field.ErrorList) field.ErrorList {
	switch plain := address.Unmap(); {
	case plain.Zone() != "":
		return invalid("must not be an address with a zone")
	case plain.IsLoopback(), plain.IsUnspecified():
		return invalid("must not be a loopback or unspecified address")
	case plain.IsLinkLocalUnicast(), plain.IsMulticast():
		return invalid("must not be a link-local or multicast address")
	}
	return nil
}

// caBundle validates a PEM encoded bundle of certificates. An empty bundle is valid.
func caBundle(bundle []byte, path *field.Path) field.ErrorList {
	if len(bundle) == 0 {
		return nil
	}
	if len(bundle) > maxBundle {
		return field.ErrorList{field.TooLong(path, "", maxBundle)}
	}
	refuse := func(format string, args ...any) field.ErrorList {
		return field.ErrorList{field.Invalid(path, fmt.Sprintf("%d bytes", len(bundle)), fmt.Sprintf(format, args...))}
	}
	count := 0
	for rest := bytes.TrimSpace(bundle); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		count++
		if count > maxCertificates {
			return field.ErrorList{field.TooMany(path, count, maxCertificates)}
		}
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			return refuse("must contain only PEM encoded certificates: block %d is not PEM", count)
		}
		if block.Type != "CERTIFICATE" {
			return refuse("must contain only PEM encoded certificates: block %d is of type %q", count, truncate(block.Type))
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return refuse("must contain only valid certificates: parsing certificate %d: %v", count, err)
		}
	}
	return nil
}
