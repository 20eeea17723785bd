// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"time"
)

const (
	// requestTimeout is the time limit of a request other than rsync. Writing all data to the disk, or reading the sizes
	// of many files, may take minutes.
	requestTimeout = 10 * time.Minute
	// passTimeout is the time limit of a request to pathPass.
	passTimeout = 30 * time.Second
)

// client returns an HTTP client for the receiver. Connections are not reused, because the receiver may have been
// replaced since the last request. It fails if the certificate cannot be read.
func (o *Options) client() (*http.Client, error) {
	config, err := o.tlsConfig()
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: config, TLSHandshakeTimeout: handshakeTimeout,
		DisableKeepAlives: true, MaxResponseHeaderBytes: maxRequest,
	}}, nil
}

// request sends a request other than rsync to the receiver. It fails with a connectionError if the receiver is
// unreachable, which is retried, and with the receiver's error otherwise.
func (s *sender) request(ctx context.Context, method, path string, timeout time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sent, err := http.NewRequestWithContext(ctx, method,
		(&url.URL{Scheme: "https", Host: s.Address, Path: path}).String(), nil)
	if err != nil {
		return answer{}, fmt.Errorf("connecting to the receiver: %w", err)
	}
	response, err := s.client.Do(sent)
	if err != nil {
		return answer{}, &connectionError{message: sanitize("connecting to the receiver: " + err.Error())}
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return answer{}, refusal(response)
	}
	var a answer
	if err := json.NewDecoder(io.LimitReader(response.Body, maxRequest)).Decode(&a); err != nil {
		return answer{}, &connectionError{message: sanitize("reading the response of the receiver: " + err.Error())}
	}
	s.observe(a.Receiver)
	return a, nil
}

// refusal returns an error with the text, otherwise the HTTP status, of a response in which a receiver reports a
// failure.
func refusal(response *http.Response) error {
	// If the body cannot be read, the error has the HTTP status.
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxRequest))
	return fmt.Errorf("receiving: %s", cmp.Or(sanitize(string(text)), sanitize(response.Status)))
}

// connect implements the remote shell of rsync. The first two of args are the names of the host and of the program.
// connect makes the receiver run rsync with the other ones as arguments, and copies data between the local and the
// remote rsync process.
func connect(ctx context.Context, o *Options, args []string, in io.Reader, out io.Writer) error {
	if len(args) < 3 {
		return errors.New("reading arguments: arguments for rsync on the receiver are missing")
	}
	connection, err := o.dial(ctx)
	if err != nil {
		return fmt.Errorf("connecting to the receiver: %w", err)
	}
	defer func() { _ = connection.Close() }()
	defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
	to := url.URL{Scheme: "https", Host: o.Address, Path: pathRsync, RawQuery: url.Values{"arg": args[2:]}.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), nil)
	if err != nil {
		return fmt.Errorf("connecting to the receiver: %w", err)
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "rsync")
	if err := request.Write(connection); err != nil {
		return fmt.Errorf("requesting rsync: %w", err)
	}
	// The header of the response is limited, and the data that follows is not.
	limited := &io.LimitedReader{R: connection, N: maxRequest}
	received := bufio.NewReader(limited)
	response, err := http.ReadResponse(received, request)
	if err != nil {
		return fmt.Errorf("requesting rsync: %w", err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return refusal(response)
	}
	limited.N = math.MaxInt64
	go func() {
		_, _ = io.Copy(connection, in)
		// CloseWrite closes one direction only, because the receiver may still send.
		_ = connection.CloseWrite()
	}()
	if _, err := io.Copy(out, received); err != nil {
		return fmt.Errorf("reading from the receiver: %w", err)
	}
	return nil
}

func (o *Options) dial(ctx context.Context) (*tls.Conn, error) {
	config, err := o.tlsConfig()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	connection, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", o.Address)
	if err != nil {
		return nil, err
	}
	return connection.(*tls.Conn), nil
}
