// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/virtual-kubelet/virtual-kubelet/log"
	"github.com/virtual-kubelet/virtual-kubelet/log/klogv2"
	"k8s.io/klog/v2"
)

// LogQuietly sets the logger of the library virtual-kubelet to klog. Its informational messages, some for every pod,
// are logged at verbosity 4.
func LogQuietly() { log.L = quiet{klogv2.New(nil)} }

// quiet is a logger of virtual-kubelet that logs informational messages at verbosity 4.
type quiet struct{ log.Logger }

// Info logs at verbosity 4.
func (q quiet) Info(args ...any) {
	if klog.V(4).Enabled() {
		q.Logger.Info(args...)
	}
}

// Infof logs at verbosity 4.
func (q quiet) Infof(format string, args ...any) {
	if klog.V(4).Enabled() {
		q.Logger.Infof(format, args...)
	}
}

// WithField implements log.Logger.
func (q quiet) WithField(key string, value any) log.Logger {
	return quiet{q.Logger.WithField(key, value)}
}

// WithFields implements log.Logger.
func (q quiet) WithFields(fields log.Fields) log.Logger { return quiet{q.Logger.WithFields(fields)} }

// WithError implements log.Logger.
func (q quiet) WithError(err error) log.Logger { return quiet{q.Logger.WithError(err)} }
