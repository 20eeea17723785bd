// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"github.com/virtual-kubelet/virtual-kubelet/log"
	"k8s.io/klog/v2"
)

// quiet keeps what virtual-kubelet says of every pod for those who ask for
// it: it says that a pod was created when that was only asked for.
type quiet struct{ log.Logger }

// Info is for verbosity 4.
func (q quiet) Info(args ...any) {
	if klog.V(4).Enabled() {
		q.Logger.Info(args...)
	}
}

// Infof is for verbosity 4.
func (q quiet) Infof(format string, args ...any) {
	if klog.V(4).Enabled() {
		q.Logger.Infof(format, args...)
	}
}

// WithField is as quiet.
func (q quiet) WithField(key string, value any) log.Logger {
	return quiet{q.Logger.WithField(key, value)}
}

// WithFields is as quiet.
func (q quiet) WithFields(fields log.Fields) log.Logger { return quiet{q.Logger.WithFields(fields)} }

// WithError is as quiet.
func (q quiet) WithError(err error) log.Logger { return quiet{q.Logger.WithError(err)} }
