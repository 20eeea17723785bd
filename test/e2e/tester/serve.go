// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// serve answers until SIGTERM, or until somebody asks for an end by
// GET /exit?code=N. What is logged goes to stdout, a line a request.
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
	mux.HandleFunc("GET /log/{line}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.PathValue("line"))
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
		// Whoever asked for the end gets an answer first: without one it asks
		// again, of nobody.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return code, server.Shutdown(ctx)
	case <-terminated:
		fmt.Println("terminated")
		return 0, nil
	}
}

// echo lets a test that attaches see that its input arrived.
func echo() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Printf("read %q\n", lines.Text())
	}
}
