// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"errors"
	"net/url"

	"k8s.io/component-base/metrics"
)

var responsesRefused = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace: "federation",
	Name:      "peer_responses_refused_total",
	Help: "Requests to a peer that failed because its responses are refused or late, by the host of its API server and " +
		"reason: Redirect, Upgrade, Encoding, TooLarge, TooManyElements, TooManyEvents, after which objects are listed " +
		"again, Timeout or Busy.",
	StabilityLevel: metrics.ALPHA,
}, []string{"server", "reason"})

// RegisterMetrics registers the counter of requests to peers that failed because responses are refused or late. It
// fails if register fails.
func RegisterMetrics(register func(metrics.Registerable) error) error {
	return register(responsesRefused)
}

// countRefused returns a function that counts a refused response of the server with this URL, by its error.
func countRefused(server string) func(error) {
	host := server
	if parsed, err := url.Parse(server); err == nil {
		host = parsed.Host
	}
	return func(err error) { responsesRefused.WithLabelValues(host, refusalReason(err)).Inc() }
}

func refusalReason(err error) string {
	switch {
	case errors.Is(err, ErrRedirect):
		return "Redirect"
	case errors.Is(err, ErrUpgrade):
		return "Upgrade"
	case errors.Is(err, ErrEncoding):
		return "Encoding"
	case errors.Is(err, ErrResponseTooLarge):
		return "TooLarge"
	case errors.Is(err, ErrTooManyElements):
		return "TooManyElements"
	case errors.Is(err, ErrTooManyEvents):
		return "TooManyEvents"
	case errors.Is(err, ErrBusy):
		return "Busy"
	}
	return "Timeout"
}
