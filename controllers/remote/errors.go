// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// maxText bounds what a peer makes us show to somebody, in characters.
const maxText = 512

// Unreachable tells a peer that did not answer from one that answered no.
func Unreachable(err error) bool {
	var status apierrors.APIStatus
	return err != nil && !errors.As(err, &status)
}

// Rejected tells that a peer does not accept who we are, or does not let us
// do what was asked.
func Rejected(err error) bool {
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)
}

// Refused tells an answer to a write that stays the same, whoever gave it, from
// trouble that passes.
func Refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// Describe says what went wrong with a peer, in words that stay the same from
// try to try, so that they can be shown in a status.
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
		return "its server is not dialled: " + ErrAddress.Error()
	case errors.Is(err, ErrRedirect), errors.Is(err, ErrAnswerTooLarge), errors.Is(err, errAnswerTimeout):
		return Text(innermost(err).Error())
	case errors.As(err, &lookup):
		return Text("its name cannot be resolved: " + lookup.Err)
	case errors.As(err, &operation):
		// The error itself names our port, another one each time.
		return Text(fmt.Sprintf("%s %v: %v", operation.Op, operation.Addr, operation.Err))
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
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

// Text is what a peer says, bounded and without anything that a terminal
// would obey.
func Text(s string) string {
	printable := strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
	if runes := []rune(printable); len(runes) > maxText {
		return string(runes[:maxText]) + "…"
	}
	return printable
}
