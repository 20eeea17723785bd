// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// chatter is the verbosity at which all messages of etcd are logged.
const chatter = 4

// zapLogger returns a logger that passes warnings and errors of etcd to logger, unless quiet is true. It is
// while etcd starts and stops, when warnings are expected and Start returns errors. If etcd panics, the
// process ends with one line about the directory.
func zapLogger(logger klog.Logger, quiet *atomic.Bool, directory string) *zap.Logger {
	end := giveUp{directory: directory, output: os.Stderr, exit: os.Exit}
	return zap.New(&core{logger: logger, quiet: quiet}, zap.WithPanicHook(end), zap.WithFatalHook(end))
}

// alwaysQuiet is for a logger of a function that returns its errors.
func alwaysQuiet() *atomic.Bool {
	quiet := &atomic.Bool{}
	quiet.Store(true)
	return quiet
}

// giveUp ends the process. etcd panics in its own goroutines, where no caller could recover.
type giveUp struct {
	directory string
	output    io.Writer
	exit      func(code int)
}

// OnWrite writes the reason in one line, and ends the process.
func (g giveUp) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	reason := entry.Message
	encoder := zapcore.NewMapObjectEncoder()
	for _, field := range fields {
		field.AddTo(encoder)
	}
	if err, ok := encoder.Fields["error"]; ok {
		reason = fmt.Sprintf("%s: %v", reason, err)
	}
	fmt.Fprintf(g.output, "data directory %s: etcd gives up: %s: enlarge the volume if it is full, otherwise restore a "+
		"backup or start with an empty directory\n", g.directory, reason)
	g.exit(1)
}

// core is a zapcore.Core on top of a klog.Logger.
type core struct {
	logger klog.Logger
	quiet  *atomic.Bool
	fields []zapcore.Field
}

var _ zapcore.Core = &core{}

func (c *core) Enabled(level zapcore.Level) bool {
	if level >= zapcore.WarnLevel && !c.quiet.Load() {
		return true
	}
	return level >= zapcore.InfoLevel && c.logger.V(chatter).Enabled()
}

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{logger: c.logger, quiet: c.quiet, fields: append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

func (c *core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

func (c *core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	encoder := zapcore.NewMapObjectEncoder()
	for _, field := range append(c.fields[:len(c.fields):len(c.fields)], fields...) {
		field.AddTo(encoder)
	}
	var keysAndValues []any
	for _, key := range slices.Sorted(maps.Keys(encoder.Fields)) {
		keysAndValues = append(keysAndValues, key, encoder.Fields[key])
	}
	switch {
	case entry.Level >= zapcore.ErrorLevel:
		c.logger.Error(errors.New(entry.Message), "Error of etcd", keysAndValues...)
	case entry.Level == zapcore.WarnLevel:
		c.logger.Info("Warning of etcd", append(keysAndValues, "warning", entry.Message)...)
	default:
		c.logger.V(chatter).Info("Message of etcd", append(keysAndValues, "message", entry.Message)...)
	}
	return nil
}

func (c *core) Sync() error { return nil }
