// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// responseTimeout is the timeout for the header of a response and for the body of one that is not a stream.
	responseTimeout = 30 * time.Second
	// maxResponse is the maximum length of a response that is not a stream, in bytes. The lists that are read here
	// are smaller.
	maxResponse = 16 << 20
)

var (
	// ErrRedirect is returned for a redirect, which no API server sends.
	ErrRedirect = errors.New("the peer redirects, which is refused: set the URL to which it redirects")
	// ErrResponseTooLarge is returned for a response that exceeds maxResponse.
	ErrResponseTooLarge = fmt.Errorf("the peer's response is larger than %d bytes", maxResponse)

	errResponseTimeout = fmt.Errorf("the peer did not respond within %v", responseTimeout)
)

// guard is a transport that refuses redirects and bounds the length and the duration of responses that are no streams.
type guard struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper. It fails with ErrRedirect for a redirect, and with a timeout; reading the
// body fails with ErrResponseTooLarge.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	timer := time.AfterFunc(responseTimeout, func() { cancel(errResponseTimeout) })
	response, err := g.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		timer.Stop()
		if cause := context.Cause(ctx); errors.Is(cause, errResponseTimeout) {
			err = cause
		}
		cancel(err)
		return nil, err
	}
	switch {
	case response.StatusCode == http.StatusSwitchingProtocols:
		// The body is the connection itself, which must not be wrapped.
		timer.Stop()
		context.AfterFunc(request.Context(), func() { cancel(context.Canceled) })
		return response, nil
	case response.StatusCode >= 300 && response.StatusCode < 400:
		timer.Stop()
		closeErr := response.Body.Close()
		cancel(ErrRedirect)
		return nil, errors.Join(
			fmt.Errorf("%s responds with %s: %w", request.URL.Host, response.Status, ErrRedirect), closeErr)
	}
	body := &guardedBody{ReadCloser: response.Body, cancel: cancel, timer: timer}
	if bounded(request, response) {
		body.left = maxResponse
		body.bounded = true
	} else {
		timer.Stop()
	}
	response.Body = body
	return response, nil
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (g *guard) WrappedRoundTripper() http.RoundTripper { return g.next }

// bounded reports whether a response is a single object, and not a watch, a log or another stream.
func bounded(request *http.Request, response *http.Response) bool {
	if request.URL.Query().Has("watch") && response.StatusCode == http.StatusOK {
		return false
	}
	if response.StatusCode >= 400 {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		return true
	}
	switch mediaType {
	case runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, runtime.ContentTypeYAML, runtime.ContentTypeCBOR:
		return true
	}
	return false
}

type guardedBody struct {
	io.ReadCloser
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	bounded bool
	left    int64
}

// Read implements io.Reader. It reads one byte more than allowed, to distinguish a body of the maximum length from a
// larger one.
func (b *guardedBody) Read(p []byte) (int, error) {
	if !b.bounded {
		return b.ReadCloser.Read(p)
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, ErrResponseTooLarge
	}
	return n, err
}

// Close closes the body and cancels the request.
func (b *guardedBody) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(context.Canceled)
	return err
}
