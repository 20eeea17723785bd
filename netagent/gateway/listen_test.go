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

func TestListenErrorsAreReportedUntilResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		g := &Gateway{
			loop: agent.NewLoop(time.Minute, func(context.Context) error { return nil }), keys: newKeyring(),
		}
		go g.loop.Run(ctx)
		expectErr := func(what, want string) {
			t.Helper()
			synctest.Wait()
			got := ""
			if err := g.ready(); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s: Err returned %q", what, got)
			}
		}
		expectErr("without a key", "there is no private key yet: see Secret federation-wireguard")
		if err := g.keys.set([]byte(key(1))); err != nil {
			t.Fatal(err)
		}
		var taken atomic.Bool
		var tries atomic.Int32
		taken.Store(true)
		broken, done := make(chan error), make(chan struct{})
		go func() {
			defer close(done)
			g.listeners.run(ctx, "a client", func(ctx context.Context) (func() error, error) {
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
		const cannot = "listening for a client: the port is taken"
		expectErr("at first", cannot)
		g.listeners.setError("a different client", errors.New("listening for a different client: no address"))
		expectErr("while another one fails", cannot+"; listening for a different client: no address")
		g.listeners.setError("a different client", nil)
		time.Sleep(time.Minute)
		expectErr("after a minute", cannot)
		taken.Store(false)
		time.Sleep(listenRetry)
		expectErr("once the port is free", "")
		before := tries.Load()
		time.Sleep(time.Hour)
		if more := tries.Load() - before; more != 0 {
			t.Errorf("%d further attempts to listen while serving", more)
		}
		taken.Store(true)
		broken <- errors.New("no luck")
		expectErr("when it has ended", cannot)
		taken.Store(false)
		time.Sleep(listenRetry)
		expectErr("when it serves again", "")
		cancel()
		<-done
		expectErr("at the end", "")
	})
}

func TestPortInUseHasAHint(t *testing.T) {
	taken, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, failure := net.ListenPacket("udp4", taken.LocalAddr().String())
	for name, test := range map[string]struct {
		err      error
		protocol string
		setting  string
		want     string
	}{
		"without a setting": {
			failure, "udp", "",
			failure.Error() + ": UDP port 5873 of this node is in use by the process that ss -lunp shows: free it",
		},
		"with a setting": {
			failure, "tcp", "network.port",
			failure.Error() + ": TCP port 5873 of this node is in use by the process that ss -ltnp shows: free it, " +
				"or set network.port in the values of the chart to another port",
		},
		"another error": {unix.EADDRNOTAVAIL, "udp", "", unix.EADDRNOTAVAIL.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			if got := withPortHint(test.err, test.protocol, 5873, test.setting); got.Error() != test.want ||
				!errors.Is(got, test.err) {
				t.Errorf("%v", got)
			}
		})
	}
}
