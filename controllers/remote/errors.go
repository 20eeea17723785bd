// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"liqo.io/federation/apiserver/printable"
)

// MaxText is the maximum length of a text of a peer in statuses and events, in bytes.
const MaxText = 512

// Unreachable reports whether a request failed without a response of the peer's API server.
func Unreachable(err error) bool {
	var status apierrors.APIStatus
	return err != nil && !errors.As(err, &status)
}

// Rejected reports whether a peer rejected the identity, or denied it the permission for a request.
func Rejected(err error) bool {
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)
}

// Refused reports whether an API server, local or remote, refused a write as invalid, malformed, too large or
// forbidden, for example by a policy or a quota.
func Refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}

// Describe returns a description, for a status, of the error of a request to a peer. The description is the same for
// each attempt: it contains no local ports and no request ids.
func Describe(err error) string {
	var (
		status       apierrors.APIStatus
		operation    *net.OpError
		verification *tls.CertificateVerificationError
		lookup       *net.DNSError
		proxy        *ProxyError
	)
	switch {
	case errors.As(err, &proxy):
		return Text(fmt.Sprintf("the proxy %s: %s", proxy.Proxy, Describe(proxy.Err)))
	case errors.As(err, &status):
		return Text(status.Status().Message)
	case errors.As(err, &verification):
		return Text("its certificate is not trusted: " + verification.Err.Error())
	case errors.Is(err, ErrAddress):
		return "dialling its server is forbidden: " + ErrAddress.Error()
	case errors.Is(err, ErrRedirect), errors.Is(err, ErrUpgrade), errors.Is(err, ErrEncoding),
		errors.Is(err, ErrResponseTooLarge), errors.Is(err, ErrTooManyElements), errors.Is(err, ErrTooManyEvents),
		errors.Is(err, ErrBusy), errors.Is(err, ErrReset), errors.Is(err, errResponseTimeout):
		return Text(innermost(err).Error())
	case errors.As(err, &lookup):
		return Text("its name cannot be resolved: " + lookup.Err)
	case errors.As(err, &operation):
		// The error contains the local port, which differs between attempts.
		return Text(fmt.Sprintf("%s %v: %v", operation.Op, operation.Addr, operation.Err))
	case errors.Is(err, context.DeadlineExceeded):
		return "timed out"
	}
	return Text(innermost(err).Error())
}

func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// Text returns a text of a peer as one line without control characters, cut to MaxText.
func Text(s string) string { return printable.Line(s, MaxText) }
