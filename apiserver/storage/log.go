// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// zapLogger lets etcd's warnings and errors appear among ours; what it
// chatters about itself is for verbosity 4 and up.
func zapLogger(logger klog.Logger) *zap.Logger {
	return zap.New(&core{logger: logger})
}

// chatter is the verbosity that shows what etcd says at level info.
const chatter = 4

// core is a zapcore.Core on top of a klog.Logger.
type core struct {
	logger klog.Logger
	fields []zapcore.Field
}

var _ zapcore.Core = &core{}

func (c *core) Enabled(level zapcore.Level) bool {
	if level >= zapcore.WarnLevel {
		return true
	}
	return level == zapcore.InfoLevel && c.logger.V(chatter).Enabled()
}

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{logger: c.logger, fields: append(c.fields[:len(c.fields):len(c.fields)], fields...)}
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
