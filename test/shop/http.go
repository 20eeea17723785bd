// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

const (
	// patience is the timeout of a request to another service.
	patience = 5 * time.Second
	// maxBody is the maximal size of a response, in bytes.
	maxBody = 64 << 10
)

// handler returns a value that is sent to the client as JSON, or an error.
type handler func(*http.Request) (any, error)

// status is an error that is sent with an HTTP status code.
type status struct {
	code    int
	message string
}

func (s status) Error() string { return s.message }

// serve serves HTTP until the context ends, on the address in ADDRESS or on port 8080.
func serve(ctx context.Context, routes map[string]http.Handler) error {
	mux := http.NewServeMux()
	for pattern, route := range routes {
		mux.Handle(pattern, route)
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	server := &http.Server{Addr: env("ADDRESS", ":8080"), Handler: mux, ReadHeaderTimeout: patience}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	slog.Info("serves HTTP", "address", server.Addr)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return server.Shutdown(ctx)
}

// ServeHTTP sends the result of the handler as JSON, and logs the request.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	answer, err := h(r)
	code := http.StatusOK
	if err != nil {
		code = http.StatusBadGateway
		if known, ok := errors.AsType[status](err); ok {
			code = known.code
		}
		answer = map[string]string{"error": err.Error()}
	}
	slog.Info("answered", "method", r.Method, "path", r.URL.Path, "status", code)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// An error means that the client has disconnected.
	_ = json.NewEncoder(w).Encode(answer)
}

var client = &http.Client{Timeout: patience}

// ask sends a request to another service, and decodes the response from JSON. A status code other
// than 2xx is returned as an error with the same status.
func ask[T any](ctx context.Context, method, url string) (T, error) {
	var got T
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return got, err
	}
	response, err := client.Do(request)
	if err != nil {
		return got, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return got, fmt.Errorf("%s %s: %w", method, url, err)
	}
	if response.StatusCode/100 != 2 {
		return got, status{response.StatusCode,
			fmt.Sprintf("%s %s: %s: %s", method, url, response.Status, bytes.TrimSpace(text))}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		return got, fmt.Errorf("%s %s: %w", method, url, err)
	}
	return got, nil
}

// query returns the query of a URL. pairs are alternating names and values.
func query(pairs ...string) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return values.Encode()
}
