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

// chatter is the verbosity that shows everything etcd says.
const chatter = 4

// zapLogger lets etcd's warnings and errors appear among ours while it serves.
// While it starts and stops quiet is true: then it complains about what is as
// it should be, or about what Start returns anyhow. When etcd gives up, the
// process ends with one line about the directory.
func zapLogger(logger klog.Logger, quiet *atomic.Bool, directory string) *zap.Logger {
	end := giveUp{directory: directory, output: os.Stderr, exit: os.Exit}
	return zap.New(&core{logger: logger, quiet: quiet}, zap.WithPanicHook(end), zap.WithFatalHook(end))
}

// alwaysQuiet is for a logger of what tells its errors anyhow.
func alwaysQuiet() *atomic.Bool {
	quiet := &atomic.Bool{}
	quiet.Store(true)
	return quiet
}

// giveUp ends the process. etcd gives up in goroutines of its own, so there is
// nobody who could recover and return an error.
type giveUp struct {
	directory string
	output    io.Writer
	exit      func(code int)
}

// OnWrite tells the reason in one line.
func (g giveUp) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	reason := entry.Message
	encoder := zapcore.NewMapObjectEncoder()
	for _, field := range fields {
		field.AddTo(encoder)
	}
	if err, ok := encoder.Fields["error"]; ok {
		reason = fmt.Sprintf("%s: %v", reason, err)
	}
	fmt.Fprintf(g.output, "data directory %s: etcd gives up: %s: enlarge the volume if it is full, otherwise restore a backup or start with an empty directory\n", g.directory, reason)
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
		c.logger.Error(errors.New(entry.Message), "etcd failed", keysAndValues...)
	case entry.Level == zapcore.WarnLevel:
		c.logger.Info("etcd warns", append(keysAndValues, "warning", entry.Message)...)
	default:
		c.logger.V(chatter).Info("etcd says", append(keysAndValues, "message", entry.Message)...)
	}
	return nil
}

func (c *core) Sync() error { return nil }
