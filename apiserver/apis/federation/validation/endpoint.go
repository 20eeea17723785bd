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

// serverURL checks the URL of another cluster's Kubernetes API: https, with
// nothing but a host, a port and a path, and never an address that leads back
// to this machine or its links.
func serverURL(raw string, path *field.Path) field.ErrorList {
	return remoteURL(raw, path, "https://milan.example.org:6443", "https")
}

// proxyURL checks the URL of a proxy on the way to another cluster: http or
// https, with nothing but a host and a port. A credential in it would be read
// by whoever reads the object.
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
		// What cannot be read may hold a credential, so it is not repeated.
		return field.ErrorList{field.Forbidden(path, "must be a URL such as "+example)}
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
			errs = append(errs, field.Invalid(path, truncate(raw), "must have a port between 1 and 65535, or none"))
		}
	}
	return append(errs, remoteHost(parsed.Hostname(), path)...)
}

// remoteHost checks a host name or address that another cluster is to be
// reached at.
func remoteHost(host string, path *field.Path) field.ErrorList {
	invalid := func(why string) field.ErrorList {
		return field.ErrorList{field.Invalid(path, truncate(host), why)}
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
		return invalid("must not lead back to this machine")
	}
	// Some resolvers read 127.1 or 0x7f000001 as addresses.
	last := name[strings.LastIndex(name, ".")+1:]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil {
		return invalid("must have an IP address in its usual form, or a DNS name that does not end in a number")
	}
	return nil
}

func remoteAddress(address netip.Addr, invalid func(why string) field.ErrorList) field.ErrorList {
	switch plain := address.Unmap(); {
	case plain.Zone() != "":
		return invalid("must not have an address with a zone")
	case plain.IsLoopback(), plain.IsUnspecified():
		return invalid("must not lead back to this machine")
	case plain.IsLinkLocalUnicast(), plain.IsMulticast():
		return invalid("must not have a link-local or multicast address")
	}
	return nil
}

// caBundle checks a PEM encoded bundle of certificates; an empty one is fine.
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
			return refuse("must hold PEM encoded certificates and nothing else: block %d is not PEM", count)
		}
		if block.Type != "CERTIFICATE" {
			return refuse("must hold PEM encoded certificates and nothing else: block %d is of type %q", count, truncate(block.Type))
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return refuse("certificate %d cannot be read: %v", count, err)
		}
	}
	return nil
}
