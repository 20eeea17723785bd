// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logging keeps secrets out of logs, however much is logged.
package logging

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// mostVerbose is the last level before clients log the bodies of requests and
// answers, among them Secrets.
const mostVerbose = 7

// WithoutBodies returns a context for requests whose bodies nobody is to read
// in a log: its logger is silent above the level where clients begin to write
// them down.
func WithoutBodies(ctx context.Context) context.Context {
	logger := klog.FromContext(ctx)
	return klog.NewContext(ctx, logger.WithSink(capped{logger.GetSink()}))
}

// capped is a sink that is never more verbose than mostVerbose.
type capped struct{ logr.LogSink }

// Enabled tells whether a level is logged.
func (c capped) Enabled(level int) bool { return level <= mostVerbose && c.LogSink.Enabled(level) }

// WithValues is as silent.
func (c capped) WithValues(pairs ...any) logr.LogSink { return capped{c.LogSink.WithValues(pairs...)} }

// WithName is as silent.
func (c capped) WithName(name string) logr.LogSink { return capped{c.LogSink.WithName(name)} }

// WithCallDepth keeps telling where a line comes from.
func (c capped) WithCallDepth(depth int) logr.LogSink {
	if sink, ok := c.LogSink.(logr.CallDepthLogSink); ok {
		return capped{sink.WithCallDepth(depth)}
	}
	return c
}

var _ logr.CallDepthLogSink = capped{}
