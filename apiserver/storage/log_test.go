// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2/ktesting"
)

func TestLogOfEtcdIsFilteredByLevelAndQuiet(t *testing.T) {
	tests := map[string]struct {
		quiet bool
		log   func(*zap.Logger)
		want  string
	}{
		"a warning":                 {log: func(l *zap.Logger) { l.Warn("slow disk", zap.Int("ms", 200)) }, want: `warning="slow disk"`},
		"its fields":                {log: func(l *zap.Logger) { l.With(zap.String("a", "b")).Warn("slow", zap.Int("ms", 200)) }, want: `a="b" ms=200`},
		"an error":                  {log: func(l *zap.Logger) { l.Error("broken", zap.Error(errors.New("no space"))) }, want: `err="broken"`},
		"information":               {log: func(l *zap.Logger) { l.Info("compacted") }},
		"a warning while it starts": {quiet: true, log: func(l *zap.Logger) { l.Warn("alone in the cluster") }},
		"an error while it stops":   {quiet: true, log: func(l *zap.Logger) { l.Error("server closed") }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(chatter-1)))
			var quiet atomic.Bool
			quiet.Store(test.quiet)
			test.log(zapLogger(logger, &quiet, "/data"))
			got := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("got log %q, want %q in it", got, test.want)
			}
		})
	}
}

func TestPanicOfEtcdWritesOneLine(t *testing.T) {
	for name, hook := range map[string]func(zapcore.CheckWriteHook) zap.Option{"panic": zap.WithPanicHook,
		"fatal": zap.WithFatalHook} {
		t.Run(name, func(t *testing.T) {
			var output bytes.Buffer
			code := 0
			end := giveUp{directory: "/data", output: &output, exit: func(c int) {
				code = c
				// The function must not return, like os.Exit.
				panic("exit")
			}}
			logger := zap.New(zapcore.NewNopCore(), hook(end))
			func() {
				defer func() {
					if recover() != "exit" {
						t.Error("the process would have gone on")
					}
				}()
				if name == "panic" {
					logger.Panic("failed to create WAL", zap.Error(errors.New("no space left on device")))
				} else {
					logger.Fatal("failed to create WAL", zap.Error(errors.New("no space left on device")))
				}
			}()
			got := output.String()
			if code != 1 ||
				!strings.HasPrefix(got, "data directory /data: etcd gives up: failed to create WAL: no space left on device: ") ||
				strings.Count(got, "\n") != 1 {
				t.Errorf("got exit code %d and %q", code, got)
			}
		})
	}
}
