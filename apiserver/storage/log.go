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

// chatter is the log verbosity from which all messages of etcd are logged, also informational ones and those that are
// suppressed by default.
const chatter = 4

// zapLogger returns a zap logger for etcd that writes to logger. Below log verbosity chatter it drops informational
// messages, and all messages while quiet is true. If etcd logs a panic or a fatal error, the logger prints one line
// that names the directory, and ends the process.
func zapLogger(logger klog.Logger, quiet *atomic.Bool, directory string) *zap.Logger {
	end := giveUp{directory: directory, output: os.Stderr, exit: os.Exit}
	return zap.New(&core{logger: logger, quiet: quiet}, zap.WithPanicHook(end), zap.WithFatalHook(end))
}

// alwaysQuiet returns an argument quiet of zapLogger that is always true, for functions of etcd that return their
// errors.
func alwaysQuiet() *atomic.Bool {
	quiet := &atomic.Bool{}
	quiet.Store(true)
	return quiet
}

// giveUp ends the process after etcd logged a panic or a fatal error. etcd panics in its own goroutines, where no
// caller can recover.
type giveUp struct {
	directory string
	output    io.Writer
	exit      func(code int)
}

// OnWrite writes the reason as one line to output, and ends the process with exit code 1.
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

// core is a zapcore.Core that writes to a klog.Logger.
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
