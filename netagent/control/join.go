// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"io"
	"net"
)

// join carries bytes between two connections, until both sides have said all or
// one of them fails, and closes both.
func join(a, b net.Conn) {
	done := make(chan bool, 2)
	go func() { done <- carry(a, b) }()
	go func() { done <- carry(b, a) }()
	if complete := <-done; !complete {
		a.Close()
		b.Close()
	}
	<-done
	a.Close()
	b.Close()
}

// carry copies what comes from one side to the other, and tells that one when
// there is no more. It tells whether everything has arrived.
func carry(to, from net.Conn) bool {
	if _, err := io.Copy(to, from); err != nil {
		return false
	}
	half, ok := to.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}
