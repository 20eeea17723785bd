// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logging keeps Secrets out of logs at any verbosity, and limits the length of errors and strings in logs.
package logging

import (
	"context"
	"errors"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/printable"
)

const (
	// maxVerbosity is the highest verbosity at which clients do not log the bodies of requests and responses.
	maxVerbosity = 7
	// maxValue is the maximum length of an error or a string in bytes.
	maxValue = 2 << 10
)

// WithLimits returns a context whose logger logs nothing above verbosity 7, so that client-go does not log the bodies
// of requests and responses, which may contain Secrets. The logger shortens errors and strings, because client-go logs
// objects of peers that it cannot decode, at any verbosity.
func WithLimits(ctx context.Context) context.Context {
	logger := klog.FromContext(ctx)
	sink := logger.GetSink()
	if deeper, ok := sink.(logr.CallDepthLogSink); ok {
		// The methods of limited are one more call.
		sink = deeper.WithCallDepth(1)
	}
	return klog.NewContext(ctx, logger.WithSink(limited{sink}))
}

// limited is a sink with a verbosity of at most maxVerbosity, and with errors and strings of at most maxValue bytes.
type limited struct{ logr.LogSink }

// Enabled implements logr.LogSink.
func (l limited) Enabled(level int) bool { return level <= maxVerbosity && l.LogSink.Enabled(level) }

// Info implements logr.LogSink.
func (l limited) Info(level int, message string, pairs ...any) {
	l.LogSink.Info(level, message, shortenAll(pairs)...)
}

// Error implements logr.LogSink.
func (l limited) Error(err error, message string, pairs ...any) {
	if short, ok := shorten(err).(error); ok {
		err = short
	}
	l.LogSink.Error(err, message, shortenAll(pairs)...)
}

// WithValues implements logr.LogSink.
func (l limited) WithValues(pairs ...any) logr.LogSink {
	return limited{l.LogSink.WithValues(shortenAll(pairs)...)}
}

// WithName implements logr.LogSink.
func (l limited) WithName(name string) logr.LogSink { return limited{l.LogSink.WithName(name)} }

// WithCallDepth implements logr.CallDepthLogSink.
func (l limited) WithCallDepth(depth int) logr.LogSink {
	if sink, ok := l.LogSink.(logr.CallDepthLogSink); ok {
		return limited{sink.WithCallDepth(depth)}
	}
	return l
}

var _ logr.CallDepthLogSink = limited{}

// shortenAll returns the values with shorten applied to each. It does not change its argument.
func shortenAll(values []any) []any {
	values = slices.Clone(values)
	for i := range values {
		values[i] = shorten(values[i])
	}
	return values
}

// shorten returns a string or an error of at most maxValue bytes, the reference to an object with such a name and
// namespace, and other values as they are.
func shorten(value any) any {
	switch v := value.(type) {
	case string:
		if len(v) > maxValue {
			return printable.Text(v, maxValue)
		}
	case klog.ObjectRef:
		return klog.ObjectRef{Name: printable.Text(v.Name, maxValue), Namespace: printable.Text(v.Namespace, maxValue)}
	case error:
		if text := v.Error(); len(text) > maxValue {
			return errors.New(printable.Text(text, maxValue))
		}
	}
	return value
}
