// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"liqo.io/federation/netagent/kernel"
)

const (
	streamPort, packetPort, requestPort = 7001, 7002, 7003
	// warmUp is the time after the start of traffic that is not measured.
	warmUp = 300 * time.Millisecond
	// patience is the timeout of one connection or answer.
	patience = 10 * time.Second
	// askers and requesters are the numbers of concurrent clients that send packets and requests.
	askers, requesters = 32, 8
	// small is the payload of a small packet, in bytes.
	small = 64
)

// flow is traffic from one pod to another. address is the address by which the first pod reaches the second one.
type flow struct {
	from, to *kernel.Namespace
	address  netip.Addr
}

// stream sends over one TCP connection for a period, and returns the received bits per second.
func (f flow) stream(ctx context.Context, period time.Duration) (float64, error) {
	listener, err := f.listen(streamPort)
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	var arrived atomic.Int64
	var reading sync.WaitGroup
	defer reading.Wait()
	reading.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buffer := make([]byte, 256<<10)
		for {
			n, err := conn.Read(buffer)
			arrived.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	conn, err := f.dial(ctx, "tcp", streamPort)
	if err != nil {
		listener.Close()
		return 0, err
	}
	defer conn.Close()
	failed := make(chan error, 1)
	go func() {
		buffer := make([]byte, 256<<10)
		for {
			if _, err := conn.Write(buffer); err != nil {
				failed <- err
				return
			}
		}
	}()
	return rate(ctx, period, failed, func() float64 { return 8 * float64(arrived.Load()) })
}

// packets exchanges small UDP packets for a period, and returns the number of received packets per
// second in both directions together.
func (f flow) packets(ctx context.Context, period time.Duration) (float64, error) {
	var server net.PacketConn
	if err := f.to.Do(func() (err error) {
		server, err = net.ListenPacket("udp4", fmt.Sprintf(":%d", packetPort))
		return err
	}); err != nil {
		return 0, err
	}
	defer server.Close()
	go answer(server)
	var arrived atomic.Int64
	failed := make(chan error, askers)
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	for range askers {
		conn, err := f.dial(ctx, "udp", packetPort)
		if err != nil {
			return 0, err
		}
		asking.Go(func() {
			defer conn.Close()
			buffer := make([]byte, small)
			for ctx.Err() == nil {
				if _, err := conn.Write(buffer); err != nil {
					failed <- err
					return
				}
				_ = conn.SetReadDeadline(time.Now().Add(warmUp))
				if _, err := conn.Read(buffer); err == nil {
					arrived.Add(2)
				} else if !errors.Is(err, os.ErrDeadlineExceeded) {
					failed <- err
					return
				}
			}
		})
	}
	return rate(ctx, period, failed, func() float64 { return float64(arrived.Load()) })
}

// answer returns each packet to its sender until the socket is closed.
func answer(server net.PacketConn) {
	buffer := make([]byte, small)
	for {
		n, from, err := server.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = server.WriteTo(buffer[:n], from)
		}
	}
}

// requests sends small HTTP requests for a period, each over a new connection, and returns the
// number of answers per second.
func (f flow) requests(ctx context.Context, period time.Duration) (float64, error) {
	listener, err := f.listen(requestPort)
	if err != nil {
		return 0, err
	}
	server := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }),
		ReadHeaderTimeout: patience}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return f.dial(ctx, "tcp", requestPort)
		},
	}}
	var answered atomic.Int64
	failed := make(chan error, requesters)
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	for range requesters {
		asking.Go(func() {
			for ctx.Err() == nil {
				if err := get(ctx, client, "http://pod/"); err != nil && ctx.Err() == nil {
					failed <- err
					return
				}
				answered.Add(1)
			}
		})
	}
	return rate(ctx, period, failed, func() float64 { return float64(answered.Load()) })
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

func (f flow) listen(port int) (listener net.Listener, err error) {
	err = f.to.Do(func() (err error) {
		listener, err = net.Listen("tcp4", fmt.Sprintf(":%d", port))
		return err
	})
	return listener, err
}

func (f flow) dial(ctx context.Context, network string, port uint16) (conn net.Conn, err error) {
	dialer := net.Dialer{Timeout: patience}
	err = f.from.Do(func() (err error) {
		conn, err = dialer.DialContext(ctx, network, netip.AddrPortFrom(f.address, port).String())
		return err
	})
	return conn, err
}

// rate returns the growth of count per second during a period after the warm-up. It fails if failed
// receives an error.
func rate(ctx context.Context, period time.Duration, failed <-chan error, count func() float64) (float64, error) {
	if err := wait(ctx, warmUp, failed); err != nil {
		return 0, err
	}
	before, began := count(), time.Now()
	if err := wait(ctx, period, failed); err != nil {
		return 0, err
	}
	grown, took := count()-before, time.Since(began)
	if grown == 0 {
		return 0, errors.New("no traffic arrives")
	}
	return grown / took.Seconds(), nil
}

// wait waits for a period. It fails if the context ends or failed receives an error.
func wait(ctx context.Context, period time.Duration, failed <-chan error) error {
	timer := time.NewTimer(period)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-failed:
		return err
	case <-timer.C:
		return nil
	}
}
