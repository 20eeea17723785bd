// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// serve serves HTTP until SIGTERM or a request for /exit?code=N, and returns the exit code. It logs
// a line for each request to stdout, and echoes UDP datagrams on the same port.
func serve(address string) (int, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return 1, err
	}
	codes := make(chan int, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "hello from %s\n", hostname)
	})
	mux.HandleFunc("GET /client", func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprintln(w, host)
	})
	mux.HandleFunc("GET /zeros/{bytes}", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseInt(r.PathValue("bytes"), 10, 64)
		if err != nil || n < 0 || n > maxZeros {
			http.Error(w, fmt.Sprintf("%q is not between 0 and %d", r.PathValue("bytes"), maxZeros), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
		// The client detects a body that is too short.
		_, _ = io.CopyN(w, zeros{}, n)
	})
	mux.HandleFunc("GET /log/{line}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.PathValue("line"))
	})
	mux.HandleFunc("POST /append/{line}", func(w http.ResponseWriter, r *http.Request) {
		if err := appendLine("/data/log", r.PathValue("line")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("GET /exit", func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.FormValue("code"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		select {
		case codes <- code:
		default:
		}
	})
	go echo()
	packets, err := net.ListenPacket("udp", address)
	if err != nil {
		return 1, err
	}
	go echoPackets(packets)

	server := &http.Server{Addr: address, Handler: mux}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	fmt.Printf("serving on %s as %s\n", address, hostname)

	select {
	case err := <-failed:
		if !errors.Is(err, http.ErrServerClosed) {
			return 1, err
		}
		return 0, nil
	case code := <-codes:
		fmt.Printf("ending with %d\n", code)
		// The client of /exit has to receive its response, because it would repeat the request
		// otherwise.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return code, server.Shutdown(ctx)
	case <-terminated:
		fmt.Println("terminated")
		return 0, nil
	}
}

// appendLine appends a line to a file, and returns when it is stored on the disk.
func appendLine(path, line string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, line)
	return errors.Join(err, file.Sync(), file.Close())
}

// echo copies lines from stdin to stdout, for tests of kubectl attach.
func echo() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Printf("read %q\n", lines.Text())
	}
}

// maxZeros is the maximal size of a response, in bytes.
const maxZeros = 1 << 30

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// echoPackets returns every datagram to its sender until the process ends.
func echoPackets(packets net.PacketConn) {
	buffer := make([]byte, 1<<16)
	for {
		n, from, err := packets.ReadFrom(buffer)
		if err != nil {
			fmt.Println("reading datagrams:", err)
			return
		}
		if _, err := packets.WriteTo(buffer[:n], from); err != nil {
			fmt.Println("answering a datagram:", err)
		}
	}
}
