// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"io"
	"net"
)

// pipe copies data between two connections until both directions have ended or one fails, and closes both.
func pipe(a, b net.Conn) {
	done := make(chan bool, 2)
	go func() { done <- copyAll(a, b) }()
	go func() { done <- copyAll(b, a) }()
	if complete := <-done; !complete {
		a.Close()
		b.Close()
	}
	<-done
	a.Close()
	b.Close()
}

// copyAll copies data in one direction and closes the write side at its end. It reports whether everything was
// copied.
func copyAll(to, from net.Conn) bool {
	if _, err := io.Copy(to, from); err != nil {
		return false
	}
	half, ok := to.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}
