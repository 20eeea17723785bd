// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"liqo.io/federation/netagent/agent"
)

func TestWhoCannotBeListenedForIsToldUntilHeIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		g := &Gateway{loop: agent.NewLoop(time.Minute, func(context.Context) error { return nil })}
		go g.loop.Run(ctx)
		says := func(what, want string) {
			t.Helper()
			synctest.Wait()
			got := ""
			if err := g.ready(); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s it says: %q", what, got)
			}
		}
		var taken atomic.Bool
		var tries atomic.Int32
		taken.Store(true)
		broken, done := make(chan error), make(chan struct{})
		go func() {
			defer close(done)
			g.listeners.keep(ctx, "somebody", func(ctx context.Context) (func() error, error) {
				if tries.Add(1); taken.Load() {
					return nil, errors.New("the port is taken")
				}
				return func() error {
					select {
					case err := <-broken:
						return err
					case <-ctx.Done():
						return ctx.Err()
					}
				}, nil
			})
		}()
		const cannot = "listening for somebody: the port is taken"
		says("at first", cannot)
		g.listeners.note("anybody", errors.New("listening for anybody: no address"))
		says("while there is something else", "listening for anybody: no address; "+cannot)
		g.listeners.note("anybody", nil)
		time.Sleep(time.Minute)
		says("after a minute", cannot)
		taken.Store(false)
		time.Sleep(listenRetry)
		says("once the port is free", "")
		before := tries.Load()
		time.Sleep(time.Hour)
		if more := tries.Load() - before; more != 0 {
			t.Errorf("while it serves it was tried %d times more", more)
		}
		taken.Store(true)
		broken <- errors.New("no luck")
		says("when it has ended", cannot)
		taken.Store(false)
		time.Sleep(listenRetry)
		says("when it serves again", "")
		cancel()
		<-done
		says("at the end", "")
	})
}

func TestWhoseThePortIsCanBeFoundOut(t *testing.T) {
	here, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	_, failure := net.ListenPacket("udp4", here.LocalAddr().String())
	for name, test := range map[string]struct {
		err      error
		protocol string
		setting  string
		want     string
	}{
		"it has no setting":    {failure, "udp", "", failure.Error() + ": UDP port 5873 of this node is somebody else's, ss -lunp tells whose: free it"},
		"it has one":           {failure, "tcp", "network.port", failure.Error() + ": TCP port 5873 of this node is somebody else's, ss -ltnp tells whose: free it, or choose another network.port in the values of the chart"},
		"the node is at fault": {unix.EADDRNOTAVAIL, "udp", "", unix.EADDRNOTAVAIL.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			if got := portTaken(test.err, test.protocol, 5873, test.setting); got.Error() != test.want || !errors.Is(got, test.err) {
				t.Errorf("%v", got)
			}
		})
	}
}
