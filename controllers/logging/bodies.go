// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logging keeps Secrets out of logs at any verbosity.
package logging

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// maxVerbosity is the highest verbosity at which clients do not log the bodies of requests and responses.
const maxVerbosity = 7

// WithoutBodies returns a context whose logger logs nothing above verbosity 7, so that client-go does not log the
// bodies of requests and responses, which may contain Secrets.
func WithoutBodies(ctx context.Context) context.Context {
	logger := klog.FromContext(ctx)
	return klog.NewContext(ctx, logger.WithSink(capped{logger.GetSink()}))
}

// capped is a sink with a verbosity of at most maxVerbosity.
type capped struct{ logr.LogSink }

// Enabled implements logr.LogSink.
func (c capped) Enabled(level int) bool { return level <= maxVerbosity && c.LogSink.Enabled(level) }

// WithValues implements logr.LogSink.
func (c capped) WithValues(pairs ...any) logr.LogSink { return capped{c.LogSink.WithValues(pairs...)} }

// WithName implements logr.LogSink.
func (c capped) WithName(name string) logr.LogSink { return capped{c.LogSink.WithName(name)} }

// WithCallDepth implements logr.CallDepthLogSink.
func (c capped) WithCallDepth(depth int) logr.LogSink {
	if sink, ok := c.LogSink.(logr.CallDepthLogSink); ok {
		return capped{sink.WithCallDepth(depth)}
	}
	return c
}

var _ logr.CallDepthLogSink = capped{}
